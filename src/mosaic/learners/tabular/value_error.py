"""How far a table is from what its states are really worth."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.board_games.game import Game
from mosaic.envs.compiled.mdp.mdp import Mdp
from mosaic.learners.tabular.optimal import game_values, value_iteration
from mosaic.learners.tabular.training.twin import Opponent, SteppedEnv, Twin
from mosaic.learners.tabular.two_tables import TwoTableTraining

Floats = NDArray[np.float64]

MOST_NUMBERS = 200_000  # states × actions × outcomes
_MOST_WORK = 50_000_000  # numbers × sweeps: about a second
_TOLERANCE = 1e-6


@runtime_checkable
class Tabled(Protocol):
    """A way to train that holds the table of a compiled twin."""

    @property
    def twin(self) -> Twin: ...

    @property
    def values(self) -> NDArray[Any]: ...

    @property
    def visits(self) -> NDArray[np.int32]: ...


class ValueGauge:
    """The value error of a table while it learns; what states are worth is worked out at the first look."""

    def __init__(self, training: Tabled, discount_factor: float, opponent: Opponent = "self") -> None:
        self._training, self._discount_factor, self._opponent = training, discount_factor, opponent

    def error(self) -> float | None:
        """The mean over all states in which a seat has acted; None where there is none, or nothing to compare with."""
        if self._truth is None:
            return None
        training, legal, truth = self._training, self._training.twin.legal, self._truth
        total, states = sum_errors(training.values, training.visits, legal, truth)
        if isinstance(training, TwoTableTraining):
            more, others = sum_errors(training.values_second, training.visits_second, legal, truth)
            total, states = total + more, states + others
        return total / states if states else None

    @cached_property
    def _truth(self) -> Floats | None:
        twin = self._training.twin
        return None if isinstance(twin, SteppedEnv) else true_values(twin, self._discount_factor, self._opponent)


def true_values(twin: Mdp | Game, discount_factor: float, opponent: Opponent = "self") -> Floats | None:
    """What each state is worth under perfect play; None where that is unknown or not cheap.

    Games: to the mover, against itself, without discount. Time limits do not count, as learners look beyond them too.
    """
    if isinstance(twin, Game):
        known = opponent == "self" and discount_factor == 1.0 and twin.legal.size <= MOST_NUMBERS
        return game_values(twin)[0] if known else None
    numbers = twin.threshold.size
    if numbers > MOST_NUMBERS:
        return None
    try:
        return value_iteration(
            twin, discount_factor, tolerance=_TOLERANCE, most_sweeps=max(1, _MOST_WORK // numbers)
        ).values
    except InputError:  # the values have no limit, or a far one: nothing cheap to compare with
        return None


def sum_errors(
    values: NDArray[Any], visits: NDArray[np.int32], legal: NDArray[np.uint8], truth: Floats
) -> tuple[float, int]:
    """The sum of |best legal value − true value| over the states that were ever acted in, and how many those are."""
    total, states = _sum_errors(values, visits, legal, truth)
    return float(total), int(states)


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_errors(values, visits, legal, truth):  # type: ignore[no-untyped-def]
    total, states = 0.0, 0
    for state in range(visits.shape[0]):
        visited, best = False, -np.inf
        for action in range(visits.shape[1]):
            if visits[state, action] != 0:
                visited = True
                break
        if not visited:
            continue
        for action in range(visits.shape[1]):
            if legal[state, action] != 0:
                best = max(best, np.float64(values[state, action]))
        total += abs(best - truth[state])
        states += 1
    return total, states
