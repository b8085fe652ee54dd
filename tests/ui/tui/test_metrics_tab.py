"""Metrics tab: the characters of its curves, and the live picture beside them."""

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from mosaic.store.views import StartRow
from mosaic.telemetry.frames.reader import Frame
from mosaic.ui.tui.tabs.metrics_view import ComparedRun, settings_table
from tests.ui.tui.fake_backend import NAMES, NOW, FakeBackend
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


async def test_a_store_without_runs_says_how_to_start_one():
    backend = FakeBackend()
    backend.rows_ = []
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, "There are no runs yet.", "Train")


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


async def test_compared_runs_show_only_the_settings_in_which_they_differ():
    runs = [
        ComparedRun(FakeBackend().rows_[0], {"seed": seed, "training": {"params": {"lr": lr, "n": 8}}})
        for seed, lr in ((1, 0.1), (2, 0.2))
    ]
    console = Console(width=80, record=True, file=StringIO())
    console.print(settings_table(runs))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["seed", "1", "2"] in lines
    assert ["lr", "0.1", "0.2"] in lines
    assert not [line for line in lines if line[:1] == ["n"]]


async def test_a_start_says_what_it_is_doing_until_there_are_metrics():
    backend = FakeBackend()
    backend.names_, backend.start = (), StartRow(message="starting Ray", began=NOW - 12)
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, "cart · running", "starting Ray … 12 s")
        assert "no metrics yet" not in text(app)
        backend.names_, backend.start = NAMES, None
        await until(pilot, "Return", "30k")
        assert "starting Ray" not in text(app)


async def test_ratings_come_first_in_self_play_and_an_ended_run_draws_no_picture():
    backend = FakeBackend()
    backend.names_, backend.settings = (*NAMES, "policies/policy_1/rating"), {"policy_configuration": "self_play"}
    backend.rows_ = [backend.rows_[2]]
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, "Rating", "chart 1/", "30k")
        await pilot.press("v")
        await until(pilot, "run-a is finished: a run draws pictures while it trains")
        await pilot.press("b")
        await until(pilot, "no seed group")
