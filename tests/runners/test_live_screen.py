"""Episodes that belong to no run: nothing is drawn, nor even loaded, before somebody rings."""

import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest

from mosaic.core.errors import MosaicError
from mosaic.envs.catalog import make_env
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.local import play_episode
from mosaic.runners.screen import Shot, develop
from mosaic.telemetry.frames.on_demand import LISTEN_EVERY_S
from mosaic.telemetry.frames.paths import request_pictures, ring_paths
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.pictures.captions import Label, from_line

PICTURE = np.full((4, 6, 3), 7, np.uint8)


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def shot(draw=lambda: PICTURE, returns=None, occasion=""):
    return Shot(draw, 0, 5, 2, 0.5, returns or {"agent_0": 1.5}, occasion)


def refuse():
    raise AssertionError("drawn although nobody looks")


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    assert not any(path.exists() for path in ring_paths(tmp_path))


def looked_at(folder):
    """A screen that has just been asked for pictures, and who asked."""
    request_pictures(folder)
    screen = LiveScreen(folder)
    assert screen.wanted()  # the ring is there now, and who asked for it gets a picture
    reader = FrameReader(folder)
    reader.look(rate=1000)
    return screen, reader


def test_before_somebody_rings_there_is_no_ring_and_no_picture(folder):
    clock = Clock()
    with LiveScreen(folder, clock) as screen:
        assert not screen.wanted()
        assert not any(path.exists() for path in ring_paths(folder))
        request_pictures(folder)
        assert not screen.is_watched()  # it listens only now and then
        assert not any(path.exists() for path in ring_paths(folder))
        clock.now_s += LISTEN_EVERY_S
        assert screen.wanted()  # whoever asked gets a picture, even if the end is near
        assert not screen.wanted()  # and more while there is a viewer
        assert any(path.exists() for path in ring_paths(folder))


def test_unwatched_it_does_not_even_load_numba(tmp_path):
    program = (
        "import sys; from pathlib import Path; from mosaic.runners.live_screen import LiveScreen\n"
        "assert not LiveScreen(Path(sys.argv[1])).wanted(); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True)


def test_who_looks_gets_the_picture_with_its_numbers(folder):
    screen, reader = looked_at(folder)
    assert screen.is_watched()
    assert screen.wanted()
    screen.show(shot())
    frame = reader.read()
    assert np.array_equal(frame.pixels, PICTURE)
    assert (frame.step, frame.episode, frame.agent, frame.reward, frame.ret) == (5, 2, "", 0.5, 1.5)
    screen.close()
    assert reader.state() == "finished"
    assert not screen.wanted()
    reader.close()


def test_an_env_that_cannot_be_drawn_ends_the_pictures_and_not_the_game(folder, caplog):
    def draw():
        raise RuntimeError("no display")

    screen, reader = looked_at(folder)
    assert screen.wanted()
    with caplog.at_level(logging.WARNING):
        screen.show(shot(draw))
    assert caplog.messages == ["No more pictures: drawing raised RuntimeError: no display"]
    assert not screen.wanted()
    assert reader.state() == "writer died"
    reader.close()


def test_a_ring_that_cannot_be_made_ends_the_pictures_and_not_the_game(folder, caplog, monkeypatch):
    def full(folder):
        raise MosaicError("There is no room for live pictures.")

    monkeypatch.setattr("mosaic.telemetry.frames.writer.FrameWriter", full)
    request_pictures(folder)
    screen = LiveScreen(folder)
    assert not screen.wanted()
    assert caplog.messages == ["No more pictures: There is no room for live pictures."]
    assert not screen.is_watched()


def test_another_process_writes_in_its_place(folder):
    screen, reader = looked_at(folder)
    screen.close()
    with pickle.loads(pickle.dumps(screen)) as other:
        assert other.wanted()
        reader.look(rate=1000)
        assert other.wanted()
        other.show(shot())
        assert reader.read().step == 5
    reader.close()


def test_an_occasion_is_told_from_an_agent():
    one = develop([shot(occasion="evaluation")])
    assert from_line(one.facts["agent"], 1.5) == [Label("evaluation", ""), Label("return", "1.5")]
    two = develop([shot(returns={"red": 1.0, "blue": -2.0}, occasion="evaluation")])
    assert two.facts["agent"] == "evaluation, red=1, blue=-2"
    assert develop([shot(draw=lambda: None)]) is None


class Audience:
    def __init__(self, eager):
        self.eager, self.shots = eager, []

    def wanted(self):
        return self.eager

    def show(self, shot):
        self.shots.append((shot.draw(), shot.env_steps, dict(shot.returns)))

    def close(self):
        pass


def test_a_played_episode_is_the_same_whether_somebody_looks_or_not(monkeypatch):
    def played(screen):
        env = make_env("classic/tictactoe_v3")
        if screen is None or not screen.eager:
            monkeypatch.setattr(type(env), "render", lambda self: refuse())
        try:
            return play_episode(env, {"*": "random"}, 3, screen=screen)
        finally:
            monkeypatch.undo()
            env.close()

    nobody, somebody = Audience(eager=False), Audience(eager=True)
    alone, unseen, seen = played(None), played(nobody), played(somebody)
    assert alone == unseen == seen
    assert nobody.shots == []
    assert [step for _, step, _ in somebody.shots] == list(range(alone.env_steps + 1))
    assert somebody.shots[-1][2] == alone.returns
    assert len({picture.tobytes() for picture, _, _ in somebody.shots}) == alone.env_steps + 1
