"""`mosaic projects`: create, open, list, show, rename, delete and import, as text and as JSON."""

import json

import httpx
import pytest
from fastapi.testclient import TestClient

from mosaic.server.app import create_app
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import ensure_token
from mosaic.server.context import ServerSettings
from mosaic.store.projects.project import create_project, read_project
from mosaic.store.store import Store
from tests.store.store_cases import config


def told(mosaic, *words):
    answer = mosaic("projects", *words, "--json")
    assert answer.code == 0, answer.err
    assert answer.err == ""
    return json.loads(answer.out)


def test_the_life_of_a_project(mosaic, tmp_path):
    made = told(mosaic, "create", "maze", "--env", "gym/CartPole-v1")
    assert made == {"name": "maze", "folder": str(tmp_path / "maze")}
    shown = told(mosaic, "show", "maze")
    assert shown["config"]["env"] == "gym/CartPole-v1"
    assert shown["runs"] == []
    assert told(mosaic, "rename", "maze", "labyrinth")["name"] == "labyrinth"
    assert [row["earlier_names"] for row in told(mosaic, "list")] == [["maze"]]
    (tmp_path / "maze").rename(tmp_path / "moved")
    (row,) = told(mosaic, "list")
    assert row["state"] == "missing"
    assert "If it was moved: mosaic projects open FOLDER" in mosaic("projects", "list").err
    assert told(mosaic, "open", "moved")["folder"] == str(tmp_path / "moved")
    assert [row["state"] for row in told(mosaic, "list")] == ["ok"]
    assert told(mosaic, "delete", "labyrinth")["deleted"] is False
    assert (tmp_path / "moved" / "mosaic.toml").exists()
    assert told(mosaic, "list") == []


def test_text_for_people(mosaic, tmp_path, monkeypatch):
    assert "Create one: mosaic projects create" in mosaic("projects").err
    monkeypatch.chdir(tmp_path)
    answer = mosaic("projects", "create", "game", "--game", "bin/game.x86_64")
    assert "game is created:" in answer.out
    monkeypatch.chdir(tmp_path / "game")
    assert "0 runs" in mosaic("projects", "show").out
    assert "godot/bin/game.x86_64" in mosaic("projects", "list").out


def test_a_folder_is_deleted_only_when_confirmed(mosaic, tmp_path, monkeypatch):
    told(mosaic, "create", "maze")
    answer = mosaic("projects", "delete", "maze", "--folder", "--json")
    assert (answer.code, json.loads(answer.err)["error"]) == (2, "Deleting a folder has to be confirmed: add --yes.")
    monkeypatch.setattr("typer.confirm", lambda *_, **__: (_ for _ in ()).throw(__import__("typer").Abort()))
    assert mosaic("projects", "delete", "maze", "--folder").code == 130
    assert (tmp_path / "maze").exists()
    assert told(mosaic, "delete", "maze", "--folder", "--yes")["deleted"] is True
    assert not (tmp_path / "maze").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "maze"), "is a project already. Open it: mosaic projects open"),
        (("create", "other", "--name", "maze"), "There is a project 'maze' already"),
        (("create", "new", "--name", "a/b"), "without '/'"),
        (("open", "nowhere"), "There is no mosaic.toml in"),
        (("show", "maize"), "There is no project named 'maize'. Did you mean 'maze'? Known: maze."),
        (("show",), "There is no mosaic.toml in this folder or above it"),
        (("delete", "maize"), "There is no project named 'maize'"),
        (("import", "."), "There is no project of the controller"),
    ],
)
def test_what_is_refused(mosaic, words, said):
    told(mosaic, "create", "maze", "--name", "maze")
    if words == ("create", "maze"):
        told(mosaic, "delete", "maze")
    answer = mosaic("projects", *words)
    assert answer.code == 2
    assert said in answer.err


def test_a_folder_that_cannot_be_written_is_named(mosaic, tmp_path):
    (tmp_path / "file").write_text("")
    answer = mosaic("projects", "create", "file/below")
    assert answer.code == 2
    assert "cannot be created: Not a directory" in answer.err


