"""Exact values of states under known rules, and an exhaustive check whether a table can be beaten."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp, probabilities
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.training.twin import Opponent, SteppedEnv, Twin, TwoTableTraining

Floats = NDArray[np.float64]


class OptimalPlan(NamedTuple):
    """Optimal values and policy.

    Illegal actions are worth -inf; a state without a legal action is worth 0. Time limits are ignored.
    """

    values: Floats  # [state]
    action_values: Floats  # [state, action]
    policy: NDArray[np.int64]  # [state] best action, the lowest on ties


def value_iteration(
    mdp: Mdp, discount_factor: float = 0.99, *, tolerance: float = 1e-12, most_sweeps: int = 1_000_000
) -> OptimalPlan:
    """Sweep until no value changes by more than `tolerance`."""
    chances, goes_on = probabilities(mdp.threshold), discount_factor * (mdp.terminated == 0).astype(np.float64)
    values = np.zeros(len(mdp.legal))
    for _ in range(most_sweeps):
        after = _worth(_look_ahead(mdp, chances, goes_on, values))
        moved = float(np.abs(after - values).max())
        values = after
        if moved <= tolerance:
            return _plan(mdp, chances, goes_on, values)
    raise InputError(
        f"Values still change by {moved:g} after {most_sweeps:,} sweeps: with discount_factor={discount_factor} "
        "they may not converge. Use a discount_factor below 1."
    )


def game_values(game: GameTables) -> tuple[Floats, Floats]:
    """Return the values of positions to their mover [S] and of moves [S, A] (illegal -inf) under perfect play.

    Backwards from the ends: a position is solved once all its moves are. Positions that cannot be solved this way lie
    on cycles; a finite game has none.
    """
    states = len(game.legal)
    legal, goes_on = game.legal != 0, (game.legal != 0) & (game.over == 0)
    moves = np.where(legal, game.reward.astype(np.float64), -np.inf)
    open_moves = goes_on.sum(axis=1)
    state_of, action_of = np.nonzero(goes_on)
    order = np.argsort(game.next_state[goes_on], kind="stable")
    state_of, action_of = state_of[order], action_of[order]
    first = np.searchsorted(game.next_state[state_of, action_of], np.arange(states + 1))
    values, settled = np.zeros(states), 0
    front = np.flatnonzero(open_moves == 0)
    while len(front):
        settled += len(front)
        values[front] = _worth(moves[front])
        into = np.concatenate([np.arange(first[s], first[s + 1]) for s in front])
        s, a = state_of[into], action_of[into]
        moves[s, a] -= values[game.next_state[s, a]]
        np.subtract.at(open_moves, s, 1)
        touched = np.unique(s)
        front = touched[open_moves[touched] == 0]
    if settled < states:
        raise InputError(f"{states - settled:,} of {states:,} positions repeat forever: the game has no end.")
    return values, moves


def _look_ahead(mdp: Mdp, chances: Floats, goes_on: Floats, values: Floats) -> Floats:
    """Return the expected reward and following value of each [state, action]."""
    each = mdp.reward + goes_on * values[mdp.next_state]
    return np.where(mdp.legal != 0, np.where(chances > 0, chances * each, 0.0).sum(axis=2), -np.inf)


def _worth(action_values: Floats) -> Floats:
    best = action_values.max(axis=1)
    return np.where(np.isneginf(best), 0.0, best)


def _plan(mdp: Mdp, chances: Floats, goes_on: Floats, values: Floats) -> OptimalPlan:
    action_values = _look_ahead(mdp, chances, goes_on, values)
    return OptimalPlan(values, action_values, action_values.argmax(axis=1))


MOST_NUMBERS = 200_000  # states × actions × outcomes
_MOST_WORK = 50_000_000  # numbers × sweeps: about a second
_TOLERANCE = 1e-6


@runtime_checkable
class Tabled(Protocol):
    """Training that holds the table of a compiled twin."""

    @property
    def twin(self) -> Twin: ...

    @property
    def values(self) -> Values: ...

    @property
    def visits(self) -> NDArray[np.int32]: ...


class ValueGauge:
    """Value error of a table while it learns; the true values are computed on first use."""

    def __init__(self, training: Tabled, discount_factor: float, opponent: Opponent = "self") -> None:
        self._training, self._discount_factor, self._opponent = training, discount_factor, opponent

    def error(self) -> float | None:
        """Return the mean over all states in which a player has acted; None where there are none, or no true values."""
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


def true_values(twin: Mdp | GameTables, discount_factor: float, opponent: Opponent = "self") -> Floats | None:
    """Return each state's value under perfect play; None where that is unknown or expensive.

    Games: to the mover, against itself, without discount. Time limits do not count, as learners look beyond them too.
    """
    if isinstance(twin, GameTables):
        known = opponent == "self" and discount_factor == 1.0 and twin.legal.size <= MOST_NUMBERS
        return game_values(twin)[0] if known else None
    numbers = twin.threshold.size
    if numbers > MOST_NUMBERS:
        return None
    try:
        return value_iteration(
            twin, discount_factor, tolerance=_TOLERANCE, most_sweeps=max(1, _MOST_WORK // numbers)
        ).values
    except InputError:  # the values diverge or converge slowly: no cheap comparison
        return None


def sum_errors(values: Values, visits: NDArray[np.int32], legal: NDArray[np.uint8], truth: Floats) -> tuple[float, int]:
    """Return the sum of |best legal value − true value| over the states ever acted in, and their number."""
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


class Verification(NamedTuple):
    """Result of exhaustive play against a table's best moves; equally good ones are all tried."""

    positions: int  # different ones in which the table had to move
    lost: int  # moves of the table or replies to them that lose the game for it

    @property
    def unbeatable(self) -> bool:
        return self.lost == 0


def prove(game: GameTables, values: Values) -> Verification:
    """Search all lines of play: the table moves first in half of them, and the other side tries everything."""
    legal = game.legal.astype(bool)
    best = np.where(legal, values, -np.inf).max(axis=1, keepdims=True)
    chosen = legal & (values == best)
    first = [game.start]
    second = [int(game.next_state[game.start, a]) for a in np.flatnonzero(legal[game.start])]
    seen: set[int] = set()
    waiting, lost = [*first, *second], 0
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        for action in np.flatnonzero(chosen[state]):
            if game.over[state, action]:
                lost += game.reward[state, action] < 0
                continue
            after = int(game.next_state[state, action])
            for reply in np.flatnonzero(legal[after]):
                if game.over[after, reply]:
                    lost += game.reward[after, reply] > 0
                else:
                    waiting.append(int(game.next_state[after, reply]))
    return Verification(len(seen), int(lost))
