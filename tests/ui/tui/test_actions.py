"""Actions on runs and projects: pause, resume and save on Runs; create, open, rename and remove on Home."""

import pytest
from rich.text import Text

from mosaic.ui.tui.widgets.tables import KeyedTable
from tests.ui.tui.fake_backend import FakeBackend, row
from tests.ui.tui.test_tui_app import app_on, until

pytestmark = pytest.mark.asyncio


async def test_a_run_is_paused_continued_and_saved():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("p")
        await until(pilot, "run-c is paused")
        await pilot.press("p")
        await until(pilot, "run-c continues")
        await pilot.press("k")
        await until(pilot, "run-c is saved")
        assert backend.asked == [("pause", "run-c"), ("resume", "run-c"), ("checkpoint", "run-c")]


async def test_a_failed_run_is_resumed_and_a_finished_one_with_another_limit():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("down", "r")
        await until(pilot, "run-b is resumed")
        await pilot.press("down", "r")
        await until(pilot, "run-a has reached its limit")
        await pilot.press("enter")
        await until(pilot, "run-a is resumed")
        assert backend.asked == [("resume", "run-b"), (("resume", "training.total_timesteps=2000000"), "run-a")]


async def test_stop_says_what_it_did_in_the_state_of_the_run():
    backend = FakeBackend()
    backend.rows_[1] = row("run-b", "queued")
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "queued")
        await pilot.press("down")
        await until(pilot, "Number 1 in the queue. Two runs are running.")
        await pilot.press("s")
        await until(pilot, "run-b was removed from the queue")
        await pilot.press("down", "s")
        await until(pilot, "run-a has ended already: it is finished")
        assert backend.asked == [("stop", "run-b")]


async def test_a_queued_run_is_started():
    backend = FakeBackend()
    backend.rows_ = [row("run-q", "queued", name="waits")]
    backend.runs.start_queued = lambda ref: backend.asked.append(("start", ref))
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "waits")
        await pilot.press("r")
        await until(pilot, "run-q starts")
        assert backend.asked == [("start", "run-q")]


async def test_a_project_is_created_opened_renamed_and_removed():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await until(pilot, "demo")
        await pilot.press("shift+tab", "n")
        await until(pilot, "New project")
        await pilot.press("enter", "enter", "enter")
        await until(pilot, "A project needs a folder")
        await pilot.press("n", *"/lake", "enter", "enter", *"gym/Lake", "enter")
        await until(pilot, "The project lake is ready", "gym/Lake")
        await pilot.press("ctrl+end", "i")
        await until(pilot, "Project lake", "/lake", "env = ")
        await pilot.press("escape", "enter")
        await until(pilot, "The form shows the settings of lake", "gym/Lake")
        await pilot.press("escape", "shift+tab", "ctrl+end", "u", *["backspace"] * 4, *"demo", "enter")
        await until(pilot, "There is a project named 'demo' already")
        await pilot.press("u", *["backspace"] * 4, *"pond", "enter")
        await until(pilot, "lake is named pond now", "pond  gym/Lake")
        await pilot.press("ctrl+end", "d", "y")
        await until(pilot, "pond is removed from the list")
        assert list(backend.projects.kept) == ["demo"]


async def test_columns_fit_their_cells_at_once():
    app = app_on()
    async with app.run_test(size=(80, 24)):
        table = app.query_one("#projects", KeyedTable)
        for name in ("a project with a long name", "short"):
            table.fill({"key": (name, Text("[env]"), "—")})
            assert [column.content_width for column in table.ordered_columns] == [
                len(name),
                len("[env]"),
                len("presets"),
            ]


async def test_a_run_gets_another_name_tags_and_a_note_and_is_hidden():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "broken")
        await pilot.press("u")
        await until(pilot, "Labels of run-c", "cart")
        await pilot.press(*"cart-pole", "enter", *"fast new", "enter", *"good", "enter")
        await until(pilot, "The labels of run-c are changed", "cart-pole", "#fast #new good")
        await pilot.press("H")
        await until(pilot, "cart-pole is hidden")
        await until(pilot, "run-b failed")  # the next one is selected
        await pilot.press("slash", *"hidden", "enter")
        await until(pilot, "run-c running")
        await pilot.press("H")
        await until(pilot, "cart-pole is listed again")
        await pilot.press("escape")
        await until(pilot, "running   cart-pole", "failed    broken")
        await pilot.press("end")
        await until(pilot, "run-a finished")
        await pilot.press("home")
        await until(pilot, "run-c running")
        await pilot.press("enter")
        await until(pilot, "cart-pole · running")
    changed = backend.rows_[0]
    assert (changed.name, changed.tags, changed.note, changed.hidden) == ("cart-pole", ("fast", "new"), "good", False)
