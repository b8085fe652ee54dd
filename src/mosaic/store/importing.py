"""How a run from elsewhere comes into the store: kept apart from our own, and unable to start or stop anything."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from mosaic.core.errors import FormatError, InputError
from mosaic.store.archives.import_run import Limits, unpack
from mosaic.store.atomic import write_atomic
from mosaic.store.index.index import is_run_id
from mosaic.store.run_folder import RunFolder
from mosaic.store.staging import Staged, TakenError, staged, sweep
from mosaic.store.state import LIVE, Attempt, RunState, State, read_written_state, write_state
from mosaic.store.store import Store


def import_run(store: Store, archive: Path, *, limits: Limits | None = None, now: float | None = None) -> RunFolder:
    """A run of an archive, under its id, or with `-2`, `-3` … behind it where that is taken.

    It is marked as imported: code that it or its checkpoints name is not loaded without the user's trust.
    """
    now = time.time() if now is None else now
    store.index.prepare()
    sweep(store.runs)
    with staged(store.runs) as made:
        run_id = unpack(archive, made.folder.path, limits or Limits())
        if not is_run_id(run_id):
            raise FormatError(f"'{archive}' is refused: '{run_id}' is no run id.")
        _check(archive, made.folder)
        state = read_written_state(made.folder)
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        origin = {"archive": archive.name, "sha256": digest, "run_id": run_id, "imported_at": now}
        write_atomic(made.folder.imported, json.dumps(origin, indent=1) + "\n")
        return _published(made, run_id, _harmless(state, now))


def _check(archive: Path, folder: RunFolder) -> None:
    try:
        folder.read_config()
        read_written_state(folder)
    except (InputError, OSError) as error:
        problem = str(error).replace(f"{folder.path}/", "")  # where it was unpacked to is gone when this is read
        raise FormatError(f"'{archive}' holds no run: {problem}") from error


def _published(made: Staged, run_id: str, state: RunState) -> RunFolder:
    number, name = 1, run_id
    while True:
        write_state(made.folder, state.model_copy(update={"run_id": name}))
        try:
            return made.publish(name)
        except TakenError:
            number += 1
            name = f"{run_id[:90]}-{number}"


def _harmless(state: RunState, now: float) -> RunState:
    """Make the state of a foreign run safe to keep.

    Not queued, or the queue would start it; no process ids, or a recovery would end unrelated processes with these
    ids; no working folder, or modules would be loaded from a place that the archive chose; no seal.
    """
    ended = {State.QUEUED: State.STOPPED, **dict.fromkeys(LIVE, State.LOST)}
    attempts = tuple(_without_processes(attempt) for attempt in state.attempts)
    return state.model_copy(
        update={"state": ended.get(state.state, state.state), "attempts": attempts, "updated": now,
                "working_folder": "", "seal": ""}
    )  # fmt: skip


def _without_processes(attempt: Attempt) -> Attempt:
    return attempt.model_copy(update={"supervisor": None, "worker": None})