def test_import_writes_a_project_and_a_report(mosaic, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    (old / "training_config.json").write_text('{"mode": "single_agent", "env_path": "game", "sb3_gamma": 0.9, "x": 1}')
    answer = mosaic("projects", "import", "old", "--dry-run")
    assert "Nothing was written." in answer.err
    assert not (old / "mosaic.toml").exists()
    report = told(mosaic, "import", "old", "--name", "mine")
    assert (report["name"], report["written"]) == ("mine", True)
    outcomes = {each["setting"]: each["outcome"] for each in report["report"]}
    assert outcomes == {"mode": "taken over", "env_path": "taken over", "sb3_gamma": "taken over", "x": "left out"}
    assert read_project(old).config.env_id == "godot/game"
    assert [row["name"] for row in told(mosaic, "list")] == ["mine"]


def test_import_of_an_index_reports_every_project(mosaic, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "project.json").write_text(json.dumps({"name": name}))
    entries = [{"name": name, "path": str(tmp_path / name), "last_used": 1} for name in ("a", "gone", "b")]
    (tmp_path / "index.json").write_text(json.dumps(entries))
    answer = mosaic("projects", "import", "index.json", "--json")
    assert answer.code == 1
    done = json.loads(answer.out)
    assert [each.get("name") for each in done] == ["a", None, "b"]
    assert "There is no project of the controller" in done[1]["error"]
    assert "1 of 3 projects could not be imported." in answer.err
    assert mosaic("projects", "import", "index.json", "--name", "x").code == 2


@pytest.fixture
def server(mosaic, tmp_path, monkeypatch):
    """Address of a server in this process, whose store has one project with a run; another project is missing."""
    home = tmp_path / "there"
    store = Store(home)
    document = {"name": "maze", "env": "gym/CartPole-v1", "train": {"quick": {"seed": 3}}}
    store.projects.register(create_project(tmp_path / "theirs", document))
    gone = create_project(tmp_path / "gone", {"name": "gone"})
    store.projects.register(gone, now=1.0)
    gone.file.unlink()
    store.create(config(project="maze"))
    app = create_app(home, ServerSettings(start_queued=False, hosts=allowed_hosts()))
    url = "http://127.0.0.1:8642"

    def client(*, base_url, headers, **_):
        return TestClient(app, base_url=base_url, headers=headers)

    monkeypatch.setattr(httpx, "Client", client)
    monkeypatch.setenv("MOSAIC_TOKEN", ensure_token(home))
    return url


def test_runs_of_a_server_that_cannot_be_read_are_named(mosaic, server, tmp_path):
    (tmp_path / "there" / "runs" / "emptied").mkdir()
    answer = mosaic("runs", "list", "--server", server)
    assert "1 run" in answer.out
    assert "Run 'emptied' cannot be shown: There is no run in" in " ".join(answer.err.split())


def test_projects_of_a_server(mosaic, server, tmp_path):
    assert told(mosaic, "list") == []
    rows = told(mosaic, "list", "--server", server)
    assert [(row["name"], row["state"]) for row in rows] == [("maze", "ok"), ("gone", "missing")]
    shown = told(mosaic, "show", "maze", "--server", server)
    assert shown["folder"] == str(tmp_path / "theirs")
    assert shown["config"]["train"] == {"quick": {"seed": 3}}
    assert len(shown["runs"]) == 1
    assert shown == told(mosaic, "show", str(tmp_path / "theirs")) | {"runs": shown["runs"]}  # as on its own machine
    text = " ".join(mosaic("projects", "show", "maze", "--server", server).out.split())
    assert f"1 run, newest {shown['runs'][0]}. List them: mosaic runs list --project maze --server {server}" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Name a project of the server. Known: mosaic projects list --server"),
        (("maize",), "There is no project named 'maize'. Did you mean 'maze'?"),
        (("gone",), "There is no mosaic.toml in"),
    ],
)
def test_what_a_server_does_not_show(mosaic, server, words, said):
    answer = mosaic("projects", "show", *words, "--server", server)
    assert answer.code == 2
    assert said in answer.err
