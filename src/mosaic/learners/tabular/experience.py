"""One step of experience, and the earlier steps that an algorithm remembers."""

# compiled code uses this file

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Legal: TypeAlias = NDArray[np.bool_] | Sequence[bool]  # one entry per action
Values: TypeAlias = NDArray[np.floating]  # float32 or float64, as the options say
Visits: TypeAlias = NDArray[np.int32]

NOWHERE = -1
# Codes that a step returns instead of the next action
ENDED, NOT_FINITE, NO_ROOM = -1, -2, -3
TRACE_FLOOR = 1e-6  # a trace below this is dropped


@cache
def every_action(actions: int) -> NDArray[np.bool_]:
    """Return the mask that allows all: always the same array, so that it is recognised without reading its entries."""
    return np.ones(actions, np.bool_)  # writeable: compiled code treats a read-only array as another type


class TabularStep(NamedTuple):
    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool  # nothing follows: the next state is worth 0
    truncated: bool  # the episode is cut, but the next state keeps its value
    next_legal: Legal

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


@dataclass(slots=True)
class Trail:
    """Pairs of the running episode that still wait for later rewards, oldest first."""

    pairs: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)  # q_lambda: weight of the trace; others: reward
    next_state: int = NOWHERE  # where the last step led, and what was legal there
    next_legal: Legal = ()

    def clear(self) -> None:
        self.pairs.clear()
        self.numbers.clear()
        self.next_state = NOWHERE

    def add(self, x: TabularStep, number: float) -> None:
        self.pairs.append((x.state, x.action))
        self.numbers.append(number)
        self.next_state, self.next_legal = x.next_state, x.next_legal

    def drop_oldest(self) -> None:
        del self.pairs[0], self.numbers[0]
