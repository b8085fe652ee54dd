"""Metrics tab: the characters of its curves, and the live picture beside them."""

import numpy as np
import pytest

from mosaic.telemetry.frames.reader import Frame
from tests.ui.tui.fake_backend import FakeBackend
from tests.ui.tui.test_tui_app import app_on, text, until

pytestmark = pytest.mark.asyncio
PIXELS = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
FRAME = Frame(number=1, pixels=PIXELS, step=7, episode=3, env=0, agent="", wall_time=0.0, reward=1.0, ret=5.0)


def columns(screen, first, last):
    """Return the columns that have a character between these two."""
    return {place for row in screen.splitlines() for place, letter in enumerate(row) if first <= letter <= last}


@pytest.mark.parametrize("size", [(80, 24), (140, 42)], ids=["80x24", "140x42"])
async def test_curves_are_drawn_over_the_whole_width(size):
    app = app_on()
    async with app.run_test(size=size) as pilot:
        await pilot.press("3")
        await until(pilot, "Return", "30k")
        drawn = columns(text(app), "\u2801", "\u28ff")
    assert len(drawn) > 0.8 * size[0]
    assert max(drawn) == size[0] - 2


async def test_the_live_picture_is_beside_the_curves():
    backend = FakeBackend()
    backend.frame = FRAME
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("3")
        await until(pilot, "Return", "30k")
        await pilot.press("v")
        await until(pilot, "▀▀▀▀", "episode 3", "live")
        await until(pilot, "⠤")
        screen = text(app)
        assert max(columns(screen, "\u2801", "\u28ff")) < min(columns(screen, "▀", "▀"))
        await pilot.press("v")
        await pilot.pause()
        assert "▀" not in text(app)


async def test_a_run_without_a_picture_says_so():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("3")
        await until(pilot, "Return", "30k")
        await pilot.press("v")
        await until(pilot, "No picture yet.", "can be rendered")
        await pilot.press("v")
        backend.drawn = False
        await pilot.press("v")
        await until(pilot, "draws no pictures: it was started with telemetry.frames=false")
