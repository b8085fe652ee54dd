"""The newest iteration event of a run, also when other events came after it: speed and shares of time stand there."""

from __future__ import annotations

import json
from typing import Any

from mosaic.store.run_folder import RunFolder

_BYTES = 256 << 10


def last_iteration(folder: RunFolder) -> dict[str, Any]:
    """Empty where the end of the file holds none."""
    if not folder.metrics.exists():
        return {}
    with folder.metrics.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(max(0, length - _BYTES))
        lines = file.read(_BYTES).split(b"\n")
    whole = lines[:-1] if length <= _BYTES else lines[1:-1]  # the first may be cut, the last is still being written
    for line in reversed(whole):
        if b'"iteration"' in line:
            event: dict[str, Any] = json.loads(line)
            if event.get("kind") == "iteration":
                return event
    return {}
