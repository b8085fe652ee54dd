"""History of the changes made to a run's configuration between its attempts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from mosaic.store.atomic import write_atomic
from mosaic.store.run_folder import RunFolder

HISTORY = "config_history.json"


def changed_settings(before: Mapping[str, Any], after: Mapping[str, Any], above: str = "") -> dict[str, list[Any]]:
    """Return the settings in which two documents differ: {dotted name: [old value, new value]}."""
    found: dict[str, list[Any]] = {}
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= changed_settings(old, new, f"{above}{name}.")
        elif old != new:
            found[f"{above}{name}"] = [old, new]
    return found


def read_history(folder: RunFolder) -> list[dict[str, Any]]:
    """Return the changes, oldest first: the first attempt with them, the time, and old and new values."""
    path = folder.path / HISTORY
    return json.loads(path.read_text()) if path.exists() else []


def add_to_history(folder: RunFolder, attempt: int, changes: Mapping[str, Any]) -> None:
    """Append the changes of an attempt; the caller holds the run's lock."""
    entry = {"attempt": attempt, "timestamp": time.time(), "changes": dict(changes)}
    write_atomic(folder.path / HISTORY, json.dumps([*read_history(folder), entry], indent=1) + "\n")
