"""The project of the examples: `mosaic train` in its folder needs no arguments."""

import json
import shutil
from pathlib import Path

import pytest

import mosaic
from tests.ui.conftest import mosaic as command  # noqa: F401 - a fixture

FOLDER = Path(__file__).parents[1] / "examples" / "project"


@pytest.mark.slow
@pytest.mark.chosen
def test_the_example_trains(command, tmp_path, monkeypatch, runs_here):  # noqa: F811
    folder = shutil.copytree(FOLDER, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "notes").mkdir()
    monkeypatch.chdir(folder / "notes")
    answer = command("train", "--json")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert (result["state"], result["env_steps"]) == ("finished", 20_000)
    assert result["episode_reward_mean"] > 0.9  # eight places, straight to the end
    assert mosaic.Trainer().runs(project="corridor")[0].id == result["run_id"]


def test_both_presets_and_the_export_are_complete(monkeypatch):
    monkeypatch.chdir(FOLDER)
    project = mosaic.project_here()
    assert project is not None
    assert project.run_config("network").training.worker == "native"
    assert project.run_config().environment.id == f"python:{FOLDER}/corridor.py:Corridor"
    assert project.export_preset().out == str(FOLDER / "exported")
