"""A store of its own for every test."""

from __future__ import annotations

import pytest

from mosaic.store.store import Store
from tests.store.store_cases import config


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    return Store()


@pytest.fixture
def run(store):
    return store.create(config(name="nightly"), now=1_000_000_000.0)
