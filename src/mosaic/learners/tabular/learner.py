"""Tabular learner."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from mosaic.core.errors import InputError
from mosaic.core.reference import explain
from mosaic.envs.objects import Environment
from mosaic.learners.tabular.engines.base import EngineState, StepBatch, first_snapshot, open_engine
from mosaic.learners.tabular.experience import every_action
from mosaic.learners.tabular.options import (
    TabularOptions,
    bad_index,
    bad_reward,
    bad_size,
    checked_algorithm,
    checked_mask,
    epsilon_after,
    nothing_legal,
    overflown,
)
from mosaic.learners.tabular.random import stream
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.training.env import borrowed, env_sizes


class TabularLearner:
    """Learner that chooses actions, learns from steps, trains in an env, and resumes exactly from a saved file.

    All randomness comes from one stream derived from the seed, in a fixed order: a decision takes two draws, a step of
    double Q-learning one (its coin). SARSA and n-step SARSA decide on the next action in `update`, unless the step
    terminated; the next `select_action` in that state repeats it without a draw.
    """

    def __init__(
        self,
        states: int,
        actions: int,
        algorithm: str = "q_learning",
        options: TabularOptions | None = None,
        seed: int = 0,
        *,
        start: EngineState | None = None,
        **settings: Any,
    ) -> None:
        """Create the learner.

        `settings` are fields of TabularOptions, given instead of `options`: `TabularLearner(16, 4, epsilon=0.3)`.
        """
        for what, size in (("states", states), ("actions", actions)):
            if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
                raise bad_size(what, size)
        self.states, self.actions = int(states), int(actions)
        self.algorithm = checked_algorithm(algorithm)
        self.options = _options(options, settings)
        self.seed = seed
        self.episodes = 0  # ended in `update` or `train`
        key = stream(seed, "tabular")
        start = start or first_snapshot(self.states, self.actions, self.algorithm, self.options, key)
        self._engine = open_engine(start, self.algorithm, self.options)
        self._all = every_action(self.actions)

    @classmethod
    def for_env(
        cls,
        env: Environment,
        algorithm: str = "q_learning",
        options: TabularOptions | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> Self:
        """Make a table with a row for each state and a column for each action of a single-agent env.

        `env` is an id, a Gymnasium env, a class or function that makes one, or an Env.
        """
        with borrowed(env) as made:
            states, actions = env_sizes(made)
        return cls(states, actions, algorithm, options, seed, **settings)

    @property
    def values(self) -> NDArray[np.floating]:
        """Values [state, action]; with double Q-learning the mean of both tables.

        The array is read-only; assign a whole one instead: `learner.values = array`.
        """
        values = self._engine.snapshot().values
        if len(values) > 1:
            values = np.asarray(0.5 * (values[0].astype(np.float64) + values[1]), values.dtype)[np.newaxis]
        shown: NDArray[np.floating] = values[0].view()
        shown.flags.writeable = False
        return shown

    @values.setter
    def values(self, values: ArrayLike) -> None:
        """Replace all values, in both tables of double Q-learning."""
        given = np.asarray(values, self.options.dtype)
        if given.shape != (self.states, self.actions):
            raise InputError(f"values has the shape {given.shape}; it should be {(self.states, self.actions)}.")
        if not np.isfinite(given).all():
            raise InputError("values should be finite numbers, but some are not.")
        epsilon, old = self.epsilon, self._engine.snapshot()
        layers = np.repeat(given[np.newaxis], len(old.values), axis=0)
        kept = EngineState(*(np.array(part) for part in old._replace(values=layers)))
        self._engine = open_engine(kept, self.algorithm, self.options)
        self._engine.epsilon = epsilon

    @property
    def visits(self) -> NDArray[np.int32]:
        """Number of updates of each pair [state, action]."""
        return self._engine.snapshot().visits

    @property
    def epsilon(self) -> float:
        return self._engine.epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        if not 0.0 <= epsilon <= 1.0:
            raise InputError(f"epsilon is {epsilon}: it should be in 0..1.")
        self._engine.epsilon = epsilon

    def select_action(self, state: int, mask: ArrayLike | None = None) -> int:
        """Choose an action, with exploration."""
        legal = self._all if mask is None else checked_mask(mask, self.actions)
        if type(state) is not int or not 0 <= state < self.states:
            state = self._index("state", state, self.states)
        action = self._engine.select(state, legal)
        if action < 0:
            raise nothing_legal(state)
        return action

    def greedy(self, state: int, mask: ArrayLike | None = None) -> int:
        """Return the best known action, the lowest on ties; no random number is drawn."""
        state = self._index("state", state, self.states)
        legal = self._all if mask is None else checked_mask(mask, self.actions)
        if not legal.any():
            raise nothing_legal(state)
        return self._engine.greedy(state, legal)

    def update(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        terminated: bool,
        next_mask: ArrayLike | None = None,
        *,
        truncated: bool = False,
    ) -> float:
        """Learn from one step; return the error of the value.

        `next_state` is the final observation at the end of an episode, never the first of the next.
        """
        if not (
            type(state) is type(action) is type(next_state) is int
            and 0 <= state < self.states
            and 0 <= next_state < self.states
            and 0 <= action < self.actions
        ):
            state, next_state = self._index("state", state, self.states), self._index("state", next_state, self.states)
            action = self._index("action", action, self.actions)
        if not isfinite(reward):
            raise bad_reward(reward)
        legal = self._all if next_mask is None else checked_mask(next_mask, self.actions)
        # plain types: numba would compile again for others
        error = self._engine.learn(state, action, float(reward), next_state, bool(terminated), bool(truncated), legal)
        if not isfinite(error):
            raise overflown(state, action) if legal.any() or terminated else nothing_legal(next_state)
        if terminated or truncated:
            self.episodes += 1
            self._engine.epsilon = epsilon_after(self.options, self._engine.epsilon, self.episodes)
        return error

    def batch_update(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike,
        terminated: ArrayLike,
        next_masks: ArrayLike | None = None,
        *,
        truncated: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Learn from many steps as if they came one after the other; return the errors.

        A batch is replayed experience: it ends no episode, so epsilon stays.
        """
        batch = self._batch(states, actions, rewards, next_states, terminated, next_masks, truncated)
        errors = self._engine.learn_batch(batch)
        if not np.isfinite(errors).all():
            worst = int(np.flatnonzero(~np.isfinite(errors))[0])
            raise overflown(int(batch.states[worst]), int(batch.actions[worst]))
        return errors

    def train(self, env: Environment, *, episodes: int | None = None, steps: int | None = None) -> TrainingStatistics:
        """Train for these episodes or env steps in a single-agent env: an id, a Gymnasium env, a class or an Env."""
        from mosaic.learners.tabular.training.rollout import train

        with borrowed(env) as made:
            return train(self, made, episodes=episodes, steps=steps)

    def save(self, path: Path | str) -> None:
        """Write one safetensors file from which `load` resumes exactly."""
        from mosaic.learners.tabular.save_load import save

        save(self, self._engine.snapshot(), Path(path))

    @classmethod
    def load(cls, path: Path | str) -> TabularLearner:
        from mosaic.learners.tabular.save_load import load

        return load(Path(path))

    def _index(self, what: str, index: object, size: int) -> int:
        if isinstance(index, bool) or not isinstance(index, int | np.integer) or not 0 <= index < size:
            raise bad_index(what, index, size)
        return int(index)

    def _batch(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike,
        terminated: ArrayLike,
        next_masks: ArrayLike | None,
        truncated: ArrayLike | None,
    ) -> StepBatch:
        count = len(np.atleast_1d(np.asarray(states)))
        columns: dict[str, NDArray[Any]] = {
            "states": self._indices("state", states, self.states),
            "actions": self._indices("action", actions, self.actions),
            "rewards": np.ascontiguousarray(rewards, np.float64),
            "next_states": self._indices("state", next_states, self.states),
            "terminated": np.ascontiguousarray(terminated, np.bool_),
            "truncated": np.zeros(count, np.bool_) if truncated is None else np.ascontiguousarray(truncated, np.bool_),
        }
        for name, column in columns.items():
            if column.shape != (count,):
                raise InputError(
                    f"{name} has the shape {column.shape}; there are {count} states, so it should be ({count},)."
                )
        if not np.isfinite(columns["rewards"]).all():
            raise bad_reward(columns["rewards"][~np.isfinite(columns["rewards"])][0])
        shape = (count, self.actions)
        legal = np.ones(shape, np.bool_) if next_masks is None else np.ascontiguousarray(next_masks, np.bool_)
        if legal.shape != shape:
            raise InputError(f"next_masks has the shape {legal.shape}; it should be {shape}.")
        stuck = ~legal.any(axis=1) & ~columns["terminated"]
        if stuck.any():
            raise nothing_legal(int(columns["next_states"][stuck][0]))
        return StepBatch(**columns, next_legal=legal)

    def _indices(self, what: str, indices: ArrayLike, size: int) -> NDArray[np.int64]:
        array = np.asarray(indices)
        if array.size and array.dtype.kind not in "iu":
            raise bad_index(what, array.ravel()[0], size)
        outside = (array < 0) | (array >= size)
        if outside.any():
            raise bad_index(what, array[outside][0], size)
        return np.ascontiguousarray(array, np.int64)


def _options(options: TabularOptions | None, settings: dict[str, Any]) -> TabularOptions:
    if options is not None and settings:
        raise InputError(f"Give options or {', '.join(settings)}, not both.")
    if options is not None:
        return options
    try:
        return TabularOptions.model_validate(settings)
    except ValidationError as error:
        raise InputError(f"TabularLearner: {explain(error, TabularOptions)}") from error
