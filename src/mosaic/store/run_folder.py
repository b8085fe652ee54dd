"""Where everything of one run is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig

STATE = "state.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`$MOSAIC_HOME/runs/<run_id>`; the folder itself need not exist."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def home(self) -> Path:
        """Of the store that the run belongs to."""
        return self.path.parent.parent

    @property
    def config(self) -> Path:
        return self.path / "config.json"  # what was asked, with the resources of the newest attempt

    @property
    def state(self) -> Path:
        return self.path / STATE

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "worker.log"  # stdout of the worker; see store/logs.py

    @property
    def errors(self) -> Path:
        return self.path / "worker.err.log"  # its stderr

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def episodes(self) -> Path:
        return self.path / "episodes"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"  # held by the supervisor for as long as it lives

    @property
    def control(self) -> Path:
        return self.path / "control"  # FIFO of the supervisor

    @property
    def cache(self) -> Path:
        return self.path / "cache"  # may be thrown away at any time

    @property
    def imported(self) -> Path:
        return self.path / "imported.json"  # says where an imported run came from

    def exists(self) -> bool:
        return self.state.is_file()

    def is_imported(self) -> bool:
        """Somebody else may have written every byte of it."""
        return self.imported.exists()

    def read_config(self) -> RunConfig:
        from mosaic.config.loading import load_run_config  # late: a supervisor starts its worker first

        return load_run_config(self.config)

    def write_config(self, config: RunConfig) -> None:
        """Only whoever makes the run, or holds its lock, may write."""
        from mosaic.config.loading import dump_run_config
        from mosaic.store.atomic import write_atomic

        write_atomic(self.config, json.dumps(dump_run_config(config), indent=1) + "\n")
