"""Figures of a benchmark, written down for `mosaic bench`: one JSON line each, in the file that a variable names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

VARIABLE = "MOSAIC_BENCHMARK_FIGURES"


class Goal(NamedTuple):
    """Bound of a figure: of its ratio to the peer where there is one."""

    kind: str  # "at least" or "at most"
    value: float

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.kind == "at least" else figure <= self.value


def at_least(value: float | None) -> Goal | None:
    return None if value is None else Goal("at least", value)


def at_most(value: float | None) -> Goal | None:
    return None if value is None else Goal("at most", value)


def note_figure(what: str, unit: str, values: Sequence[float], goal: Goal | None = None) -> None:
    """Write down one figure, measured once or in several repeats."""
    _write({"what": what, "unit": unit, "values": list(values), **_verdict(goal, median(values))})


def note_ratio(
    what: str, unit: str, ours: Sequence[float], peer: Sequence[float], name: str, goal: Goal | None = None
) -> None:
    """Write down a figure beside the peer's of the same repeats; a ratio above one is better, also of times."""
    quicker = unit in ("s", "ms", "µs")
    ratios = [theirs / mine if quicker else mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    beside = {"peer": name, "peer_values": list(peer), "ratios": ratios}
    _write({"what": what, "unit": unit, "values": list(ours), **beside, **_verdict(goal, median(ratios))})


def note_failure(what: str, reason: str) -> None:
    """Write down why a row has no figures: a gate that was missed, or a process that ended."""
    _write({"what": what, "failed": reason})


def note_skipped(what: str, reason: str) -> None:
    """Write down why a row was left out: something that it needs is not installed."""
    _write({"what": what, "skipped": reason})


def _verdict(goal: Goal | None, figure: float) -> dict[str, object]:
    return {} if goal is None else {"goal": goal.kind, "bound": goal.value, "met": goal.met(figure)}


def _write(document: dict[str, object]) -> None:
    if path := os.environ.get(VARIABLE):
        with open(path, "a", encoding="utf-8") as figures:
            figures.write(json.dumps(document) + "\n")
