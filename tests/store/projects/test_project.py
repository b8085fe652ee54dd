"""Project folders: found from below, read as data, created and renamed."""

from __future__ import annotations

import os
import sys

import pytest

from mosaic.core.errors import FormatError, InputError
from mosaic.store.projects import project as projects
from mosaic.store.projects.project import create_project, find_project, project_here, read_project, rename_in_file

TEXT = """# My game.
name = "maze"   # shown at home
env = "python:env.py:make"

[train.quick]
name = "trial"
seed = 3

[export.game]
out = "models"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "maze" / "levels" / "deep").mkdir(parents=True)
    (tmp_path / "maze" / "mosaic.toml").write_text(TEXT)
    return tmp_path / "maze"


def test_a_project_is_found_from_below(folder, monkeypatch):
    monkeypatch.chdir(folder / "levels" / "deep")
    project = project_here()
    assert project.folder == folder
    assert project.name == "maze"
    assert find_project(folder.parent) is None
    config = project.run_config(overrides=["seed=9"])
    assert (config.environment.id, config.seed, config.project) == (f"python:{folder}/env.py:make", 9, "maze")
    assert project.export_preset("game").out == f"{folder}/models"


def test_reading_runs_nothing_that_the_file_names(folder):
    (folder / "env.py").write_text("raise SystemExit('executed')")
    read_project(folder).run_config()
    assert "env" not in sys.modules


def test_an_invalid_file_is_named_with_its_line(folder):
    (folder / "mosaic.toml").write_text('name = "maze"\nenv = \n')
    with pytest.raises(FormatError, match=r"mosaic\.toml: Invalid value \(at line 2, column 7\)"):
        read_project(folder)
    (folder / "mosaic.toml").write_text('name = "maze"\n[train.quick]\nsed = 1\n')
    with pytest.raises(InputError, match=r"mosaic\.toml: train\.quick: There is no setting 'sed'"):
        read_project(folder / "mosaic.toml")


def test_files_that_are_no_settings_are_refused(folder):
    file = folder / "mosaic.toml"
    file.write_bytes(b'name = "' + b"x" * (1 << 20) + b'"')
    with pytest.raises(FormatError, match="more than 1024 KiB"):
        read_project(folder)
    file.write_bytes(b'name = "\xff"')
    with pytest.raises(FormatError, match="not UTF-8"):
        read_project(folder)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match="not a regular file"):
        read_project(folder)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="not a regular file"):
        read_project(folder)
    file.unlink()
    file.symlink_to(folder / "gone.toml")
    with pytest.raises(InputError, match=r"There is no mosaic\.toml in '.*maze'.*mosaic projects create"):
        read_project(folder)


def test_a_file_of_another_user_is_refused_until_it_is_registered(folder, monkeypatch):
    monkeypatch.setattr(projects.os, "geteuid", lambda: os.stat(folder).st_uid + 1)
    if os.stat(folder).st_uid == 0:  # files of root are accepted
        os.chown(folder / "mosaic.toml", 4242, -1)
    with pytest.raises(InputError, match="belongs to another user"):
        project_here(folder)
    assert project_here(folder, known=[folder]).name == "maze"


def test_create_writes_a_file_that_can_be_read(tmp_path):
    document = {"version": 1, "name": "new", "env": "gym/CartPole-v1", "train": {"default": {"seed": 1}}}
    made = create_project(tmp_path / "a" / "b", document)
    assert read_project(made.folder) == made
    with pytest.raises(InputError, match="is a project already"):
        create_project(made.folder, document)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be created"):
        create_project(tmp_path / "file" / "below", document)
    with pytest.raises(InputError, match="There is no setting"):
        create_project(tmp_path / "c", {"name": "x", "nmae": "y"})
    assert not (tmp_path / "c").exists()


def test_rename_changes_the_name_and_nothing_else(folder):
    renamed = rename_in_file(read_project(folder), 'a "b" \\c')
    assert (folder / "mosaic.toml").read_text() == TEXT.replace('"maze"', '"a \\"b\\" \\\\c"')
    assert read_project(folder) == renamed
    assert renamed.config.train == {"quick": {"name": "trial", "seed": 3}}


def test_rename_through_a_link_changes_its_target(folder, tmp_path):
    target = tmp_path / "shared.toml"
    (folder / "mosaic.toml").rename(target)
    (folder / "mosaic.toml").symlink_to(target)
    rename_in_file(read_project(folder), "other")
    assert (folder / "mosaic.toml").is_symlink()
    assert read_project(folder).name == "other"


def test_rename_refuses_what_it_cannot_edit(folder):
    (folder / "mosaic.toml").write_text('name = """maze"""\n')
    with pytest.raises(InputError, match='write name = "other" in it yourself'):
        rename_in_file(read_project(folder), "other")
    (folder / "mosaic.toml").write_text(TEXT)
    with pytest.raises(InputError, match="without '/'"):
        rename_in_file(read_project(folder), "a/b")
    assert (folder / "mosaic.toml").read_text() == TEXT
