"""The file browser in the terminal app: folders, filter, the remembered folder, and what is done with the choice."""

import pytest

from mosaic.ui.tui.backend.files import last_folder
from mosaic.ui.tui.widgets.browser import FileBrowser, reference_of
from mosaic.ui.tui.widgets.dialogs import FieldEditor
from tests.ui.tui.test_tui_app import app_on, until


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the working directory of the app, with a configuration and an environment in folders."""
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    (work / "configs").mkdir(parents=True)
    (work / "configs" / "slow.yaml").write_text(
        "environment: {env_id: gym/duel-v0}\ntraining: {worker: native, algorithm: ppo, total_timesteps: 777}\n"
    )
    (work / "own.py").write_text("")
    monkeypatch.chdir(work)
    return work


@pytest.mark.asyncio
async def test_train_loads_a_configuration_and_the_folder_is_remembered(here):
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until(pilot, "✓ native ppo")
        await pilot.press("o")
        await until(pilot, "browse files")
        await pilot.press("end", "up", "enter")
        await until(pilot, "Choose a configuration · this machine", "configs/")
        await pilot.press(*"conf", "enter")
        await until(pilot, "slow.yaml", "../")
        await pilot.press(*"slow", "enter")
        await until(pilot, "777 env steps")
        await pilot.press("o")
        await until(pilot, "browse files")
        await pilot.press("end", "up", "enter")
        await until(pilot, "slow.yaml")
        assert last_folder("this machine", "config") == str(here / "configs")
        await pilot.press("enter")  # the folder above
        await until(pilot, "configs/")


@pytest.mark.asyncio
async def test_play_takes_an_env_of_ones_own(here):
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, "agent_10")
        await pilot.press("enter")
        await until(pilot, "a file …")
        await pilot.press("end", "up", "enter")
        await until(pilot, "own.py")
        assert isinstance(app.screen, FileBrowser)
        await pilot.press(*"own", "enter")
        await until(pilot, "one of your own")
        assert isinstance(app.screen, FieldEditor)
        await until(pilot, f"python:{here}/own.py:"[-40:])


@pytest.mark.parametrize(
    ("purpose", "path", "reference"),
    [
        ("config", "/a/run.yaml", "/a/run.yaml"),
        ("game", "/a/env.py", "python:/a/env.py:"),
        ("game", "/a/game/project.godot", "godot//a/game"),
        ("game", "/a/game.x86_64", "godot//a/game.x86_64"),
        ("checkpoint", "/a/run/checkpoints/100", "checkpoint:/a/run/checkpoints/100"),
        ("checkpoint", "/a/best.onnx", "onnx:/a/best.onnx"),
        ("checkpoint", "/a/best.zip", "checkpoint:/a/best.zip"),
    ],
)
def test_a_setting_names_what_was_chosen(purpose, path, reference):
    assert reference_of(purpose, path) == reference
