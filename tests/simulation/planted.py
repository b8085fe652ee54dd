"""Planted bugs: mistakes that a change to supervisor, store or queue could make, each to be found by the simulation."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from mosaic.core import files
from mosaic.runs import lifecycle, state_file, supervision
from mosaic.runs import resume as recovery
from mosaic.server.queue import dispatcher as dispatch
from mosaic.server.queue import policy as queue
from mosaic.store import checkpoints, lock, staging
from mosaic.telemetry.events import writer


class Planted(NamedTuple):
    says: str  # what the mistake is
    plant: Callable[[ExitStack], None]
    within: int = 200  # histories, in which it must be found


def _replace(owner: Any, name: str, value: Any) -> Callable[[ExitStack], None]:
    return lambda stack: stack.enter_context(patch.object(owner, name, value))  # type: ignore[func-returns-value]


def _write_unsynced(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    with open(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _write_once_only(path: Path, data: bytes, mode: int) -> None:
    """Believes that one write takes everything."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(data)
        os.fsync(descriptor)


def _claim_without_repair(self: Any) -> tuple[int, int]:
    """Continues behind a torn end."""
    _, seq = writer.last_whole(self._fd)
    return os.fstat(self._fd).st_size, seq


def _acquire_always(self: Any) -> bool:
    if self._descriptor is None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT)
    return True


def _publish_in_place(temporary: Path, path: Path) -> Path:
    """Removes the old checkpoint before the new one has its place."""
    if path.exists():
        checkpoints._remove(path)
    temporary.rename(path)
    return path


def _stop_without_force(real: Any) -> Any:
    def stop(*arguments: Any) -> Any:
        life, commands = real(*arguments)
        return life, tuple(each for each in commands if not isinstance(each, lifecycle.Arm))

    return stop


def _end_without_clearing(real: Any) -> Any:
    def end(*arguments: Any, **options: Any) -> Any:
        life, commands = real(*arguments, **options)
        return life, tuple(each for each in commands if not isinstance(each, lifecycle.EndEverything))

    return end


def _judge_by_code(real: Any) -> Any:
    """Takes exit code 0 for the end of the training."""

    def judge(life: Any, code: Any, number: Any) -> Any:
        return lifecycle._end(life, lifecycle.State.FINISHED, "") if code == 0 else real(life, code, number)

    return judge


def _fits_one_more(runs: Any, limits: Any) -> bool:
    return len(runs) <= limits.runs + 1


def _guard_for_ever(self: Any, run_id: str, work: Any) -> Any:
    """Never tries a run again that could not be started."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        self._stuck[run_id] = dispatch.Stuck(str(error), 1, float("inf"))
        return None


PLANTED = {
    "state-not-synced": Planted("A file is renamed into place before its content is durable.",
                                _replace(files, "write_new", _write_unsynced)),
    "short-write": Planted("A write that takes only a part is taken for whole.",
                           _replace(files, "write_new", _write_once_only)),
    "folder-not-synced": Planted("Renames are not made durable.",
                                 lambda stack: [_replace(m, "sync_folder", lambda path: None)(stack)
                                                for m in (files, staging, checkpoints)]),
    "torn-end-kept": Planted("The next attempt appends to a torn line.",
                             _replace(writer.EventWriter, "_claim", _claim_without_repair)),
    "lock-ignored": Planted("A supervisor does not mind that another one has the run.",
                            _replace(lock.RunLock, "try_acquire", _acquire_always)),
    "leftovers-kept": Planted("A resume does not end what the last attempt left alive.",
                              lambda stack: [_replace(m, "end_leftovers", lambda *a, **k: None)(stack)
                                             for m in (recovery, supervision)]),
    "end-not-cleared": Planted("What a worker started outlives it.",
                               _replace(lifecycle, "_end", _end_without_clearing(lifecycle._end))),
    "stop-without-force": Planted("A worker that ignores a stop is never killed.",
                                  _replace(lifecycle, "_stop", _stop_without_force(lifecycle._stop))),
    "checkpoint-folder-not-synced": Planted("The first checkpoint is lost with its folder.",
                                            _replace(checkpoints, "sync_folder", lambda path: None)),
    "overbooked": Planted("The queue starts one run too many.", _replace(queue, "fits", _fits_one_more)),
    "exit-is-finished": Planted("A worker that exits early counts as finished.",
                                _replace(lifecycle, "_judge", _judge_by_code(lifecycle._judge))),
    "turns-ignored": Planted("Two servers look at the queue at the same time.",
                             _replace(dispatch, "_locked", lambda descriptor: True), within=600),
    "failed-start-recorded": Planted("A start that failed is recorded as the end of the attempt before it.",
                                     _replace(state_file.StateFile, "has_begun", lambda self, attempt: True)),
    "events-not-synced": Planted("The events of an ended run are not durable.",
                                 lambda stack: [_replace(owner, name, lambda _: None)(stack) for owner, name in
                                                ((supervision, "sync_file"), (writer.EventWriter, "sync"))]),
    "stuck-for-ever": Planted("A run that could not be started is never tried again.",
                              _replace(dispatch.Dispatcher, "_guarded", _guard_for_ever)),
}  # fmt: skip
