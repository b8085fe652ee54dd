"""Figures of a benchmark, written down for `mosaic bench`: one JSON line each, in the file that a variable names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

VARIABLE = "MOSAIC_BENCHMARK_FIGURES"
LOOSER = 2.0
_loose = False
_noted = 0
_above = ""


class Goal(NamedTuple):
    """Bound of a figure: of its ratio to the peer where there is one."""

    kind: str  # "at least" or "at most"
    value: float
    fixed: bool = False  # not a matter of speed: a result of learning, memory

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.kind == "at least" else figure <= self.value


def at_least(value: float | None) -> Goal | None:
    return None if value is None else Goal("at least", value)


def at_most(value: float | None) -> Goal | None:
    return None if value is None else Goal("at most", value)


def loosen_goals() -> None:
    """Use the goals of the short form from here on.

    A single repeat on a small or busy machine is noise of tens of percent, and goals in seconds or steps/s are those of
    the machine of the published figures. So ratios and other figures without a unit have half the goal, figures with a
    unit have none. Fixed goals stay as they are.
    """
    global _loose
    _loose = True


def noted() -> int:
    """Return how many lines this process has written down, or would have if `mosaic bench` had started it."""
    return _noted


def _whole(what: str) -> str:
    """Return the name of a figure for the report: an indented one is of the last that is not.

    Printed lines stand below each other; figures of a report are read and compared one by one.
    """
    global _above
    if what.startswith(" "):
        return f"{_above}: {what.strip()}" if _above else what.strip()
    _above = what
    return what


def note_figure(what: str, unit: str, values: Sequence[float], goal: Goal | None = None) -> str:
    """Write down one figure, measured once or in several repeats; return the goal in words and whether it was met."""
    kept = goal if unit in ("", "×") or (goal is not None and goal.fixed) or not _loose else None
    return _note({"what": _whole(what), "unit": unit, "values": list(values)}, kept, median(values))


def note_ratio(
    what: str, unit: str, ours: Sequence[float], peer: Sequence[float], name: str, goal: Goal | None = None
) -> str:
    """Write down a figure beside the peer's of the same repeats; a ratio above one is better, also of times."""
    quicker = unit in ("s", "ms", "µs")
    ratios = [theirs / mine if quicker else mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    beside = {"peer": name, "peer_values": list(peer), "ratios": ratios}
    return _note({"what": _whole(what), "unit": unit, "values": list(ours), **beside}, goal, median(ratios))


def note_failure(what: str, reason: str) -> None:
    """Write down why a row has no figures: a gate that was missed, or a process that ended."""
    _write({"what": what, "failed": reason})


def note_skipped(what: str, reason: str, package: str = "") -> None:
    """Write down why a row was left out: the package that is not installed, or another thing that it needs."""
    _write({"what": what, "skipped": reason, "package": package})


def _note(document: dict[str, object], goal: Goal | None, figure: float) -> str:
    if goal is None:
        _write(document)
        return ""
    value = goal.value
    if _loose and not goal.fixed:
        value = value / LOOSER if goal.kind == "at least" else value * LOOSER
    met = goal._replace(value=value).met(figure)
    _write({**document, "goal": goal.kind, "bound": value, "met": met})
    return f"{goal.kind} {value:,.4g}: {'yes' if met else 'NO'}"


def _write(document: dict[str, object]) -> None:
    global _noted
    _noted += 1
    if path := os.environ.get(VARIABLE):
        with open(path, "a", encoding="utf-8") as figures:
            figures.write(json.dumps(document, allow_nan=False) + "\n")
