"""State of a run, as written by its supervisor."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mosaic.core.reference import explain
from mosaic.store.atomic import write_atomic
from mosaic.store.errors import DamagedError
from mosaic.store.lock import held
from mosaic.store.origin import GitState
from mosaic.store.run_folder import RunFolder


class State(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


LIVE = frozenset({State.STARTING, State.RUNNING, State.PAUSED, State.STOPPING})  # a supervisor holds the lock
ENDED = frozenset({State.FINISHED, State.STOPPED, State.FAILED, State.LOST})


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProcessRecord(_Record):
    """Process identified by pid, start time and boot: a pid alone may belong to another process by now."""

    pid: int
    start_time: float
    boot: str = ""  # see mosaic.core.machine; empty in records of older versions


class Attempt(_Record):
    """One start of the worker, from the beginning or from a checkpoint. Times are seconds since 1970."""

    number: int = Field(ge=1)
    supervisor: ProcessRecord | None = None
    worker: ProcessRecord | None = None
    started: float | None = None
    ended: float | None = None
    exit: int | None = None  # of the worker; negative: the signal that ended it
    reason: str = ""  # why it ended, for humans
    patience_s: float | None = None  # seconds that a stop gives the worker before it is killed; None: no stop yet
    git: GitState | None = None  # of the folder the worker ran in; None: not a repository, or an older version
    forced: bool = False  # the worker did not exit by itself when it was stopped; nothing new was saved


class RunState(_Record):
    version: Literal[1] = 1
    run_id: str
    state: State
    queued_at: float
    updated: float
    group: str = ""  # shared by runs that differ only in their seed
    working_folder: str = ""  # directory of the request: `python:` modules and relative paths are resolved from it
    attempts: tuple[Attempt, ...] = ()
    seal: str = ""  # of the store that created the run; see mosaic.store.archives.trust

    @property
    def started(self) -> float | None:
        return self.attempts[0].started if self.attempts else None

    @property
    def ended(self) -> float | None:
        """Return the end of the last attempt."""
        return self.attempts[-1].ended if self.attempts else None


def read_state(folder: RunFolder) -> RunState:
    """Return the actual state: a run whose file says that it is live while its lock is free is `lost`."""
    state = read_written_state(folder)
    while state.state in LIVE and not held(folder):
        # The supervisor writes the end before it releases the lock: it died only if nothing was written meanwhile.
        again = read_written_state(folder)
        if again == state:
            return state.model_copy(update={"state": State.LOST})
        state = again
    return state


def read_written_state(folder: RunFolder) -> RunState:
    """Return the content of state.json, whether still true or not."""
    try:
        return RunState.model_validate_json(folder.state.read_bytes())
    except FileNotFoundError as error:
        raise DamagedError(f"There is no run in '{folder.path}': it has no state.json.") from error
    except ValidationError as error:
        raise DamagedError(f"'{folder.state}' is damaged: {explain(error, RunState)}") from error


def write_state(folder: RunFolder, state: RunState) -> None:
    """Write the state; only the creator of the run or the holder of its lock may call this."""
    write_atomic(folder.state, state.model_dump_json(indent=1) + "\n")
