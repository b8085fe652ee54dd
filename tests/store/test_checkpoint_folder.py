"""Checkpoints outside the store: found, pruned, packed, imported and deleted like any others."""

import shutil
import tarfile
from pathlib import Path

import pytest

from mosaic.config.programs import with_absolute_paths
from mosaic.core.errors import InputError
from mosaic.runs.resume_settings import with_changes
from mosaic.store.archives.archive import archive_run, delete_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.archives.trust import foreign
from mosaic.store.checkpoints import find_checkpoint, list_checkpoints
from mosaic.store.errors import StorageError
from mosaic.store.run_folder import RunFolder
from mosaic.store.run_manifest import write_run_manifest
from mosaic.store.state import State, read_written_state
from mosaic.store.store import Store
from tests.store.store_cases import config, set_state, write


@pytest.fixture
def elsewhere(tmp_path):
    return tmp_path / "big disk" / "checkpoints"


@pytest.fixture
def placed(store, elsewhere):
    run = store.create(config(checkpoint={"folder": str(elsewhere)}))
    write(run, 100, 1.0)
    set_state(run, State.FINISHED)
    return run


def test_they_are_written_there_and_found_and_trusted(store, placed, elsewhere):
    assert (elsewhere / placed.run_id / "100" / "manifest.json").is_file()
    found = find_checkpoint(placed)
    assert found.env_steps == 100
    assert found.run == placed
    assert found.trusted(store)


def test_old_ones_are_pruned_there(placed, elsewhere):
    for steps in (200, 300, 400, 500):
        write(placed, steps, 0.0)
    assert sorted(path.name for path in (elsewhere / placed.run_id).glob("[0-9]*")) == ["100", "300", "400", "500"]


def test_two_runs_have_a_folder_each(store, placed, elsewhere):
    other = store.create(config(checkpoint={"folder": str(elsewhere)}))
    write(other, 7)
    assert [each.env_steps for each in list_checkpoints(placed)] == [100]
    assert [each.env_steps for each in list_checkpoints(other)] == [7]


def test_the_same_id_in_another_store_is_refused(store, tmp_path, elsewhere):
    asked = config(run_id="mine", checkpoint={"folder": str(elsewhere)})
    store.create(asked)
    with pytest.raises(InputError, match=r"checkpoint.folder: '.*/mine' already exists, perhaps with"):
        Store(tmp_path / "second").create(asked)
    assert not (tmp_path / "second" / "runs" / "mine").exists()


def test_a_folder_that_cannot_be_written_is_refused(store, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"checkpoint.folder: '.*' could not be created: "):
        store.create(config(checkpoint={"folder": str(tmp_path / "file" / "below")}))


def test_a_file_in_the_place_of_the_folder_is_called_one(store, tmp_path):
    (tmp_path / "own.py").write_text("")
    with pytest.raises(InputError, match=r"'.*own\.py' is not a folder\. Choose another\."):
        store.create(config(checkpoint={"folder": str(tmp_path / "own.py")}))


def test_it_is_deleted_with_the_run(store, placed, elsewhere):
    delete_run(store, placed)
    assert list(elsewhere.iterdir()) == []


def test_an_archive_holds_them_and_the_imported_run_keeps_its_own(store, placed, elsewhere, tmp_path):
    artefacts = write_run_manifest(placed, read_written_state(placed)).artefacts
    assert "checkpoints/100/net/weights.bin" in [each.path for each in artefacts]
    back = import_run(Store(tmp_path / "second"), archive_run(placed, tmp_path / "run.tar.gz"))
    assert find_checkpoint(back).env_steps == 100
    assert not back.checkpoints.is_symlink()
    assert back.read_config().checkpoint.folder is None
    write(back, 200)
    assert not (elsewhere / placed.run_id / "200").exists()


def test_a_disk_that_is_not_mounted_is_an_error_not_an_empty_run(placed, elsewhere):
    elsewhere.rename(elsewhere.with_name("gone"))
    uses = (find_checkpoint, list_checkpoints, lambda run: write(run, 200), lambda run: archive_run(run, Path("x")))
    for use in uses:
        with pytest.raises(StorageError, match=r"The checkpoints of run '.*' are in '.*', which is not there now"):
            use(placed)
    elsewhere.with_name("gone").rename(elsewhere)
    assert find_checkpoint(placed).env_steps == 100


def test_a_copy_of_the_store_neither_writes_nor_deletes_there(store, placed, elsewhere, tmp_path):
    shutil.copytree(store.home, tmp_path / "copy", symlinks=True)
    copy = RunFolder(tmp_path / "copy" / "runs" / placed.run_id)
    with pytest.raises(StorageError, match=r"belongs to the run in '.*', and '.*' only links to it"):
        write(copy, 200)
    delete_run(Store(tmp_path / "copy"), copy)
    assert find_checkpoint(placed).env_steps == 100


def test_a_moved_store_keeps_them(store, placed, elsewhere, tmp_path):
    store.home.rename(tmp_path / "moved")
    moved = RunFolder(tmp_path / "moved" / "runs" / placed.run_id)
    write(moved, 200)
    assert find_checkpoint(moved).env_steps == 200
    assert not foreign(moved)
    delete_run(Store(tmp_path / "moved"), moved)
    assert list(elsewhere.iterdir()) == []


def test_a_link_that_no_run_made_is_not_followed_into_an_archive(store, run, tmp_path):
    set_state(run, State.FINISHED)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    run.checkpoints.symlink_to(tmp_path / "private")
    with tarfile.open(archive_run(run, tmp_path / "run.tar.gz")) as archive:
        assert not [name for name in archive.getnames() if "key" in name]
    delete_run(store, run)
    assert (tmp_path / "private" / "key").exists()


def test_a_relative_folder_is_that_of_the_directory_where_the_run_was_requested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert with_absolute_paths(config(checkpoint={"folder": "saved"})).checkpoint.folder == str(tmp_path / "saved")


def test_it_cannot_change_on_resume(placed):
    with pytest.raises(InputError, match=r"'checkpoint.folder' cannot change on resume"):
        with_changes(placed.read_config(), {}, ["checkpoint.folder=/elsewhere"])
