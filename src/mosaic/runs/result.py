"""How long a run took for what, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Seconds; None where the run did not come that far."""

    startup_s: float | None  # from the request until training begins: processes, imports, code, models
    train_s: float | None  # training, with its reports and checkpoints, over all attempts
    time_to_stop_s: float | None  # until the reward that was asked for was reached


def times(events: Iterable[Mapping[str, Any]], asked_at: float | None) -> Times:
    startup = trained = reached = None
    prepared = False
    for event in events:
        match event.get("kind"):
            case "started" if startup is None and asked_at is not None:
                startup = max(0.0, event["timestamp"] - asked_at)
            case "ended":
                if startup is not None and not prepared:
                    startup, prepared = startup + event.get("prepare_s", 0.0), True
                reached = (trained or 0.0) + event["time_to_stop_s"] if event.get("time_to_stop_s") else reached
                trained = (trained or 0.0) + event["train_s"]
    return Times(startup, trained, reached)
