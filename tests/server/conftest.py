"""A store that ends its runs, the API over it, and a run that nothing starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from tests.server.server_kit import app_client, end_runs, toy


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    end_runs(tmp_path / "home")


@pytest.fixture
def api(home: Path) -> Iterator[TestClient]:
    with app_client(home) as client:
        yield client


@pytest.fixture
def run(home: Path) -> Run:
    return Trainer(home).submit(toy(), start=False)
