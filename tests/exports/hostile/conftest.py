"""Fixture of the tables of hostile artefacts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exports.hostile.forged import CODE


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with code that leaves a trace when it is run."""
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "evil.py").write_bytes(CODE)
    monkeypatch.chdir(folder)
    return folder
