"""The file browser over HTTP: folders of projects and runs, and no way out of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.runs.trainer import Trainer
from mosaic.store.projects.project import create_project


@pytest.fixture
def maze(home: Path, tmp_path: Path) -> Path:
    project = create_project(tmp_path / "maze", {"name": "maze", "env": "gym/CartPole-v1"})
    (project.folder / "run.yaml").write_text("seed: 3")
    Trainer(home).projects.register(project)
    return project.folder


def test_folders_of_projects_are_listed_and_configurations_read(api: TestClient, maze: Path) -> None:
    first = api.get("/files").json()
    assert str(maze) in [entry["path"] for entry in first["entries"]]
    names = [entry["name"] for entry in api.get("/files", params={"folder": str(maze)}).json()["entries"]]
    assert names == ["mosaic.toml", "run.yaml"]
    assert api.get("/files/config", params={"file": f"{maze}/run.yaml"}).text == "seed: 3"


@pytest.mark.parametrize("path", ["/", "/etc", "..", "{home}", "{home}/token", "{maze}/..", "{maze}/../secret.yaml"])
def test_what_lies_outside_is_refused(api: TestClient, maze: Path, home: Path, path: str) -> None:
    (maze.parent / "secret.yaml").write_text("token: 1")
    asked = path.format(home=home, maze=maze)
    for reply in (api.get("/files", params={"folder": asked}), api.get("/files/config", params={"file": asked})):
        assert reply.status_code == 400
        assert "is not in a folder that this server shows" in reply.json()["error"]


def test_a_project_that_was_removed_is_not_shown(api: TestClient, maze: Path) -> None:
    api.delete("/projects/maze")
    assert api.get("/files", params={"folder": str(maze)}).status_code == 400
