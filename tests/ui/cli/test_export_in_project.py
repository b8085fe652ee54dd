"""`mosaic export` in a project: what was left out comes from its preset, and the run is its newest one."""

from pathlib import Path

import pytest

from mosaic.core.errors import InputError
from mosaic.store.projects.project import create_project
from mosaic.store.store import Store
from mosaic.ui.cli.export_request import TypedExport, with_export_preset
from mosaic.ui.cli.setting_layers import ProjectOptions
from tests.store.store_cases import config, write

HERE = ProjectOptions()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    exports = {"game": {"target": "godot", "out": "models", "policy": "red", "checkpoint": 500, "opset": 13}}
    project = create_project(tmp_path / "maze", {"name": "maze", "export": exports})
    monkeypatch.chdir(project.folder)
    return project.folder


def test_everything_comes_from_the_preset(folder):
    with pytest.raises(InputError, match="The project 'maze' has no run with a checkpoint yet"):
        with_export_preset(TypedExport(), HERE)
    saved = Store().create(config(project="maze"), now=1.0)
    write(saved, 100)
    Store().create(config(project="maze"), now=2.0)  # nothing saved yet
    write(Store().create(config(), now=3.0), 100)  # of no project
    found = with_export_preset(TypedExport(), HERE)
    assert found == TypedExport(saved.run_id, folder / "models", ("red",), "500", "godot", 13)


def test_what_is_typed_wins(folder):
    typed = TypedExport("mine", None, ("blue",), "best", "torchscript")
    assert with_export_preset(typed, HERE) == TypedExport("mine", folder / "models", ("blue",), "best", "torchscript")


def test_a_complete_request_needs_no_preset(folder, tmp_path, monkeypatch):
    typed = TypedExport("mine", Path("x.onnx"))
    assert with_export_preset(typed, HERE) == typed
    assert with_export_preset(typed, ProjectOptions(preset="game")).target == "godot"
    with pytest.raises(InputError, match=r"no export preset 'gane'\. Did you mean 'game'"):
        with_export_preset(typed, ProjectOptions(preset="gane"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="Name a run and an output path: mosaic export RUN --out PATH"):
        with_export_preset(TypedExport("mine"), HERE)
