"""The Train tab: the form from the schema, presets, the start, and the log of what was started."""

import pytest

from mosaic.config.file_formats import read_document
from mosaic.store.projects.project import add_preset, create_project, read_project
from mosaic.ui.tui.backend.local import LocalBackend
from mosaic.ui.tui.tabs.train import TrainTab
from mosaic.ui.tui.train.form import load_form
from mosaic.ui.tui.train.log import MOST_LINES, LogTail
from mosaic.ui.tui.train.presets import PresetName, list_presets, read_preset, save_settings
from mosaic.ui.tui.widgets.dialogs import Confirm, FieldEditor
from mosaic.ui.tui.widgets.tables import KeyedTable
from mosaic.ui.web.data.draft import Draft
from tests.in_process import trained_here
from tests.ui.tui.fake_backend import FakeBackend
from tests.ui.tui.test_tui_app import app_on, text, until

READY = ("duel-v0", "✓ native ppo")


async def opened(pilot):
    await pilot.press("2")
    await until(pilot, *READY)


async def edit(pilot, key):
    table = pilot.app.query_one("#train-table", KeyedTable)
    table.move_cursor(row=table.get_row_index(key))
    await pilot.press("enter")
    await pilot.pause()


def draft(app):
    return app.query_one(TrainTab)._form.draft


@pytest.mark.asyncio
async def test_a_wrong_value_is_refused_at_its_field_and_a_right_one_taken():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await edit(pilot, "params.lr")
        await pilot.press("ctrl+u", *"7", "enter")
        await until(pilot, "It should be at most 1")
        assert isinstance(app.screen, FieldEditor)
        await pilot.press("ctrl+u", *"0.01", "enter")
        await pilot.pause()
        await edit(pilot, "params.normalise")
        assert draft(app).params == {"lr": 0.01, "normalise": False}
        await pilot.press("backspace")
        assert draft(app).params == {"lr": 0.01}


@pytest.mark.asyncio
async def test_the_cursor_passes_over_headings_so_that_enter_always_opens_something():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        table = app.query_one("#train-table", KeyedTable)
        await pilot.press("home")
        assert table.selected == "env"
        await pilot.press("up")
        assert table.selected == "env"
        visited = []
        for key in ("down", "up"):
            for _ in range(table.row_count):
                await pilot.press(key)
                visited.append(table.selected)
        assert {key for key in visited if key.startswith("#")} == {"#advanced"}
        assert table.selected == "env"
        await pilot.press("slash", *"schedule", "enter", "enter")
        await until(pilot, "choose", "linear")


@pytest.mark.asyncio
async def test_choices_policies_of_agents_and_advanced_settings():
    app = app_on()
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await edit(pilot, "params.schedule")
        await pilot.press("down", "enter")
        await edit(pilot, "agent.agent_10")
        await until(pilot, "random", "other …")
        await pilot.press("end", "up", "enter")
        await until(pilot, "plays random", "schedule: linear")
        assert draft(app).agents == {"agent_10": "random"}
        assert "Num env runners" not in text(app)
        await pilot.press("a")
        await until(pilot, "Resources", "Num env runners")


def test_options_are_basic_or_advanced_as_their_schema_says_and_a_changed_one_is_always_shown():
    form = load_form(LocalBackend(print), Draft(env="gym/CartPole-v1", worker="native", algorithm="ppo"), forget=True)

    def shown(advanced):
        return {row.key: row.section for row in form.rows(advanced=advanced)}

    assert shown(False)["params.learning_rate"] == "Options"
    assert "params.vf_coef" not in shown(False)
    assert shown(True)["params.vf_coef"] == "Advanced options"
    form.take("params.vf_coef", 0.7)
    form.take("checkpoint.keep_last", 9)
    assert shown(False)["params.vf_coef"] == "Advanced options"
    assert shown(False)["checkpoint.keep_last"] == "Checkpoints"


@pytest.mark.asyncio
async def test_an_env_that_is_not_installed_says_what_to_type_and_another_algorithm_has_its_own_form():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await edit(pilot, "env")
        await until(pilot, "far-v0 (not installed)")
        await pilot.press("down", "enter")
        await until(pilot, "Type: pip install far")
        await edit(pilot, "algorithm")
        await pilot.press("down", "enter")
        await until(pilot, "✓ native dqn · 1,000,000 env steps")


@pytest.mark.asyncio
async def test_a_start_shows_the_log_and_keys_concern_the_run():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("t")
        await until(pilot, "run-new running", "RuntimeError: the game file is missing")
        document, seeds, queued = next(each for each in backend.asked if len(each) == 3)
        assert (document["project"], document["training"]["total_timesteps"], seeds, queued) == ("demo", 5000, 1, False)
        await pilot.press("s")
        await until(pilot, "run-new saves and stops")
        await pilot.press("p")
        await until(pilot, "run-new is paused")
        assert {("stop", "run-new"), ("pause", "run-new")} <= {each for each in backend.asked if len(each) == 2}
        await pilot.press("escape")
        await until(pilot, "Environment")
        await pilot.press("y")
        await until(pilot, "waits in the queue")
        await until(pilot, "Number 1 in the queue. Two runs are running.")


