"""Finite envs and games as arrays (`Mdp`, `GameTables`), their construction, and a Gymnasium env of an Mdp."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mosaic.core.errors import InputError, shown
from mosaic.core.machine import free_memory

Outcome: TypeAlias = tuple[float, int, float, bool]  # probability, next state, reward, terminated
Outcomes: TypeAlias = Sequence[Sequence[Sequence[Outcome]]]  # [state][action][outcome]

CERTAIN = 2.0  # a threshold that no number below 1 reaches, regardless of rounding in the sum before it
_SUM_TOLERANCE = 1e-9
_BYTES_PER_OUTCOME = 4 + 8 + 8 + 1
_INSTEAD = "Train on the env itself with a hashed table instead: it holds only the states that play reaches."


class Mdp(NamedTuple):
    """C-contiguous arrays that numba takes directly: S states, A actions, at most K outcomes of an action.

    With `u` uniform in [0, 1) the outcome is the first whose threshold exceeds `u`. Gymnasium draws in the same way, so
    the same `u` leads to the same outcome in both. Entries after an action's last outcome are never drawn.
    """

    next_state: NDArray[np.int32]  # [S, A, K]
    threshold: NDArray[np.float64]  # [S, A, K] cumulative probability, CERTAIN from the last possible outcome on
    reward: NDArray[np.float64]  # [S, A, K]
    terminated: NDArray[np.uint8]  # [S, A, K]
    start_state: NDArray[np.int32]  # [N]
    start_threshold: NDArray[np.float64]  # [N] cumulative probability, the last is CERTAIN
    legal: NDArray[np.uint8]  # [S, A]
    time_limit: int  # env steps after which an episode is truncated; 0: never


class GameTables(NamedTuple):
    """Two-player game with strictly alternating moves, from the mover's view: zero-sum, deterministic.

    C-contiguous arrays that numba takes directly: S positions, A actions. Entries of illegal actions are meaningless.
    """

    next_state: NDArray[np.int32]  # [S, A] the position as the next mover sees it, the final one too
    reward: NDArray[np.float32]  # [S, A] to the mover; the other gets its negative
    over: NDArray[np.uint8]  # [S, A] 1 if the action ends the game
    legal: NDArray[np.uint8]  # [S, A] all 0 if the game is over
    start: int


def probabilities(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of thresholds, along the last axis."""
    return np.diff(np.minimum(threshold, 1.0), axis=-1, prepend=0.0)


def shorter(one: int, other: int) -> int:
    """Return the shorter of two time limits; 0 means no limit."""
    return min(one, other) if one and other else one or other


def enumerate_mdp(
    start_states: Mapping[Hashable, float] | Iterable[Hashable],
    step: Callable[[Any, int], Sequence[tuple[float, Hashable, float, bool]]],
    actions: int,
    *,
    legal: Callable[[Any], Sequence[bool]] | None = None,
    time_limit: int = 0,
    memory_limit: int | None = None,
) -> tuple[Mdp, dict[Hashable, int]]:
    """Return the arrays of a model `step(state, action) -> [(p, next, reward, terminated)]`, and its states' indices.

    States are hashable and numbered in the order in which they are found, breadth first. `start_states` are equally
    likely, or map to their probabilities. The model is never called for illegal actions or for states that are reached
    only when the episode ends.
    """
    starts = _start_probabilities(start_states)
    index = {state: number for number, state in enumerate(starts)}
    waiting = deque(starts)
    asked = set(starts)
    rows: dict[int, list[list[Outcome]]] = {}
    masks: dict[int, Sequence[bool]] = {}
    limit, width = _half_of_free_memory() if memory_limit is None else memory_limit, 1
    while waiting:
        state = waiting.popleft()
        number = index[state]
        masks[number] = [True] * actions if legal is None else legal(state)
        rows[number] = []
        for action in range(actions):
            outcomes = list(step(state, action)) if masks[number][action] else []
            rows[number].append([(p, index.setdefault(s, len(index)), pay, end) for p, s, pay, end in outcomes])
            new = dict.fromkeys(s for _, s, _, end in outcomes if not end and s not in asked)
            waiting.extend(new)
            asked.update(new)
            width = max(width, len(outcomes))
        refuse_size(len(index), actions, width, limit, "The part of the model explored so far")
    stay: list[list[list[Outcome]]] = [[[(1.0, number, 0.0, True)]] * actions for number in range(len(index))]
    table = [[said or stay[n][0] for said in rows[n]] if n in rows else stay[n] for n in range(len(index))]
    distribution = [*starts.values(), *[0.0] * (len(index) - len(starts))]
    allowed = np.array([masks.get(n, [True] * actions) for n in range(len(index))], np.uint8)
    return tabulate(table, distribution, allowed, time_limit, name="The model", memory_limit=limit), index


