"""Policies of a rollout worker with an engine each, which may differ in kind and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.normalization import ObservationMoments, ObservationScalers
from mosaic.learners.rollout.arrays import Assignment
from mosaic.learners.rollout.base import RolloutSettings
from mosaic.learners.rollout.buffers import Rollout
from mosaic.models.architecture import Architecture
from mosaic.models.engine import Engine, Resumes, StateArrays
from mosaic.models.packed_rows import PackedRows, Rows


class Trains(Engine, Resumes, Protocol):
    """Engine whose training can be resumed, and whose critic other policies can share."""

    def critic_place(self) -> slice: ...  # in the flat weights, and in both moments


class EnginePolicies:
    """Engines of the learning policies, then of the frozen places; `make_engine(policy, seed)` makes all of them."""

    def __init__(
        self,
        architectures: Sequence[Architecture],
        make_engine: Callable[[int, int], Trains],
        shape: VectorShape,
        settings: RolloutSettings,
    ) -> None:
        learners, places = len(architectures), settings.places
        self.learners = learners
        self.engines = [make_engine(policy, child_seed(settings.seed, "engine", policy)) for policy in range(learners)]
        self.engines += [make_engine(0, child_seed(settings.seed, "place", place)) for place in range(places)]
        self._widths = [architecture.observation for architecture in architectures] + [shape.width] * places
        self._masks = [architecture.head.width for architecture in architectures] + [shape.mask_width] * places
        self.critic_width = max(architecture.critic_observation for architecture in architectures)
        self.normalizes = settings.normalize_observations
        self._scalers = ObservationScalers(learners + places, learners, shape.width)

    def begin_rollout(self) -> None:
        for engine in self.engines[: self.learners]:
            engine.begin_rollout()

    def observations(self, policy: int, obs: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the listed rows, as wide as the policy's network reads them."""
        return np.ascontiguousarray(obs[rows, : self._widths[policy]])

    def masks(self, policy: int, mask: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the listed rows, as wide as the policy's action head; no rows where everything is legal."""
        return np.ascontiguousarray(mask[rows, : self._masks[policy]]) if len(mask) else mask

    def fit(self, policy: int, rows: Rollout) -> Rollout:
        """Return the rollout, cut to this policy's observation and mask widths."""
        if self._widths[policy] == rows.obs.shape[1] and self._masks[policy] == max(1, rows.mask.shape[1]):
            return rows
        obs: Rows = rows.obs  # an engine that reads packed rows selects its columns itself
        if not isinstance(obs, PackedRows):
            obs = np.ascontiguousarray(obs[:, : self._widths[policy]])
        mask = np.ascontiguousarray(rows.mask[:, : self._masks[policy]]) if len(rows.mask) else rows.mask
        return rows._replace(obs=obs, mask=mask)

    def normalize(
        self, obs: NDArray[np.float32], policy_of: NDArray[np.int64], *, count: bool = False
    ) -> NDArray[np.float32]:
        """Return observations as each policy sees them; with `count` they enter the moments."""
        if not self.normalizes:
            return obs
        if count:
            self._scalers.count(obs, policy_of)
        return self._scalers.apply(obs, policy_of)

    def take_moments(self) -> ObservationMoments:
        return self._scalers.take_moments()

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        self._scalers.set(policy, shift, scale)

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.engines[policy].weights()

    def load(self, policy: int, flat: NDArray[np.float32]) -> None:
        self.engines[policy].load(flat)

    def set_anchor(self, policy: int, flat: NDArray[np.float32]) -> None:
        self.engines[policy].set_anchor(flat)

    def training_state(self, policy: int) -> StateArrays:
        return self.engines[policy].training_state()

    def load_training_state(self, policy: int, state: StateArrays) -> None:
        self.engines[policy].load_training_state(state)

    def acting_state(self) -> StateArrays:
        """Return the random streams and memories of all engines."""
        state: StateArrays = {}
        for number, engine in enumerate(self.engines):
            state |= {f"engine{number}.{name}": array for name, array in engine.acting_state().items()}
        return state

    def load_acting_state(self, state: StateArrays) -> None:
        for number, engine in enumerate(self.engines):
            prefix = f"engine{number}."
            engine.load_acting_state(
                {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            )


class RandomMoves:
    """Random moves in place of some moves of frozen opponents, for variety; nothing is learned from their rows."""

    def __init__(self, shape: VectorShape, assignment: Assignment, learners: int, seed: int) -> None:
        self._probability, self._learners = assignment.slip, learners
        self._sizes = shape.heads[0].sizes  # all agents of a league have the same actions
        self.generator = np.random.default_rng(seed)

    def replace(self, policy: int, mask: NDArray[np.uint8], act: NDArray[np.float32]) -> None:
        """Replace moves of this policy in `act`, each with the opponent's probability."""
        if policy < self._learners or self._probability[policy - self._learners] <= 0:
            return
        probability = self._probability[policy - self._learners]
        for row in np.flatnonzero(self.generator.random(len(act)) < probability):
            first = 0
            for part, size in enumerate(self._sizes):
                legal = np.flatnonzero(mask[row, first : first + size]) if len(mask) else size
                act[row, part] = self.generator.choice(legal)
                first += size
