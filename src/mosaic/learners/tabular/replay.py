"""Which past steps to learn from again: all alike, or those with large errors more often."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError


class Sample(NamedTuple):
    """The first five go into `TabularLearner.batch_update`."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    next_states: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    places: NDArray[np.int64]  # where the steps lie in the buffer
    weights: NDArray[np.float64]  # of importance, the largest 1; all 1 when drawn alike


class ReplayBuffer:
    """The newest `capacity` steps, drawn alike and with replacement."""

    def __init__(self, capacity: int = 10_000, seed: int = 0) -> None:
        if capacity < 1:
            raise InputError(f"capacity is {capacity}; a replay buffer needs room for at least 1 step.")
        self.capacity = capacity
        self._numbers = np.zeros((3, capacity), np.int64)  # state, action, next state
        self._rewards = np.zeros(capacity)
        self._terminated = np.zeros(capacity, np.bool_)
        self._added = 0
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return min(self._added, self.capacity)

    def add(self, state: int, action: int, reward: float, next_state: int, terminated: bool) -> int:
        """The place the step has; the oldest step gives way."""
        place = self._added % self.capacity
        self._numbers[:, place] = state, action, next_state
        self._rewards[place], self._terminated[place] = reward, terminated
        self._added += 1
        return place

    def sample(self, size: int) -> Sample:
        self._check(size)
        return self._take(self._random.integers(len(self), size=size), np.ones(size))

    def _check(self, size: int) -> None:
        if size < 1 or not self._added:
            raise InputError(f"{size} steps were asked of a replay buffer that holds {len(self)}. Add steps first.")

    def _take(self, places: NDArray[np.int64], weights: NDArray[np.float64]) -> Sample:
        states, actions, next_states = self._numbers[:, places]
        return Sample(states, actions, self._rewards[places], next_states, self._terminated[places], places, weights)


class PrioritisedReplayBuffer(ReplayBuffer):
    """Steps drawn in proportion to priority**alpha; a new step has the highest priority met so far.

    `beta` says how far the weights make up for it (1: entirely).
    """

    def __init__(self, capacity: int = 10_000, seed: int = 0, *, alpha: float = 0.6, beta: float = 0.4) -> None:
        super().__init__(capacity, seed)
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not 0.0 <= value <= 1.0:
                raise InputError(f"{name} is {value}: it should be in 0..1.")
        self.alpha, self.beta = alpha, beta
        self._shares = np.zeros(capacity)
        self._highest = 1.0

    def add(self, state: int, action: int, reward: float, next_state: int, terminated: bool) -> int:
        place = super().add(state, action, reward, next_state, terminated)
        self._shares[place] = self._highest**self.alpha
        return place

    def sample(self, size: int) -> Sample:
        self._check(size)
        reached = np.cumsum(self._shares[: len(self)])
        drawn = np.searchsorted(reached, self._random.random(size) * reached[-1], side="right")
        places = np.minimum(drawn, len(self) - 1)
        weights = (len(self) * self._shares[places] / reached[-1]) ** -self.beta
        return self._take(places, weights / weights.max())

    def set_errors(self, places: NDArray[np.int64], errors: NDArray[np.float64]) -> None:
        """New priorities: how wrong the values of these steps were."""
        if not np.isfinite(errors).all():
            raise InputError("A priority is not a finite number.")
        priorities = np.abs(errors) + 1e-6  # none is forgotten for good
        self._shares[places] = priorities**self.alpha
        self._highest = max(self._highest, float(priorities.max(initial=0.0)))
