"""Training on an env's arrays with the algorithms and explorations that the fast loops do not support.

The steps are those of numba_steps.py. All mutable state is in the progress arrays, including the trail of earlier
steps, so that a loop can be left and resumed after any step, and sent to other processes like the fast ones.
"""

from __future__ import annotations

import math

import numpy as np

from mosaic.core.errors import InputError
from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp
from mosaic.envs.compiled.random import draw, uniform
from mosaic.learners.tabular.engines import numba_steps as fused_steps
from mosaic.learners.tabular.engines.base import signed
from mosaic.learners.tabular.engines.numba_steps import learn_on_trail, learn_one, select
from mosaic.learners.tabular.experience import TRACE_FLOOR
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.kernels.loops import (
    CHANCES,
    EPISODES,
    EPSILON,
    NOWHERE,
    RETURN,
    STATE,
    STEP_IN_EPISODE,
    STEPS,
)
from mosaic.learners.tabular.options import ALGORITHMS, EXPLORATIONS, TabularOptions
from mosaic.learners.tabular.random import stream
from mosaic.learners.tabular.save_load import Tensors
from mosaic.learners.tabular.training.stepped import SteppedTraining
from mosaic.learners.tabular.training.twin import Opponent, SteppedEnv, Twin, TwinTraining

COMPILED_ON_ARRAYS = tuple(name for name in ALGORITHMS if name != "double_q_learning")  # which has two tables
MOST_TRAIL = 1 << 20  # steps that an algorithm may look back

_COUNTS, _SUMS = 8, 9  # of kernels.LoopProgress; after them: marks, legal actions and pairs; numbers and trail
_MARKS, _NUMBERS = fused_steps.MARKS, fused_steps.NUMBERS
_RULES = slice(fused_steps.ALGORITHM, fused_steps.N_STEP + 1)  # of marks: set by options


def open_training(
    twin: Twin, algorithm: str, options: TabularOptions, seed: int, opponent: Opponent = "self"
) -> TwinTraining:
    """Return the fastest compiled loop that supports the algorithm and the exploration."""
    if isinstance(twin, SteppedEnv):
        return SteppedTraining(twin, algorithm, options, seed)
    if isinstance(twin, GameTables) or (algorithm in kernels.ALGORITHMS and options.exploration == "epsilon_greedy"):
        return TwinTraining(twin, algorithm, options, seed, opponent)
    return MdpTraining(twin, algorithm, options, seed)


class MdpTraining(TwinTraining):
    """One learner, one table, any algorithm of COMPILED_ON_ARRAYS with any exploration."""

    def __init__(self, mdp: Mdp, algorithm: str, options: TabularOptions, seed: int) -> None:
        if algorithm not in COMPILED_ON_ARRAYS:
            raise InputError(f"The compiled loop supports {', '.join(COMPILED_ON_ARRAYS)}, not {algorithm}.")
        super().__init__(mdp, "q_learning", options.model_copy(update={"exploration": "epsilon_greedy"}), seed)
        self._algorithm = algorithm
        room, actions = _room(mdp, algorithm, options), mdp.legal.shape[1]
        counts = np.zeros(_COUNTS + _MARKS + actions + 2 * room, np.int64)
        sums = np.zeros(_SUMS + _NUMBERS + room)
        counts[:_COUNTS], sums[:_SUMS] = self.progress.counts, self.progress.sums
        self.progress = self.progress._replace(counts=counts, sums=sums)
        marks, numbers = counts[_COUNTS : _COUNTS + _MARKS], sums[_SUMS : _SUMS + _NUMBERS]
        marks[fused_steps.KEY] = signed(stream(seed, "tabular"))
        marks[[fused_steps.PENDING_STATE, fused_steps.PENDING_ACTION, fused_steps.TRAIL_NEXT]] = NOWHERE
        marks[fused_steps.ALGORITHM] = ALGORITHMS.index(algorithm)
        marks[fused_steps.EXPLORATION] = EXPLORATIONS.index(options.exploration)
        marks[fused_steps.BY_VISITS] = options.learning_rate_schedule == "visits"
        marks[fused_steps.N_STEP] = options.n_step
        numbers[:] = (
            options.learning_rate,
            options.learning_rate_min,
            options.discount_factor,
            options.epsilon,
            options.temperature,
            options.ucb_c,
            options.lambda_,
            0.0,
        )
        self._rules, self._settings = marks[_RULES].copy(), numbers.copy()

    def advance(self, steps: int, episodes: int = 0) -> None:
        twin, progress = self.twin, self.progress
        if not train_mdp(twin, self.values, self.visits, self._knobs, progress, steps, episodes):
            raise InputError(
                f"{self._algorithm} looks back over more than {MOST_TRAIL:,} steps of one episode. Truncate "
                f"long episodes: "
                "--set 'environment.wrappers=[\"time_limit:max_steps=1000\"]', or use another algorithm."
            )

    def load(self, tensors: Tensors) -> None:
        super().load(tensors)
        self.progress.counts[_COUNTS : _COUNTS + _MARKS][_RULES] = self._rules  # options may change when a run resumes
        self.progress.sums[_SUMS : _SUMS + _NUMBERS] = self._settings


