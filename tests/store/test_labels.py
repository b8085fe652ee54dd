"""Labels of runs: changed in any state, read everywhere, harmless where a stranger wrote them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import FormatError, InputError
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.errors import DamagedError
from mosaic.store.labels import LONGEST_NOTE, LabelChange, Labels, change_labels, make_change, read_labels, with_tags
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store
from mosaic.store.views import details_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


@pytest.fixture
def folder(store: Store) -> RunFolder:
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "name": "first", "tags": ["a"]}
    return store.create(parse_run_config(config))


def test_labels_are_those_of_the_configuration_until_they_are_changed(store: Store, folder: RunFolder) -> None:
    assert [(row.name, row.tags, row.note, row.hidden) for row in store.index.list()] == [("first", ("a",), "", False)]
    change_labels(folder, LabelChange(name="second", note="kept"))
    change_labels(folder, LabelChange(tags=("b", "c"), hidden=True))
    [row] = store.index.list()
    assert (row.name, row.tags, row.note, row.hidden) == ("second", ("b", "c"), "kept", True)
    shown = details_of(folder)
    assert (shown.name, shown.tags, shown.note, shown.hidden) == ("second", ("b", "c"), "kept", True)
    assert shown.config["name"] == "first"  # what was asked stays
    assert store.resolve("second") == folder


def test_a_name_and_a_note_can_be_removed(store: Store, folder: RunFolder) -> None:
    change_labels(folder, LabelChange(name="", tags=(), note="x"))
    change_labels(folder, LabelChange(note=""))
    [row] = store.index.list()
    assert (row.name, row.tags, row.note) == ("", (), "")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"name": "a/b"}, "without '@' and '/'"),
        ({"name": "x" * 101}, "at most 100 characters"),
        ({"note": "x" * (LONGEST_NOTE + 1)}, "at most 4000 characters"),
        ({"note": "a\x1b[31m"}, "it should be text"),
        ({"tags": ["t"] * 51}, "at most 50"),
        ({"tags": [""]}, "it should not be empty"),
        ({"nam": "x"}, "Did you mean 'name'?"),
        ({"note": None}, "note: null is not a label"),
    ],
)
def test_invalid_labels_are_refused(labels: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        make_change(**labels)


def test_tags_are_added_and_removed_once() -> None:
    assert with_tags(("a", "b"), ("b", "c"), ("a",)) == ("b", "c")


def test_single_tags_change_without_the_others(store: Store, folder: RunFolder) -> None:
    change_labels(folder, make_change(add_tags=["b"]))  # the configuration's own tag stays
    assert change_labels(folder, make_change(add_tags=["c"], remove_tags=["a"])).tags == ("b", "c")
    with pytest.raises(InputError, match="'tags' replaces all of them: leave it out, or 'add_tags'"):
        make_change(tags=["x"], add_tags=["y"])
    with pytest.raises(InputError, match="at most 50"):
        change_labels(folder, make_change(add_tags=[str(number) for number in range(49)]))


_TAG = """
import sys
from pathlib import Path
from mosaic.store.labels import change_labels, make_change
from mosaic.store.run_folder import RunFolder
for number in range(20):
    change_labels(RunFolder(Path(sys.argv[1])), make_change(add_tags=[f"{sys.argv[2]}-{number}"]))
"""


def test_two_processes_that_tag_at_once_lose_no_tag(folder: RunFolder) -> None:
    both = [subprocess.Popen([sys.executable, "-c", _TAG, str(folder.path), name]) for name in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    assert {*(read_labels(folder).tags or ())} == {"a", *(f"{name}-{k}" for name in ("one", "two") for k in range(20))}


def test_labels_travel_with_an_archive(store: Store, folder: RunFolder, tmp_path: Path) -> None:
    change_labels(folder, LabelChange(name="second", note="line one\nline two"))
    archive = archive_run(folder, tmp_path / "run.tar.gz")
    there = import_run(Store(tmp_path / "there"), archive)
    assert read_labels(there) == Labels(name="second", note="line one\nline two")


def test_an_archive_with_damaged_labels_is_refused(store: Store, folder: RunFolder, tmp_path: Path) -> None:
    folder.labels.write_text(json.dumps({"name": "a@b"}))
    archive = archive_run(folder, tmp_path / "run.tar.gz")
    with pytest.raises(FormatError, match=r"holds no run: 'labels\.json' is damaged"):
        import_run(Store(tmp_path / "there"), archive)
    with pytest.raises(DamagedError):
        read_labels(folder)
