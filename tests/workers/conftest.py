"""Plug-ins for tests, installed as any other: by the metadata of a package on the path."""

import os
from pathlib import Path

import pytest

from mosaic.core.plugins import plugins
from tests.workers import liars


@pytest.fixture
def installed_liars(tmp_path, monkeypatch):
    package = tmp_path / "packages" / "liars-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: liars\nVersion: 1.0\n")
    names = [*(name for name in liars.WORKERS if name != "impostor"), "alias"]
    lines = "".join(f"{name} = tests.workers.liars:{name}\n" for name in names)
    (package / "entry_points.txt").write_text(f"[mosaic.workers]\n{lines}")
    places = [str(package.parent), str(Path(__file__).parents[2])]
    for place in places:
        monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")]))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