def _room(mdp: Mdp, algorithm: str, options: TabularOptions) -> int:
    """Return room for the steps that the algorithm has to remember, twice as many where old ones are dropped."""
    longest = min(mdp.time_limit or MOST_TRAIL, MOST_TRAIL) + 1
    fade = options.discount_factor * options.lambda_
    if algorithm == "q_lambda" and fade < 1.0:
        alive = math.ceil(math.log(TRACE_FLOOR) / math.log(fade)) if fade > 0.0 else 1
        return min(longest, 2 * alive + 64)
    if algorithm == "n_step_sarsa":
        return min(longest, 2 * options.n_step + 64)
    return longest if algorithm in ("q_lambda", "monte_carlo") else 1


@njit(cache=True, nogil=True, error_model="numpy")
def _move_to_front(marks, pairs, trail):  # type: ignore[no-untyped-def]
    first, last = marks[fused_steps.TRAIL_FIRST], marks[fused_steps.TRAIL_LAST]
    for place in range(first, last):
        pairs[place - first, 0], pairs[place - first, 1] = pairs[place, 0], pairs[place, 1]
        trail[place - first] = trail[place]
    marks[fused_steps.TRAIL_FIRST], marks[fused_steps.TRAIL_LAST] = 0, last - first


@njit(cache=True, nogil=True, error_model="numpy")
def train_mdp(mdp, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Take `steps` env steps, or stop after `episodes` (0: no limit); return False where the trail has no room."""
    counts, sums, env_key = progress.counts, progress.sums, progress.chances
    actions, room = q.shape[1], sums.shape[0] - _SUMS - _NUMBERS
    values = q.reshape((1, q.shape[0], actions))
    marks, trail_legal = counts[_COUNTS : _COUNTS + _MARKS], counts[_COUNTS + _MARKS : _COUNTS + _MARKS + actions]
    pairs = counts[_COUNTS + _MARKS + actions :].reshape((room, 2))
    numbers, trail = sums[_SUMS : _SUMS + _NUMBERS], sums[_SUMS + _NUMBERS :]
    looks_back = marks[fused_steps.ALGORITHM] >= fused_steps.Q_LAMBDA
    state, length, chances = counts[STATE], counts[STEP_IN_EPISODE], np.uint64(counts[CHANCES])
    total, errors, updates, fits = sums[RETURN], sums[kernels.TD_ERRORS], 0, True
    numbers[fused_steps.EPSILON] = sums[EPSILON]
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if looks_back and marks[fused_steps.TRAIL_LAST] >= room:
            _move_to_front(marks, pairs, trail)
            if marks[fused_steps.TRAIL_LAST] >= room:
                fits = False
                break
        if state == NOWHERE:
            chance = uniform(draw(env_key, chances))
            chances += np.uint64(1)
            place = 0
            while mdp.start_threshold[place] <= chance:
                place += 1
            state = np.int64(mdp.start_state[place])
        action = np.int64(select(values, visits, numbers, marks, state, mdp.legal[state]))
        chance = uniform(draw(env_key, chances))
        chances += np.uint64(1)
        outcome = 0
        while mdp.threshold[state, action, outcome] <= chance:
            outcome += 1
        reward = mdp.reward[state, action, outcome]
        after = np.int64(mdp.next_state[state, action, outcome])
        terminated = mdp.terminated[state, action, outcome] != 0
        updates += 1
        length += 1
        truncated = not terminated and mdp.time_limit > 0 and length >= mdp.time_limit
        if looks_back:
            error = learn_on_trail(
                values,
                visits,
                numbers,
                marks,
                pairs,
                trail,
                trail_legal,
                state,
                action,
                reward,
                after,
                terminated,
                truncated,
                mdp.legal[after],
            )
        else:
            error = learn_one(
                values,
                visits,
                numbers,
                marks,
                state,
                action,
                reward,
                after,
                terminated,
                truncated,
                mdp.legal[after],
            )
        errors += abs(error)
        total += reward
        state = after
        if terminated or truncated:
            counts[EPISODES] += 1
            numbers[fused_steps.EPSILON] = kernels.end(sums, total, length, knobs, counts[EPISODES])
            state, length, total = np.int64(NOWHERE), np.int64(0), 0.0
    counts[STEPS] += updates
    decisions = np.uint64(counts[kernels.DECISIONS])
    kernels.store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), total, errors, updates)
    return fits
