"""The terminal app on a backend without runs on disk: keys, tabs and messages."""

import asyncio

import pytest

from mosaic.ui.tui.app import TABS, MosaicTui
from mosaic.ui.tui.keys import OF_TABS
from mosaic.ui.tui.notices import StatusLine
from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.widgets.dialogs import Confirm, TooSmall
from tests.ui.tui.fake_backend import NOW, FakeBackend

pytestmark = pytest.mark.asyncio


def text(app):
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips()) + "\n"


async def until(pilot, *words):
    """Wait until the screen has these words."""
    for _ in range(3000):
        await pilot.pause(0.01)
        if all(word in text(pilot.app) for word in words):
            return
    raise AssertionError(f"{words} did not appear:\n{text(pilot.app)}")


def app_on(backend=None):
    return MosaicTui(backend or FakeBackend(), clock=lambda: NOW)


async def test_digits_arrows_and_escape_change_tabs():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        for key, name in (
            ("6", "runs"),
            ("right", "home"),
            ("left", "runs"),
            ("3", "metrics"),
            ("escape", "runs"),
            ("n", "train"),
        ):
            await pilot.press(key)
            assert name == app.tab.NAME


async def test_a_tab_that_opens_never_shares_the_screen_with_the_one_before():
    app = app_on()
    layouts = []
    async with app.run_test(size=(80, 24)) as pilot:

        def note(_):
            layouts.append([tab.NAME for tab in app.query(AppTab) if tab.display])

        app.screen.screen_layout_refresh_signal.subscribe(app.screen, note)
        for digit in "234561":
            await pilot.press(digit)
            await pilot.pause()
    assert {tuple(names) for names in layouts} == {(tab.NAME,) for tab in TABS}


async def test_what_a_thread_finds_after_the_end_is_dropped():
    app = app_on()
    taken = []
    async with app.run_test(size=(80, 24)) as pilot:
        app.aside(lambda: "early", taken.append)
        for _ in range(3000):
            if taken:
                break
            await pilot.pause(0.01)
    await asyncio.to_thread(app.call_from_thread, app._deliver, taken.append, "late")
    assert taken == ["early"]


async def test_enter_opens_a_run_and_keys_change_its_chart():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("enter")
        await until(pilot, "cart · running", "Return")
        assert backend.asked[-1].points <= 160
        await pilot.press("x", "plus", "z")
        await until(pilot, "since the start", "smoothing 0.9")
        await pilot.press("down", "down")
        await until(pilot, "chart 3/")


async def test_marked_runs_are_compared():
    app = app_on()
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("c")
        await until(pilot, "Mark two or more runs")
        await pilot.press("space", "down", "space", "c")
        await until(pilot, "cart and 1 more", "what differs", "last return")
        await pilot.press("i")
        await until(pilot, "Settings of the compared runs")


async def test_the_filter_narrows_the_list_and_escape_ends_it():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken", "cart")
        await pilot.press("slash", *"failed")
        await pilot.pause()
        assert "cart" not in text(app)
        await pilot.press("escape")
        await until(pilot, "cart")


async def test_a_failed_run_shows_its_reason_and_last_lines():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("down")
        await until(pilot, "The worker failed: the game file is missing", "RuntimeError: the game file")


async def test_deleting_asks_first_and_a_refusal_is_shown():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("d")
        assert isinstance(app.screen, Confirm)
        await pilot.press("y")
        await until(pilot, "Stop it first")
        await pilot.press("down", "d", "n")
        assert len(backend.rows_) == 3
        await pilot.press("d", "y")
        await until(pilot, "run-b is deleted")
        assert [row.run_id for row in backend.rows_] == ["run-c", "run-a"]


async def test_stop_concerns_the_selected_run_and_messages_are_kept():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("s")
        await until(pilot, "run-c saves and stops")
        assert ("stop", "run-c") in backend.asked
        await pilot.press("m")
        await until(pilot, "Messages", "run-c saves and stops")


async def test_a_lost_source_is_shown_until_it_is_back():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        backend.lost = "There is no Mosaic server here."
        await until(pilot, "There is no Mosaic server here. · trying again")
        backend.lost, backend.rows_ = "", backend.rows_[:2]
        await until(pilot, "1 running")
        assert app.query_one(StatusLine).lost == ""


async def test_an_unexpected_error_of_a_reader_is_shown_and_it_tries_again():
    backend = FakeBackend()
    load, broken = backend.machine.load, [True]
    backend.machine.load = lambda: {}["gpu"] if broken else load()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "KeyError: 'gpu' · trying again")
        broken.clear()
        await until(pilot, "CPU")


async def test_a_small_terminal_gets_a_message_and_a_larger_one_the_screen():
    app = app_on()
    async with app.run_test(size=(79, 24)) as pilot:
        await until(pilot, "needs a terminal of 80×24; this one is 79×24")
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert not isinstance(app.screen, TooSmall)


async def test_help_and_palette_have_every_key_of_the_tab():
    app = app_on()
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("3", "question_mark")
        await until(pilot, "Quit; runs continue", "Show the chart after this one")
        await pilot.press("end")
        await until(pilot, "Save the chart as PNG")
        await pilot.press("escape")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Tab Runs", "Stop", "Zoom in", "Export", "Next chart", "Suspend", "Back", "Quit"} <= titles
        others = {f"{tab.title()}: {key.title}" for tab, keys in OF_TABS.items() if tab != "metrics" for key in keys}
        assert others <= titles


async def test_the_palette_carries_out_an_action_of_another_tab():
    app = app_on()
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("ctrl+p", *"home doctor")
        await until(pilot, "Home: Doctor")
        await pilot.press("enter")
        await until(pilot, "without mpi4py")


async def test_quitting_ends_the_app():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
    assert app.return_code == 0
