"""A Ctrl-C that compiled code swallows is raised again."""

import contextlib
import signal
import threading

import pytest

from mosaic.core.interrupts import ctrl_c_deferred, ctrl_c_kept, raise_if_pressed


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_is_raised_at_once():
    with pytest.raises(KeyboardInterrupt), ctrl_c_kept():
        press()


def test_a_swallowed_one_is_raised_again_and_forgotten_outside():
    with ctrl_c_kept():
        raise_if_pressed()
        with contextlib.suppress(KeyboardInterrupt):
            press()
        with pytest.raises(KeyboardInterrupt):
            raise_if_pressed()
    raise_if_pressed()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_go_on():
    with ctrl_c_kept():
        with contextlib.suppress(KeyboardInterrupt):
            press()
        went_on = []
        thread = threading.Thread(target=lambda: went_on.append(raise_if_pressed()))
        thread.start()
        thread.join()
        assert went_on == [None]


def test_whoever_has_rules_of_his_own_keeps_them():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with ctrl_c_kept():
            press()
            raise_if_pressed()
        assert heard == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_deferred_one_is_raised_when_the_block_has_ended():
    done = []

    def submit_and_follow():
        with ctrl_c_kept():
            with ctrl_c_deferred():
                press()
                done.append("submitted")
            done.append("followed")

    with pytest.raises(KeyboardInterrupt):
        submit_and_follow()
    assert done == ["submitted"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
