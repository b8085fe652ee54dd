"""How hard a run is pushed to stop, and when: ask, SIGINT, SIGTERM, SIGKILL."""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGINT, SIGKILL, SIGTERM, Signals

DEFAULT_PATIENCE_S = 10.0
LONGEST_PATIENCE_S = 86_400.0

_PUSHES = ((0.6, SIGINT), (0.8, SIGTERM), (1.0, SIGKILL))  # share of the patience at which each comes


@dataclass(frozen=True, slots=True)
class Rung:
    at_s: float  # on the monotonic clock
    signal: Signals


def ladder(now_s: float, patience_s: float) -> tuple[Rung, ...]:
    """What follows after the worker was asked at `now_s`; the last rung ends everything."""
    return tuple(Rung(now_s + share * patience_s, signal) for share, signal in _PUSHES)


def climb(rungs: tuple[Rung, ...], now_s: float) -> tuple[tuple[Signals, ...], tuple[Rung, ...]]:
    """The pushes that are due, and the rungs that remain."""
    due = tuple(rung.signal for rung in rungs if rung.at_s <= now_s)
    return due, rungs[len(due) :]


def hasten(rungs: tuple[Rung, ...], now_s: float, patience_s: float) -> tuple[Rung, ...]:
    """A second stop may bring the end nearer, never put it off; what was pushed is not pushed again."""
    if not rungs or now_s + patience_s >= rungs[-1].at_s:
        return rungs
    return ladder(now_s, patience_s)[-len(rungs) :]
