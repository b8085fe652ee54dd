"""Folder of a run, whose frame ring is removed after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaic.telemetry.frames.paths import remove_ring


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    remove_ring(tmp_path)
