"""Evaluations and games that are no runs, watched from the terminal while another process plays them."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from time import monotonic

import pytest
from PIL import Image

from mosaic.store.live_sessions import SessionPictures, list_sessions
from mosaic.telemetry.frames.paths import ring_paths, unfinished
from mosaic.telemetry.frames.requests import FrameRequest

PATIENCE_S = 60
PENDULUM = ("evaluate", "gym/Pendulum-v1", "--agent", "*=random", "--episodes", "10000")


@contextmanager
def playing(home, *words):
    """A command of its own, that goes on until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mosaic", *words],
        env={**os.environ, "MOSAIC_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def eventually(found, process=None):
    deadline_s, pause = monotonic() + PATIENCE_S, threading.Event()
    while not (answer := found()):
        assert process is None or process.poll() is None, process.stderr.read().decode()
        assert monotonic() < deadline_s
        pause.wait(0.02)
    return answer


def begun(home, process):
    (show,) = eventually(lambda: [show for show in list_sessions(home) if show.about().pid == process.pid], process)
    return show


def rings(show):
    return [path for each in ring_paths(show.path) for path in (each, unfinished(each)) if path.exists()]


@pytest.mark.slow
@pytest.mark.chosen
def test_an_evaluation_is_watched_and_a_killed_one_leaves_nothing_after_the_next_start(mosaic, tmp_path):
    home = tmp_path / "home"
    with playing(home, *PENDULUM) as process:
        show = begun(home, process)
        assert show.id.startswith("evaluate-")
        assert rings(show) == []  # nobody has looked yet
        answer = mosaic("watch", show.id, "--picture", "now.png")
        assert answer.code == 0, answer.err
        assert answer.err.startswith("now.png: episode ")
        with Image.open(tmp_path / "now.png") as picture:
            assert picture.width == 500
        assert "env 0 · episode " in mosaic("watch", "evaluate", "--once").out  # a beginning will do
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(rings(show)) == 1
    gone = mosaic("watch", show.id)
    assert gone.code == 2
    assert gone.err.startswith(f"error: There is no run '{show.id}'.")
    assert mosaic("evaluate", "mosaic/gridworld", "--agent", "*=random", "--episodes", "1").code == 0
    assert rings(show) == []
    assert list((home / "live").iterdir()) == []


@pytest.mark.slow
def test_two_at_once_and_several_processes_each_show_their_own(mosaic, tmp_path):
    home = tmp_path / "home"
    board = ("tournament", "classic/tictactoe_v3", "random", "minimax", "--games", "5000", "--num-workers", "2")
    with playing(home, *PENDULUM) as one, playing(home, *board) as two:
        for process, shape in ((one, (500, 500, 3)), (two, None)):
            show = begun(home, process)
            with closing(SessionPictures(show, FrameRequest(100))) as pictures:
                frames = [eventually(pictures.newest, process) for _ in range(3)]
            assert len({frame.pixels.tobytes() for frame in frames}) == 3
            if shape:
                assert {frame.pixels.shape for frame in frames} == {shape}
            else:
                assert all(frame.agent.startswith("player_1=") for frame in frames)
        unknown = mosaic("watch", "nothing")
        assert unknown.code == 2
        said = " ".join(unknown.err.split())
        assert "There is no run 'nothing'." in said
        assert "Active sessions, which can be watched by id: " in said
        assert f"{begun(home, one).id} (gym/Pendulum-v1)" in said


def test_what_is_played_can_be_looked_up_while_it_is_played_and_not_afterwards(mosaic, tmp_path, monkeypatch):
    """`mosaic play` and `mosaic evaluate` in this process, seen by the policy that plays."""
    seen = []
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "looker.py").write_text(
        "look = lambda: None\n"
        "class Looker:\n"
        "    def begin(self, agents, seed): look()\n"
        "    def act(self, turn): return {agent: 0 for agent in turn.observations}\n"
        "    def close(self): pass\n"
        "def make(spec, agent, seed): return Looker()\n"
    )
    import looker

    monkeypatch.setattr(looker, "look", lambda: seen.extend(show.about() for show in list_sessions(tmp_path / "home")))
    for command in ("play", "evaluate"):
        words = ["--episodes", "1"] if command == "evaluate" else []
        answer = mosaic(command, "gym/CartPole-v1", "--agent", "*=python:looker:make", *words)
        assert answer.code == 0, answer.err
    assert [about.kind for about in seen] == ["play", "evaluate"]
    assert {about.env for about in seen} == {"gym/CartPole-v1"}
    assert seen[0].policies == {"*": "python:looker:make"}
    assert list_sessions(tmp_path / "home") == []


def test_a_home_that_cannot_be_written_keeps_nobody_from_evaluating(mosaic, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "live").write_text("")
    answer = mosaic("evaluate", "mosaic/gridworld", "--agent", "*=random", "--episodes", "1")
    assert answer.code == 0
    assert "This cannot be watched:" in answer.err
    assert "mosaic/gridworld: 1 episodes" in answer.out