def tabulate(
    outcomes: Outcomes,
    start: Sequence[float],
    legal: NDArray[np.uint8],
    time_limit: int,
    *,
    name: str,
    memory_limit: int | None = None,
) -> Mdp:
    """Make checked arrays from lists; outcomes keep their order, so that equal draws lead to equal outcomes."""
    states, actions = len(outcomes), len(outcomes[0])
    width = max(len(each) for row in outcomes for each in row)
    refuse_size(states, actions, width, memory_limit, name)
    next_state = np.empty((states, actions, width), np.int32)
    probability = np.zeros((states, actions, width))
    reward = np.zeros((states, actions, width))
    terminated = np.ones((states, actions, width), np.uint8)
    next_state[:] = np.arange(states, dtype=np.int32)[:, None, None]
    for state, row in enumerate(outcomes):
        if len(row) != actions:
            raise InputError(f"{name}: state {state} has {len(row)} actions, others have {actions}.")
        for action, each in enumerate(row):
            place = f"{name}: action {action} in state {state}"
            for k, (p, following, pay, end) in enumerate(each):
                if not 0 <= following < states:
                    raise InputError(f"{place} leads to state {following}, but there are only 0..{states - 1}.")
                if not math.isfinite(pay):
                    raise InputError(f"{place} has the reward {shown(pay)}. Rewards must be finite numbers.")
                next_state[state, action, k] = following
                probability[state, action, k], reward[state, action, k] = p, pay
                terminated[state, action, k] = bool(end)
            if not _is_distribution(probability[state, action]):
                raise InputError(f"{place} has outcomes of probability {[p for p, *_ in each]}; they must sum to 1.")
    start_state = np.flatnonzero(np.asarray(start)).astype(np.int32)
    start_probability = np.asarray(start, np.float64)[start_state]
    if len(start) != states or not _is_distribution(start_probability):
        raise InputError(f"{name}: the start distribution must hold {states} probabilities that sum to 1.")
    mdp = Mdp(
        next_state,
        _thresholds(probability),
        reward,
        terminated,
        start_state,
        _thresholds(start_probability),
        np.ascontiguousarray(legal, np.uint8),
        time_limit,
    )
    _refuse_dead_ends(mdp, name)
    return mdp


def _thresholds(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    cumulative = np.cumsum(probability, axis=-1)
    possible = probability > 0
    behind: NDArray[np.int64] = np.cumsum(possible[..., ::-1], axis=-1)[..., ::-1] - possible
    cumulative[behind == 0] = CERTAIN
    return cumulative


def _is_distribution(probability: NDArray[np.float64]) -> bool:
    return bool((probability >= 0).all() and abs(probability.sum() - 1) <= _SUM_TOLERANCE)


def _start_probabilities(start_states: Mapping[Hashable, float] | Iterable[Hashable]) -> dict[Hashable, float]:
    if isinstance(start_states, Mapping):
        starts = dict(start_states)
    else:
        states = dict.fromkeys(start_states)
        starts = {state: 1 / len(states) for state in states}
    if not starts:
        raise InputError("The model has no start state.")
    return starts


def _refuse_dead_ends(mdp: Mdp, name: str) -> None:
    """Refuse states in which an episode continues but no action is legal."""
    continues = (probabilities(mdp.threshold) > 0) & (mdp.terminated == 0) & (mdp.legal[:, :, None] == 1)
    visited = np.union1d(mdp.start_state, mdp.next_state[continues])
    dead = visited[mdp.legal[visited].sum(axis=1) == 0]
    if len(dead):
        raise InputError(f"{name}: no action is legal in state {dead[0]}, yet no episode ends there.")


def refuse_size(states: int, actions: int, outcomes: int, memory_limit: int | None, name: str) -> None:
    """Refuse tables over the limit.

    The default is half of the free memory, because the table of values has to fit as well.
    """
    limit = _half_of_free_memory() if memory_limit is None else memory_limit
    size = states * actions * (outcomes * _BYTES_PER_OUTCOME + 1)
    if size > limit or states >= 2**31:
        raise InputError(
            f"{name} has {states:,} states × {actions:,} actions × {outcomes:,} outcomes: {size:,} bytes as arrays, "
            f"and {limit:,} may be used. {_INSTEAD}"
        )


def _half_of_free_memory() -> int:
    return free_memory() // 2


class MdpEnv(gymnasium.Env[int, int]):
    """Env whose observations are states; masks are in info["action_mask"] if any apply.

    `draw(state)` renders the image.
    """

    def __init__(self, mdp: Mdp, draw: Callable[[int], NDArray[np.uint8]] | None = None) -> None:
        self.mdp = mdp
        states, actions = mdp.legal.shape
        self.observation_space = spaces.Discrete(states)
        self.action_space = spaces.Discrete(actions)
        self.metadata = {"render_modes": ["rgb_array"] if draw else [], "render_fps": 4}
        self.render_mode = "rgb_array" if draw else None
        self._draw = draw
        self._masked = not mdp.legal.all()
        self._state = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = int(self.mdp.start_state[self._drawn(self.mdp.start_threshold)])
        self._steps = 0
        return self._state, self._info()

    def step(self, action: int) -> tuple[int, SupportsFloat, bool, bool, dict[str, Any]]:
        mdp, state = self.mdp, self._state
        outcome = self._drawn(mdp.threshold[state, action])
        self._state = int(mdp.next_state[state, action, outcome])
        self._steps += 1
        reward = float(mdp.reward[state, action, outcome])
        terminated = bool(mdp.terminated[state, action, outcome])
        return self._state, reward, terminated, self._steps == mdp.time_limit, self._info()

    def render(self) -> Any:
        return None if self._draw is None else self._draw(self._state)

    def _drawn(self, threshold: NDArray[np.float64]) -> int:
        return int(np.argmax(threshold > self.np_random.random()))

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.mdp.legal[self._state].astype(np.int8)} if self._masked else {}
