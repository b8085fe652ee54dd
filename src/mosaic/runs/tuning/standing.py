"""How the trials of a search stand, and which is the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from mosaic.runs.tuning.plan import Mode

TrialState: TypeAlias = Literal["waiting", "running", "paused", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Standing:
    trial: int
    state: TrialState
    options: Mapping[str, Any]
    score: float | None = None  # the last one
    env_steps: int = 0
    run_id: str | None = None  # the newest of its runs
    reason: str = ""  # why it failed

    def document(self, metric: str) -> dict[str, Any]:
        row = asdict(self)
        score = row.pop("score")
        return {**row, metric: score}


def best_of(standings: Iterable[Standing], mode: Mode) -> Standing | None:
    """The one with the best last score; of equals the first."""
    sign = 1 if mode == "max" else -1
    rated = [each for each in standings if each.score is not None and each.state != "failed"]
    return max(rated, key=lambda each: (sign * (each.score or 0.0), -each.trial), default=None)


def is_over(standings: Iterable[Standing], trials: int) -> bool:
    """Whether every trial there should be has come to its end."""
    return sum(each.state in ("done", "stopped", "failed") for each in standings) >= trials
