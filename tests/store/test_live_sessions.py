"""What is played now and is no run: found while it lasts, gone afterwards, also when its process was killed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.store.errors import StorageError
from mosaic.store.live_sessions import (
    SessionPictures,
    begin_session,
    end_session,
    find_session,
    list_sessions,
    live_screen,
    sweep_sessions,
)
from mosaic.telemetry.frames.paths import ring_paths
from mosaic.telemetry.frames.requests import FrameRequest

ENV, POLICIES = "gym/CartPole-v1", {"*": "random"}
PROGRAM = """
import sys
from pathlib import Path
from mosaic.store.live_sessions import live_screen
with live_screen("evaluate", "gym/CartPole-v1", {}, session_id="theirs", home=Path(sys.argv[1])) as screen:
    print("begun", flush=True)
    while True:
        screen.wanted()
"""


def left(home):
    return [path.name for path in (home / "live").iterdir()]


def test_it_is_found_by_id_and_by_a_beginning_while_it_lasts(tmp_path):
    with live_screen("evaluate", ENV, POLICIES, home=tmp_path) as screen:
        (show,) = list_sessions(tmp_path)
        assert show.path == screen.folder
        assert show.id.startswith("evaluate-")
        assert (show.about().kind, show.about().env, show.about().policies) == ("evaluate", ENV, POLICIES)
        assert find_session(tmp_path, show.id) == find_session(tmp_path, "eval") == show
    assert list_sessions(tmp_path) == []
    assert not show.is_on()
    assert left(tmp_path) == []


def test_two_at_once_are_told_apart_and_the_newest_comes_first(tmp_path):
    first, second = (begin_session(tmp_path, "play", ENV, {}, name) for name in ("play-1", "play-2"))
    assert list_sessions(tmp_path) == [second, first]
    with pytest.raises(InputError, match=r"2 running games begin with 'play': play-2, play-1\. Type more\."):
        find_session(tmp_path, "play")
    with pytest.raises(UnknownNameError, match=r"no running game named 'play-3'.*Known: play-1, play-2\."):
        find_session(tmp_path, "play-3")
    first.end()
    assert find_session(tmp_path, "play") == second
    second.end()
    second.end()
    end_session(tmp_path, "play-1")
    assert left(tmp_path) == []


def test_a_killed_one_is_over_at_once_and_swept_with_its_ring_at_the_next_start(tmp_path):
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        (show,) = list_sessions(tmp_path)
        pictures = SessionPictures(show, FrameRequest(1000))
        while not any(path.exists() for path in ring_paths(show.path)):
            assert process.poll() is None
            pictures.newest()  # rings
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert list_sessions(tmp_path) == []
    assert pictures.state == "writer died"
    assert show.path.exists()
    with live_screen("play", ENV, {}, session_id="next", home=tmp_path):
        assert left(tmp_path) == ["next"]
        assert not any(path.exists() for path in ring_paths(show.path))
    pictures.close()


def test_what_a_process_left_that_died_while_it_began_is_swept_and_what_lives_is_not(tmp_path):
    mine = begin_session(tmp_path, "play", ENV, {}, "mine")
    (tmp_path / "live" / ".passing-4194305-7-abcd").mkdir()  # no process has such a number
    (tmp_path / "live" / "half").mkdir()
    (tmp_path / "live" / "half" / "about.json").write_text("{")
    assert list_sessions(tmp_path) == [mine]
    sweep_sessions(tmp_path)
    assert left(tmp_path) == ["mine"]
    mine.end()


def test_writers_may_follow_one_another_the_end_is_the_shows(tmp_path):
    with live_screen("evaluate", ENV, {}, session_id="relay", home=tmp_path) as screen:
        (show,) = list_sessions(tmp_path)
        pictures = SessionPictures(show, FrameRequest(1000))
        pictures.newest()
        screen.wanted()
        pictures.newest()
        screen.close()
        assert pictures.state == "waiting"
    assert pictures.state == "finished"
    pictures.newest()  # asks a folder that is gone
    pictures.close()
    assert left(tmp_path) == []


def test_a_home_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "live").write_text("")
    with pytest.raises(
        StorageError, match=r"This cannot be watched: '.*live.*' could not be created: Not a directory\."
    ):
        begin_session(tmp_path, "play", ENV, {})


def test_one_of_an_earlier_boot_is_over_whatever_process_has_its_number_now(tmp_path):
    show = begin_session(tmp_path, "play", ENV, {}, "play-1")
    about = json.loads((show.path / "about.json").read_bytes())
    (show.path / "about.json").write_text(json.dumps({**about, "boot": "00000000-0000-0000-0000-000000000000"}))
    assert not show.is_on()
    (show.path / "about.json").write_text(json.dumps({name: about[name] for name in about if name != "boot"}))
    assert show.is_on(), "as older versions recorded it"
    sweep_sessions(tmp_path)
    show.end()
