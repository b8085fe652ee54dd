"""A line for each thing that is played now and is no run."""

from __future__ import annotations

from pathlib import Path

from mosaic.server.schemas import LiveRow
from mosaic.store.live_sessions import shows


def live_rows(home: Path) -> list[LiveRow]:
    """The newest first."""
    rows = []
    for show in shows(home):
        about = show.about()
        if about is not None:  # it may have ended in between
            row = LiveRow(id=show.id, kind=about.kind, env=about.env, policies=dict(about.policies), began=about.began)
            rows.append(row)
    return rows
