"""The list of known projects: moved, deleted, of one name, and changed by several processes at once."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from mosaic.core.errors import InputError, MosaicError, UnknownNameError
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.projects.project import create_project, read_project
from mosaic.store.projects.registry import ProjectRegistry
from mosaic.store.state import State
from mosaic.store.store import Store
from tests.store.store_cases import config, set_state


@pytest.fixture
def registry(store):
    return store.projects


def make(registry, folder, name="maze", now=1.0, **settings):
    made = create_project(folder, {"version": 1, "name": name, "env": "gym/CartPole-v1", **settings})
    registry.register(made, now)
    return made


def states(registry):
    return {row.name: row.state for row in registry.rows()}


def test_rows_say_what_the_files_say(registry, tmp_path):
    assert registry.rows() == []
    make(registry, tmp_path / "a", train={"quick": {}}, export={"game": {}})
    make(registry, tmp_path / "b", "other", now=2.0)
    other, maze = registry.rows()
    assert (other.name, other.default_preset) == ("other", None)
    assert (maze.folder, maze.env, maze.state) == (str(tmp_path / "a"), "gym/CartPole-v1", "ok")
    assert (maze.presets, maze.default_preset, maze.export_presets) == (("quick",), "quick", ("game",))
    registry.register(read_project(tmp_path / "a"), 3.0)
    assert [row.name for row in registry.rows()] == ["maze", "other"]


def test_missing_and_invalid_projects_stay_listed(registry, tmp_path):
    make(registry, tmp_path / "gone", "gone")
    make(registry, tmp_path / "broken", "broken")
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "broken" / "mosaic.toml").write_text("name = \n")
    assert states(registry) == {"gone": "missing", "broken": "invalid"}
    problems = {row.name: row.problem for row in registry.rows()}
    assert "If it was moved: mosaic projects open FOLDER" in problems["gone"]
    assert "line 1" in problems["broken"]


def test_a_moved_project_keeps_its_entry(registry, tmp_path):
    make(registry, tmp_path / "a", now=1.0)
    shutil.move(tmp_path / "a", tmp_path / "b")
    registry.register(read_project(tmp_path / "b"), 2.0)
    (entry,) = registry.entries()
    assert (entry.folder, entry.added, entry.used) == (str(tmp_path / "b"), 1.0, 2.0)


def test_two_projects_of_one_name_are_refused(registry, tmp_path):
    make(registry, tmp_path / "a")
    copy = shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(
        InputError, match=r"There is a project 'maze' already, in .*/a\. Rename this one: .*rename .*copy"
    ):
        registry.register(read_project(copy))
    registry.rename(str(copy), "copy")  # the advice works
    assert states(registry) == {"maze": "ok", "copy": "ok"}
    with pytest.raises(InputError, match="There is a project 'maze' already"):
        registry.rename("copy", "maze")


def test_runs_are_found_under_the_new_name(store, registry, tmp_path):
    make(registry, tmp_path / "a")
    old = store.create(config(project="maze"), now=1.0)
    registry.rename("maze", "labyrinth")
    new = store.create(config(project="labyrinth"), now=2.0)
    store.create(config(), now=3.0)
    assert registry.names("labyrinth") == {"maze", "labyrinth"}
    found = store.index.list(projects=registry.names("labyrinth"))
    assert [run.run_id for run in found] == [new.run_id, old.run_id]
    assert registry.entry("maze").name == "labyrinth"  # by its earlier name


def test_archived_runs_keep_their_project(store, tmp_path):
    run = store.create(config(project="maze"), now=1.0)
    set_state(run, State.FINISHED)
    other = Store(tmp_path / "other")
    import_run(other, archive_run(run, tmp_path / "run.tar.gz"))
    (found,) = other.index.list(projects=other.project_names("maze"))  # although that store does not know the project
    assert (found.project, found.imported) == ("maze", True)


def test_find_by_name_and_by_folder(registry, tmp_path, monkeypatch):
    make(registry, tmp_path / "a")
    unregistered = create_project(tmp_path / "b", {"name": "second"})
    monkeypatch.chdir(tmp_path)
    assert registry.find("maze").folder == tmp_path / "a"
    assert registry.find("b") == unregistered
    monkeypatch.chdir(tmp_path / "b")
    assert registry.find(".") == unregistered
    assert registry.here() == unregistered
    with pytest.raises(UnknownNameError, match=r"There is no project named 'maize'\. Did you mean 'maze'"):
        registry.find("maize")


def test_forget_leaves_the_folder(registry, tmp_path):
    make(registry, tmp_path / "a")
    registry.forget("maze")
    assert registry.entries() == []
    assert (tmp_path / "a" / "mosaic.toml").exists()
    shutil.rmtree(tmp_path / "a")


def test_delete_takes_only_a_folder_of_a_project(store, registry, tmp_path, monkeypatch):
    make(registry, tmp_path / "a")
    (tmp_path / "a" / "mosaic.toml").unlink()
    with pytest.raises(InputError, match=r"has no mosaic\.toml, so it is not deleted"):
        registry.delete_folder("maze")
    registry.forget("maze")
    make(registry, tmp_path / "b")
    registry.delete_folder("maze")
    assert not (tmp_path / "b").exists()
    assert registry.entries() == []
    make(registry, tmp_path / "real", "linked")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    registry.forget("linked")
    registry.register(read_project(tmp_path / "link"))
    with pytest.raises(InputError, match="is a link"):
        registry.delete_folder("linked")
    make(registry, tmp_path, "everything")  # the store lies in it
    with pytest.raises(InputError, match="holds more than this project"):
        registry.delete_folder("everything")
    monkeypatch.setenv("HOME", str(tmp_path / "user" / "me"))
    make(registry, tmp_path / "user", "users")
    with pytest.raises(InputError, match="holds more than this project"):
        registry.delete_folder("users")


def test_concurrent_writers_lose_nothing(registry, store, tmp_path):
    made = [create_project(tmp_path / f"p{i}", {"name": f"p{i}"}) for i in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda project: ProjectRegistry(store.home).register(project), made))
    assert set(states(registry)) == {f"p{i}" for i in range(12)}


def test_a_damaged_list_is_named(registry, store, tmp_path):
    make(registry, tmp_path / "a")
    (store.home / "projects.json").write_text('{"version": 1, "projects": [{"name": 3}]}')
    with pytest.raises(MosaicError, match=r"projects\.json' is damaged: .*Delete it, and register your projects again"):
        registry.rows()


def test_the_list_is_private(registry, store, tmp_path):
    make(registry, tmp_path / "a")
    assert os.stat(store.home / "projects.json").st_mode & 0o077 == 0
