"""Timing of a match's next step."""

from __future__ import annotations

import math
from dataclasses import dataclass

REAL_TIME_FPS = 5  # envs that are drawn at least this often are meant to run in real time
DEFAULT_TURNS_HZ = 2.0  # for a turn-based game played by policies only


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that decides when the next step is taken."""

    over: bool  # nothing can follow but a restart
    watched: bool
    paused: bool
    steps_asked: int  # single steps still to be taken
    people_wait: bool  # a human who must choose has not chosen yet
    people_play: bool
    real_time: bool
    now_s: float
    due_s: float  # when the next step is due at the chosen rate


def wait_s(moment: Moment) -> float:
    """Return seconds until the next step; 0: now, inf: not before something changes. Unwatched matches are paused."""
    if moment.over or not moment.watched:
        return math.inf
    if moment.paused and not moment.steps_asked:
        return math.inf
    if moment.real_time:
        return 0.0 if moment.steps_asked else max(0.0, moment.due_s - moment.now_s)
    if moment.people_wait:
        return math.inf
    if moment.people_play or moment.steps_asked:
        return 0.0
    return max(0.0, moment.due_s - moment.now_s)
