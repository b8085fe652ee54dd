"""Response documents of one run: row, details, log."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mosaic.server.schemas import AttemptRow, CheckpointRow, LiveRow, LogPart, RunDetails, RunRow
from mosaic.store.checkpoints import best_first, list_checkpoints
from mosaic.store.errors import DamagedError
from mosaic.store.index.last_metrics import last_metrics
from mosaic.store.index.summary import RunSummary
from mosaic.store.live_sessions import list_sessions
from mosaic.store.logs import Stream, WorkerLog
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import read_state
from mosaic.telemetry.events.journal import last_whole


def row_of(summary: RunSummary) -> RunRow:
    return RunRow.model_validate(summary, from_attributes=True)


def details_of(folder: RunFolder) -> RunDetails:
    state = read_state(folder)
    metrics = last_metrics(folder.metrics)
    checkpoints = list_checkpoints(folder)
    best = {checkpoint.path for checkpoint in best_first(checkpoints)[:1]}
    attempts = tuple(AttemptRow.model_validate(attempt, from_attributes=True) for attempt in state.attempts)
    return RunDetails(
        run_id=folder.run_id,
        state=state.state,
        queued_at=state.queued_at,
        attempts=attempts,
        config=_config(folder),
        env_steps=metrics.env_steps,
        last_metric=dict(metrics.event) or None,
        last_seq=last_seq(folder),
        checkpoints=tuple(
            CheckpointRow(
                env_steps=c.env_steps,
                path=str(c.path),
                best=c.path in best,
                best_by=c.manifest.best_by,
                reward=c.reward,
                rating=c.manifest.rating,
            )
            for c in checkpoints
        ),
        exit=attempts[-1].exit if attempts else None,
        reason=attempts[-1].reason if attempts else "",
    )


def _config(folder: RunFolder) -> dict[str, Any]:
    """Return the configuration as it was written, by any version of Mosaic."""
    try:
        document = json.loads(folder.config.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"'{folder.config}' is damaged: {error}.") from error
    if not isinstance(document, dict):
        raise DamagedError(f"'{folder.config}' is damaged: it is not a JSON object.")
    return document


def log_part(folder: RunFolder, stream: Stream, after: int | None, size: int) -> LogPart:
    part = WorkerLog(folder, stream).read(after, size)
    text, end = part.text()
    return LogPart(text=text, start=part.start, end=end)


def last_seq(folder: RunFolder) -> int:
    try:
        descriptor = os.open(folder.metrics, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return last_whole(descriptor).seq
    finally:
        os.close(descriptor)


def live_rows(home: Path) -> list[LiveRow]:
    """Return the live activities, newest first."""
    rows = []
    for session in list_sessions(home):
        about = session.about()
        if about is not None:  # it may have ended in between
            row = LiveRow(
                id=session.id, kind=about.kind, env=about.env, policies=dict(about.policies), began=about.began
            )
            rows.append(row)
    return rows
