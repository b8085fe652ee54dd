"""Atomic replacement of files and folders: all or nothing, whatever fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mosaic.core.files import new_file, replace_folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("temporary", [None, "b.new"])
def test_a_file_is_replaced_by_a_whole_one_or_not_at_all(tmp_path: Path, temporary: str | None) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    named = None if temporary is None else tmp_path / temporary

    def fail_half_way() -> None:
        with new_file(target, named) as new:
            new.write_text("half")
            raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        fail_half_way()
    assert contents(tmp_path) == {"a": "old"}
    with new_file(target) as new:
        assert new.parent == tmp_path
        new.write_text("new")
        assert target.read_text() == "old"
    assert contents(tmp_path) == {"a": "new"}


def folders(root: Path) -> tuple[Path, Path, Path]:
    new, target, backup = root / "new", root / "target", root / "backup"
    new.mkdir()
    (new / "x").write_text("new")
    return new, target, backup


def test_a_folder_gets_its_name_and_the_earlier_one_is_kept_for_the_caller(tmp_path: Path) -> None:
    new, target, backup = folders(tmp_path)
    replace_folder(new, target, backup)
    assert contents(tmp_path) == {"target/x": "new"}
    new.mkdir()
    (new / "y").write_text("newer")
    replace_folder(new, target, backup)
    assert contents(tmp_path) == {"backup/x": "new", "target/y": "newer"}


def test_a_folder_that_cannot_be_replaced_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, target, backup = folders(tmp_path)
    target.mkdir()
    (target / "x").write_text("old")
    rename = os.rename

    def interrupted(source: Path, place: Path) -> None:
        if source == new:
            raise KeyboardInterrupt
        rename(source, place)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(new, target, backup)
    assert contents(tmp_path) == {"new/x": "new", "target/x": "old"}
