"""A store of its own for every test, in which nothing may be left alive, and workers that misbehave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaic.core.plugins import plugins
from mosaic.runs.processes import marked
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.lock import held
from mosaic.store.run_folder import RunFolder


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainer]:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    trainer = Trainer()
    yield trainer
    runs = trainer.store.runs
    folders = [RunFolder(path) for path in runs.iterdir() if not path.name.startswith(".")] if runs.exists() else []
    for folder in folders:
        if held(folder):
            Run(trainer.store, folder).stop(patience_s=0.0)
    assert not [row for folder in folders for row in marked(folder.run_id)]


@pytest.fixture
def rogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The worker of rogue_worker.py, installed for this test as any plug-in would be; its name."""
    installed = tmp_path / "plugins"
    info = installed / "rogue_worker-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rogue-worker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mosaic.workers]\nrogue = rogue_worker:worker\n")
    (installed / "rogue_worker.py").write_text((Path(__file__).parent / "rogue_worker.py").read_text())
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    plugins.cache_clear()
    yield "rogue"
    plugins.cache_clear()
