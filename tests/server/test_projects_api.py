"""Projects over HTTP: listed, read, created in the server's own folder, renamed; no request chooses a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.runs.trainer import Trainer
from mosaic.store.projects.project import create_project
from tests.server.server_kit import toy


@pytest.fixture
def maze(home: Path, tmp_path: Path) -> Path:
    document = {"name": "maze", "env": "python:env.py:make", "train": {"quick": {"seed": 3}}, "export": {"game": {}}}
    project = create_project(tmp_path / "maze", document)
    (project.folder / "env.py").write_text("raise SystemExit('executed')")
    Trainer(home).projects.register(project)
    return project.folder


def test_projects_are_listed_and_shown_as_data(api: TestClient, maze: Path) -> None:
    (row,) = api.get("/projects").json()
    assert (row["name"], row["state"], row["presets"]) == ("maze", "ok", ["quick"])
    shown = api.get("/projects/maze").json()
    assert shown["settings"]["quick"] == {
        "environment": {"env_id": f"python:{maze}/env.py:make"},
        "seed": 3,
        "project": "maze",
    }
    assert shown["exports"]["game"]["out"] == f"{maze}/exported"
    (maze / "mosaic.toml").unlink()
    assert api.get("/projects/maze").json()["state"] == "missing"


def test_an_unknown_project_is_not_a_path(api: TestClient, maze: Path) -> None:
    for name in ("maize", str(maze).replace("/", "%2F"), "..", "."):
        assert api.get(f"/projects/{name}").status_code in (404, 200 if name in ("..", ".") else 404)
    answer = api.get("/projects/maize")
    assert answer.json()["error"].startswith("There is no project named 'maize'. Did you mean 'maze'?")
    assert api.get("/projects/%2E").status_code == 404
    assert api.delete(f"/projects/{str(maze).replace('/', '%2F')}").status_code == 404


def test_a_project_is_created_in_the_servers_own_folder(api: TestClient, home: Path, tmp_path: Path) -> None:
    made = api.post("/projects", json={"name": "noughts", "env": "classic/tictactoe_v3"})
    assert made.status_code == 201
    assert made.json()["folder"] == str(home / "projects" / "noughts")
    assert api.get("/projects/noughts").json()["env"] == "classic/tictactoe_v3"
    refused = api.post("/projects", json={"name": "noughts"})
    assert "There is a project 'noughts' already" in refused.json()["error"]
    for body in ({"name": "x", "folder": str(tmp_path / "x")}, {"name": "x", "env": "python:env.py:make"}):
        refused = api.post("/projects", json=body)
        assert refused.status_code == 403
        assert "--allow-programs" in refused.json()["error"]
    for name in ("../x", "..", ".x", "a/b", ""):
        assert api.post("/projects", json={"name": name}).status_code in (400, 422)
    assert [path.name for path in (home / "projects").iterdir()] == ["noughts"]
    assert not (tmp_path / "x").exists()


def test_a_project_is_renamed_and_gets_presets_without_new_code(api: TestClient, maze: Path) -> None:
    assert api.patch("/projects/maze", json={"name": "labyrinth"}).json()["name"] == "labyrinth"
    assert 'name = "labyrinth"' in (maze / "mosaic.toml").read_text()
    assert api.patch("/projects/labyrinth", json={"name": "../x"}).status_code in (400, 422)
    own = {"environment": {"env_id": f"python:{maze}/env.py:make"}, "seed": 7}
    saved = api.post("/projects/labyrinth/presets/long", json=own)
    assert saved.status_code == 201
    assert saved.json()["settings"]["long"]["seed"] == 7
    foreign = {"environment": {"env_id": "python:/tmp/other.py:make"}}
    refused = api.post("/projects/labyrinth/presets/worse", json=foreign)
    assert refused.status_code == 403, refused.text
    assert "worse" not in (maze / "mosaic.toml").read_text()
    again = api.post("/projects/labyrinth/presets/long", json=own)
    assert "has a preset 'long' already" in again.json()["error"]
    assert api.post(f"/projects/{str(maze).replace('/', '%2F')}/presets/x", json=own).status_code == 404


def test_a_deleted_entry_leaves_its_folder(api: TestClient, maze: Path) -> None:
    assert api.put("/projects/maze", json={}).status_code == 405
    assert api.delete("/projects/maze").status_code == 204
    assert api.get("/projects").json() == []
    assert (maze / "mosaic.toml").exists()
    assert api.get("/projects", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_runs_are_filtered_by_project(api: TestClient, maze: Path, home: Path) -> None:
    mine = api.post("/runs", json=toy(project="maze")).json()["run_id"]
    api.post("/runs", json=toy())
    rows = api.get("/runs", params={"project": "maze"}).json()
    assert [(row["run_id"], row["project"]) for row in rows] == [(mine, "maze")]
    assert api.get("/runs", params={"project": "maize"}).status_code == 404
    assert [run.id for run in Trainer(home).runs(project="maze")] == [mine]


def test_code_of_a_project_is_refused_like_any_other(api: TestClient, maze: Path) -> None:
    settings = api.get("/projects/maze").json()["settings"]["quick"]
    answer = api.post("/runs", json=settings)
    assert answer.status_code == 403
    assert "mosaic serve --allow-programs" in answer.json()["error"]
