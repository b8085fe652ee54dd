"""Keys typed ahead: they go to the dialog and the field that they are for, on a machine that is slow too."""

from threading import Event

import pytest
from textual.events import Key
from textual.widgets import Input

from mosaic.core.errors import InputError
from mosaic.ui.tui.key_order import KeyOrder
from mosaic.ui.tui.widgets.dialogs import Choose, Prompt
from mosaic.ui.tui.widgets.filter_bar import FilterBar
from tests.ui.tui.fake_backend import FakeBackend
from tests.ui.tui.test_train_tab import opened
from tests.ui.tui.test_tui_app import app_on, text, until

pytestmark = pytest.mark.asyncio


def burst(app, *keys):
    """Press keys without waiting for what they do, as a fast typist does over a slow connection."""
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


def slow_envs(backend):
    """Let the list of envs wait, and be long enough to be narrowed."""
    ready, first = Event(), backend.catalog.envs()[0]
    rows = [first.model_copy(update={"id": f"gym/env-{number}"}) for number in range(20)]

    def envs():
        ready.wait(30)
        return rows

    backend.catalog.envs = envs
    return ready


async def test_the_rest_of_a_word_goes_to_the_dialog_that_its_first_key_opens():
    backend = FakeBackend()
    ready = slow_envs(backend)
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        backend.asked.clear()
        burst(app, "enter", *"tq-17")  # outside of the dialog, t would start a run and q quit
        await pilot.pause(0.05)
        ready.set()
        await until(pilot, "tq-17")
        assert isinstance(app.screen, Choose)
        assert app.screen.query_one(Input).value == "tq-17"
        assert not [each for each in backend.asked if len(each) == 3]


async def test_escape_gives_up_a_dialog_that_is_not_there_yet():
    backend = FakeBackend()
    ready = slow_envs(backend)
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        burst(app, "enter", "t", "escape")
        await pilot.pause(0.05)
        ready.set()
        await pilot.press("a")
        await until(pilot, "Num env runners")
        assert len(app.screen_stack) == 1
        assert "Starting" not in text(app)


async def test_keys_are_dropped_where_a_dialog_cannot_be_opened():
    backend = FakeBackend()
    go_on = Event()

    def envs():
        go_on.wait(30)
        raise InputError("The server is gone.")

    backend.catalog.envs = envs
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        burst(app, "enter", "t")
        await pilot.pause(0.05)
        go_on.set()
        await until(pilot, "The server is gone.")
        await pilot.press("a")
        await until(pilot, "Num env runners")


async def test_each_line_goes_to_its_own_field():
    app = app_on()
    said = []
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(Prompt("Project", {"Folder": "", "Name": "", "Env": ""}), said.append)
        await until(pilot, "Project", "accept")
        burst(app, *"ab", "enter", *"cd", "enter", *"ef", "enter")
        for _ in range(3000):
            await pilot.pause(0.01)
            if said:
                break
        assert said == [{"Folder": "ab", "Name": "cd", "Env": "ef"}]


async def test_a_word_after_a_slash_goes_to_the_filter():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        burst(app, "slash", *"total")
        await until(pilot, "total", "Total timesteps")
        assert app.tab.query_one(FilterBar).value == "total"
        assert not [each for each in backend.asked if len(each) == 3]  # t would have started a run


@pytest.mark.parametrize(("typed", "chosen"), [("td3", "td3"), ("d", "dqn"), ("sx", "sac"), ("", "ppo")])
async def test_a_short_list_goes_to_what_is_typed(typed, chosen):
    app = app_on()
    said = []
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(Choose("Algorithm", ["ppo", "a2c", "dqn", "sac", "td3", "dagger"], "ppo"), said.append)
        await until(pilot, "Algorithm", "dagger")
        await pilot.press(*typed, "enter")
        for _ in range(3000):
            await pilot.pause(0.01)
            if said:
                break
        assert said == [chosen]


async def test_a_key_that_was_handled_after_the_end_of_the_app_does_no_harm():
    forwarded = []
    order = KeyOrder(app_on(), forwarded.append)  # an app that does not run has no screens, as at its end
    order.passed()
    assert not order.admit(Key("t", "t"))
    await app_on()._forward_key(Key("t", "t"))
    assert not forwarded


async def test_a_long_list_takes_what_it_does_not_contain_where_that_is_allowed():
    app = app_on()
    said = []
    known = [f"classic/game_{number}" for number in range(20)]
    async with app.run_test(size=(80, 24)) as pilot:
        for free, typed in ((True, "python:my.py:Maze"), (True, "game_7"), (False, "python")):
            app.push_screen(Choose("Environment", known, free=free), said.append)
            await until(pilot, "Environment", "classic/game_3")
            await pilot.press(*typed, "enter")
            await pilot.pause()
        await until(pilot, "Nothing matches.")
        assert said == ["python:my.py:Maze", "classic/game_7"]
