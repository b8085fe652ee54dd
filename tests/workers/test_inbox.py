"""Commands wait in the inbox until the worker looks."""

import threading

import pytest

from mosaic.workers.inbox import Inbox


def paused(inbox, save=None):
    """A worker that waits while it is paused."""
    thread = threading.Thread(target=inbox.wait_while_paused, args=(save,), daemon=True)
    thread.start()
    return thread


class Told:
    """What the supervisor hears."""

    def __init__(self):
        self.words = []
        self._new = threading.Condition()

    def __call__(self, word):
        with self._new:
            self.words.append(word)
            self._new.notify_all()

    def until(self, word):
        with self._new:
            assert self._new.wait_for(lambda: word in self.words, timeout=60)


def test_nothing_asked():
    told = Told()
    inbox = Inbox(told)
    inbox.wait_while_paused()
    assert (inbox.stop_asked(), inbox.pause_asked(), inbox.checkpoint_asked()) == (None, False, False)
    assert told.words == []


def test_the_first_reason_to_stop_counts():
    inbox = Inbox()
    inbox.put("stop", "asked to")
    inbox.put("stop", "its supervisor died")
    assert inbox.stop_asked() == "asked to"


def test_a_checkpoint_is_asked_for_once():
    inbox = Inbox()
    inbox.put("checkpoint")
    assert [inbox.checkpoint_asked(), inbox.checkpoint_asked()] == [True, False]


@pytest.mark.parametrize("way_out", ["resume", "stop"])
def test_a_pause_ends_by_resume_or_stop(way_out):
    told = Told()
    inbox = Inbox(told)
    inbox.put("pause")
    worker = paused(inbox)
    told.until("paused")
    inbox.put("checkpoint")  # nobody can save: it waits for the end of the pause
    inbox.put(way_out)
    worker.join(timeout=60)
    assert not worker.is_alive()
    assert told.words == ["paused", "resumed"]
    assert inbox.checkpoint_asked()


def test_a_checkpoint_during_a_pause_does_not_end_it():
    told, saved = Told(), threading.Semaphore(0)
    inbox = Inbox(told)
    inbox.put("pause")
    worker = paused(inbox, saved.release)
    told.until("paused")
    for _ in range(2):
        inbox.put("checkpoint")
        assert saved.acquire(timeout=60)
    assert worker.is_alive()
    assert told.words == ["paused"]
    inbox.put("resume")
    worker.join(timeout=60)
    assert told.words == ["paused", "resumed"]


def test_a_pause_after_a_stop_holds_nothing_up():
    inbox = Inbox()
    inbox.put("stop")
    inbox.put("pause")
    assert not inbox.pause_asked()
    inbox.wait_while_paused()


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="'jump' is not a command: stop, pause, resume, checkpoint"):
        Inbox().put("jump")