@pytest.mark.asyncio
async def test_settings_are_saved_as_a_preset_or_a_file_and_loaded_again(tmp_path):
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await edit(pilot, "run.seeds")
        await pilot.press("ctrl+u", "3", "enter")
        await until(pilot, "3 runs")
        await pilot.press("q")
        assert isinstance(app.screen, Confirm)
        await pilot.press("n", "w", *"quick", "enter")
        await until(pilot, "has the preset quick now")
        assert backend.presets.saved["demo", "quick"]["training"]["total_timesteps"] == 5000
        file = tmp_path / "run.yaml"
        await pilot.press("w", *str(file), "enter")
        await until(pilot, "The settings are in")
        assert read_document(file)["environment"] == {"env_id": "gym/duel-v0"}
        file.write_text(file.read_text().replace("5000", "7000"))
        await pilot.press("o")
        await until(pilot, "a file …")
        await pilot.press("end", "enter", *str(file), "enter")
        await until(pilot, "7,000 env steps")


def test_options_of_a_loaded_draft_that_are_invalid_are_marked():
    loaded = Draft(env="gym/duel-v0", worker="native", algorithm="ppo", params={"lr": 9})
    form = load_form(FakeBackend(), loaded, forget=False)
    assert form.problem.startswith("lr: It should be at most 1")
    form.reset("params.lr")
    assert form.problem == ""
    assert form.draft.params == {}


def test_the_log_keeps_the_newest_lines_and_waits_for_the_end_of_one():
    parts = ["".join(f"line {number}\n" for number in range(600)) + "half a ", "line\n"]

    class Run:
        def show(self):
            return FakeBackend().runs.run("run-c").show()

        def log(self, after=None, size=0, stream="stdout"):
            found = parts.pop(0) if stream == "stdout" and parts and after != 1 else ""
            return FakeBackend().runs.run("run-c").log().model_copy(update={"text": found, "end": 1 - (after or 0)})

    tail = LogTail(Run())
    first = tail.read()
    assert (len(first.lines), first.lines[-1], first.written) == (MOST_LINES, "line 599", 600)
    second = tail.read()
    assert (second.lines[-1], second.written) == ("half a line", 601)


def test_the_project_of_the_folder_is_listed_and_gets_the_saved_preset(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    folder = create_project(tmp_path / "game", {"name": "game", "env": "gym/CartPole-v1"}).folder
    monkeypatch.chdir(folder)
    backend, told = LocalBackend(lambda text: told.append(text)), []
    assert backend.presets.here() == {"environment": {"env_id": "gym/CartPole-v1"}, "project": "game"}
    draft = Draft(env="gym/CartPole-v1", seed=7, further={"project": "game"})
    assert "mosaic train --preset quick" in save_settings(backend, draft, "quick")
    assert list_presets(backend) == [PresetName("game", "quick")]
    assert read_preset(backend, PresetName("game", "quick")) == draft
    twin = create_project(tmp_path / "twin", {"name": "game", "env": "gym/CartPole-v1"}).folder
    monkeypatch.chdir(twin)
    backend.presets.here()
    assert told[0].startswith("This project is not listed. There is a project 'game' already")
    save_settings(backend, draft, "other")
    assert list(read_project(twin).config.train) == ["other"]


def test_a_preset_is_appended_to_a_project_and_what_the_file_has_stays(tmp_path):
    project = create_project(tmp_path / "game", {"name": "game", "env": "gym/CartPole-v1"})
    project.file.write_text("# mine\n" + project.file.read_text())
    add_preset(read_project(project.folder), "quick", {"training": {"total_timesteps": 100}})
    found = read_project(project.folder)
    assert found.settings("quick")["training"] == {"total_timesteps": 100}
    assert found.file.read_text().startswith("# mine")
    with pytest.raises(Exception, match="has a preset 'quick' already"):
        add_preset(found, "quick", {})


def test_what_is_wrong_with_a_run_is_said_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    told = []
    backend = LocalBackend(told.append)
    run = trained_here(
        tmp_path, {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 100}}
    )
    assert [row.run_id for row in backend.runs.rows()] == [run.id]
    (run.folder.path / "state.json").write_text("{{{")
    assert (backend.runs.rows(), backend.runs.rows(), len(told)) == ([], [], 1)
    assert "is damaged" in told[0]
    (run.folder.path / "state.json").write_text("[]")
    backend.runs.rows()
    assert len(told) == 2
