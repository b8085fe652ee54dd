"""Id of a run, and the paths of its files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.ids import EnvID

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig

STATE = "state.json"
MARK = "MOSAIC_RUN"  # environment variable with the run's id, set for everything that an attempt starts
_LONGEST = 40
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # 32 characters that are not easily confused
_VERSION = re.compile(r"[-_]?v\d+$")


def new_run_id(env: EnvID, now: float, random_below: Callable[[int], int]) -> str:
    """Return an id that sorts by time (UTC), names the env, and ends in four random letters."""
    when = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    mark = "".join(_LETTERS[random_below(len(_LETTERS))] for _ in range(4))
    return f"{when}-{short_env(env)}-{mark}"


def short_env(env: EnvID) -> str:
    """Shorten an env id: classic/tictactoe_v3 → tictactoe; python:my.module:make_maze → make-maze."""
    name = re.split("[/:]", env)[-1].lower()
    words = re.findall("[a-z0-9]+", _VERSION.sub("", name))
    return "-".join(words)[:_LONGEST].strip("-") or "env"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`$MOSAIC_HOME/runs/<run_id>`; the folder itself need not exist."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def home(self) -> Path:
        """Return the home of the store that the run belongs to."""
        return self.path.parent.parent

    @property
    def config(self) -> Path:
        """Configuration: what was asked, filled in, with the resources of the newest attempt."""
        return self.path / "config.json"

    @property
    def request(self) -> Path:
        """Request of an export job, which has it instead of a configuration."""
        return self.path / "request.json"

    @property
    def state(self) -> Path:
        """State, attempts, process ids; replaced as a whole."""
        return self.path / STATE

    @property
    def labels(self) -> Path:
        """Name, tags and note that were changed after the run was created."""
        return self.path / "labels.json"  # see store/labels.py

    @property
    def metrics(self) -> Path:
        """Metric events, one a line, append-only."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """Standard output of the worker."""
        return self.path / "worker.log"  # see store/logs.py

    @property
    def errors(self) -> Path:
        """Standard error of the worker."""
        return self.path / "worker.err.log"

    @property
    def usage(self) -> Path:
        """Cores and memory over time."""
        return self.path / "usage.csv"  # see store/usage.py

    @property
    def checkpoints(self) -> Path:
        """A folder per checkpoint, named by its env steps, each with a manifest and hashes."""
        return self.path / "checkpoints"

    @property
    def episodes(self) -> Path:
        """Recorded episodes and videos."""
        return self.path / "episodes"

    @property
    def manifest(self) -> Path:
        """Artefacts with sizes and hashes, final metrics, versions, attempts; written at the end."""
        return self.path / "manifest.json"

    @property
    def lock(self) -> Path:
        """Lock held by the supervisor while it lives."""
        return self.path / "lock"

    @property
    def control(self) -> Path:
        """FIFO through which commands reach the supervisor."""
        return self.path / "control"

    @property
    def cache(self) -> Path:
        """Derived data, which may be deleted at any time."""
        return self.path / "cache"

    @property
    def imported(self) -> Path:
        """Origin of an imported run."""
        return self.path / "imported.json"

    def exists(self) -> bool:
        return self.state.is_file()

    def is_export(self) -> bool:
        """Return whether this is the folder of an export job, which lives like a run."""
        return self.request.is_file()

    def is_imported(self) -> bool:
        """Return whether the run was imported, so that any of its bytes may be untrusted."""
        return self.imported.exists()

    def read_config(self) -> RunConfig:
        from mosaic.config.loading import load_run_config  # late: a supervisor starts its worker first

        return load_run_config(self.config)

    def write_config(self, config: RunConfig) -> None:
        """Write the configuration; only the creator of the run or the holder of its lock may call this."""
        from mosaic.config.loading import dump_run_config
        from mosaic.store.atomic import write_atomic

        write_atomic(self.config, json.dumps(dump_run_config(config), indent=1) + "\n")
