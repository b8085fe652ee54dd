"""Pictures of what is trained: only while somebody looks, never at the training's expense."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mosaic.runners.screen import Shot
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.workers.camera import Camera

PICTURE = np.full((4, 6, 3), 7, np.uint8)


class Context:
    """Stands in for a WorkerContext: says when somebody looks, and keeps what was shown."""

    def __init__(self, request=FrameRequest()):  # noqa: B008 — a NamedTuple does not change
        self.wanted, self.request = True, request
        self.frames, self.events = [], []
        self.shown = threading.Event()

    def frame_wanted(self):
        return self.wanted

    def frame_request(self):
        return self.request

    def frame(self, rgb, **facts):
        self.frames.append((rgb, facts))
        self.shown.set()

    def report(self, **fields):
        self.events.append(fields)


class Scene:
    envs = 4

    def __init__(self, *, freezes, draw=lambda: PICTURE, returns=None):
        self.freezes, self.draw, self.returns = freezes, draw, returns or {"agent_0": 1.5}

    def shoot(self, index):
        return Shot(self.draw, index, 100, 3, 0.5, self.returns)


def test_nobody_looks_and_nothing_is_drawn():
    context = Context()
    context.wanted = False

    def refuse():
        raise AssertionError("drawn although nobody looks")

    with Camera(context, Scene(freezes=False, draw=refuse)) as camera:
        camera.glance()
    assert context.frames == []


@pytest.mark.parametrize("freezes", [False, True])
def test_a_picture_comes_with_its_numbers(freezes):
    context = Context(FrameRequest(env=2))
    with Camera(context, Scene(freezes=freezes)) as camera:
        camera.glance()
        assert context.shown.wait(60)
    ((rgb, facts),) = context.frames
    assert rgb.shape == (4, 6, 3)
    assert facts == {"step": 100, "episode": 3, "env": 2, "agent": "", "reward": 0.5, "ret": 1.5}


def test_the_thread_draws_while_the_training_goes_on():
    drawing, go_on = threading.Event(), threading.Event()

    def draw():
        drawing.set()
        assert go_on.wait(60)
        return PICTURE

    context = Context()
    with Camera(context, Scene(freezes=True, draw=draw)) as camera:
        camera.glance()
        assert drawing.wait(60)
        camera.glance()  # busy: returns at once, and no second picture waits
        go_on.set()
        assert context.shown.wait(60)
    assert len(context.frames) == 1


def test_agents_are_named_with_their_returns():
    context = Context()
    with Camera(context, Scene(freezes=False, returns={"red": 1.0, "blue": -2.0})) as camera:
        camera.glance()
    assert context.frames[0][1]["agent"] == "red=1, blue=-2"


def test_a_grid_shows_several_envs():
    context = Context(FrameRequest(env=1, grid=9))
    with Camera(context, Scene(freezes=False)) as camera:
        camera.glance()
    rgb, facts = context.frames[0]
    assert rgb.shape[0] > 4
    assert facts["env"] == 1


def test_an_env_that_cannot_be_drawn_ends_the_pictures_and_not_the_training():
    def draw():
        raise RuntimeError("no display")

    context = Context()
    with Camera(context, Scene(freezes=False, draw=draw)) as camera:
        for _ in range(3):
            camera.glance()
    assert [event["message"] for event in context.events] == [
        "No more pictures: drawing env 0 raised RuntimeError: no display"
    ]
    assert context.frames == []
