"""How a run is called in one line."""

from __future__ import annotations

from mosaic.store.index.summary import RunSummary
from mosaic.store.state import LIVE, State
from mosaic.ui.web.components.theme import env_title


def title(row: RunSummary) -> str:
    """Its name, or its id; the members of a seed group are numbered by their names."""
    return row.name or row.run_id


def method(row: RunSummary) -> str:
    return " ".join(filter(None, (row.worker, row.algorithm))) or "not chosen yet"


def spark_kind(row: RunSummary) -> str:
    """The sparkline's look: alive, failed, or over."""
    if row.state in LIVE:
        return ""
    return "failed" if row.state in (State.FAILED, State.LOST) else "idle"


def search_text(row: RunSummary) -> str:
    parts = (row.run_id, row.name, row.env, env_title(row.env), method(row), row.group, *row.tags)
    return " ".join(parts).lower()
