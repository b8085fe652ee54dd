"""What a line in a run's FIFO asks for."""

from __future__ import annotations

import json
import math
from typing import Any

from mosaic.runs.ladder import LONGEST_PATIENCE_S
from mosaic.runs.lifecycle import CheckpointAsked, Event, PauseAsked, ResumeAsked, StopAsked


def read_command(line: bytes, now_s: float) -> Event:
    """What a line asks for. Raises ValueError, with a text, where it asks for nothing we know."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a command is a JSON object")
    match message.get("command"):
        case "stop":
            return StopAsked(now_s, str(message.get("reason", "asked to stop")), _patience(message))
        case "pause":
            return PauseAsked()
        case "resume":
            return ResumeAsked()
        case "checkpoint":
            return CheckpointAsked()
        case other:
            raise ValueError(f"{other!r} is no command: stop, pause, resume, checkpoint")


def _patience(message: dict[str, Any]) -> float | None:
    if message.get("patience_s") is None:
        return None
    patience_s = float(message["patience_s"])
    if math.isnan(patience_s):
        raise ValueError("patience_s is no number")
    return min(max(patience_s, 0.0), LONGEST_PATIENCE_S)
