"""Running mean and variance, and the normalization of observations and rewards by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.models.engine import StateArrays
from mosaic.models.fused import OBSERVATION_LIMIT

EPSILON = 1e-8


@dataclass(slots=True)
class RunningMoments:
    """Mean and variance of all data so far, per column."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    count: float = 0.0

    @classmethod
    def of_width(cls, width: int) -> RunningMoments:
        return cls(np.zeros(width), np.ones(width))

    def merge(self, total: NDArray[np.float64], squares: NDArray[np.float64], count: float) -> None:
        """Add a batch given by its sum and its sum of squares (Chan's parallel formula)."""
        if count <= 0:
            return
        mean = total / count
        var = np.maximum(squares / count - mean * mean, 0.0)
        both = self.count + count
        delta = mean - self.mean
        joint = self.var * self.count + var * count + delta * delta * (self.count * count / both)
        self.mean = self.mean + delta * (count / both)
        self.var = joint / both
        self.count = both

    @property
    def shift(self) -> NDArray[np.float32]:
        return self.mean.astype(np.float32)

    @property
    def scale(self) -> NDArray[np.float32]:
        return (1.0 / np.sqrt(self.var + EPSILON)).astype(np.float32)

    def to_arrays(self, prefix: str) -> StateArrays:
        return {f"{prefix}.mean": self.mean, f"{prefix}.var": self.var, f"{prefix}.count": np.array([self.count])}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: StateArrays) -> RunningMoments:
        mean, var = arrays[f"{prefix}.mean"], arrays[f"{prefix}.var"]
        return cls(mean.astype(float), var.astype(float), float(arrays[f"{prefix}.count"][0]))


@dataclass(frozen=True, slots=True)
class ObservationMoments:
    """Sums over the observations of each learning policy."""

    count: NDArray[np.float64]  # [policies]
    sums: NDArray[np.float64]  # [policies, 2, width] of the observations and of their squares


class ObservationScalers:
    """Shift and scale of every policy's observations, and the moments of what learners have seen since the last call.

    The fused engines do the same in compiled code.
    """

    def __init__(self, policies: int, learners: int, width: int) -> None:
        self._shift = np.zeros((policies, width), np.float32)
        self._scale = np.ones((policies, width), np.float32)
        self._count, self._sums = np.zeros(learners), np.zeros((learners, 2, width))

    def set(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        self._shift[policy], self._scale[policy] = shift, scale

    def count(self, obs: NDArray[np.float32], policy_of: NDArray[np.int64]) -> None:
        for policy in range(len(self._count)):
            rows = obs[policy_of == policy].astype(np.float64)
            self._count[policy] += len(rows)
            self._sums[policy, 0] += rows.sum(axis=0)
            self._sums[policy, 1] += (rows * rows).sum(axis=0)

    def apply(self, obs: NDArray[np.float32], policy_of: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return each row as its policy sees it; rows without a policy are zero, as a centralised critic sees them."""
        scaled = (obs - self._shift[policy_of]) * self._scale[policy_of]
        seen: NDArray[np.float32] = np.clip(scaled, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        seen[policy_of < 0] = 0
        return seen

    def take_moments(self) -> ObservationMoments:
        taken = ObservationMoments(self._count.copy(), self._sums.copy())
        self._count[:] = 0
        self._sums[:] = 0
        return taken


class PolicyNormalization:
    """Observation moments and return spread of every learning policy, over the whole run.

    It changes between iterations: rows already stored keep the normalization with which they were seen.
    """

    def __init__(self, plan: TrainingPlan, shape: VectorShape, *, observations: bool, rewards: bool) -> None:
        self.normalizes_observations, self._rewards = observations, rewards
        self.observations = [RunningMoments.of_width(shape.width) for _ in plan.names]
        self.reward_scale = np.ones(len(shape.agents), np.float32)
        self._returns = [RunningMoments.of_width(1) for _ in plan.names]
        self._policy_of = plan.policy_of

    @property
    def active(self) -> bool:
        return self.normalizes_observations or self._rewards

    def merge(self, seen: ObservationMoments, spread: NDArray[np.float64]) -> None:
        """Add one rollout: moments of the observations, and (count, sum, squares) of each agent's discounted return."""
        if self.normalizes_observations:
            for policy, moments in enumerate(self.observations):
                total, squares = seen.sums[policy]
                moments.merge(total, squares, float(seen.count[policy]))
        for agent, policy in enumerate(self._policy_of):
            count, total, squares = spread[agent]
            self._returns[policy].merge(np.array([total]), np.array([squares]), float(count))

    def rescale_rewards(self) -> None:
        if self._rewards:
            self.reward_scale[:] = [1.0 / np.sqrt(self._returns[policy].var[0] + EPSILON) for policy in self._policy_of]

    def to_arrays(self, policy: int, name: str) -> StateArrays:
        return {
            **self.observations[policy].to_arrays(f"{name}/seen"),
            **self._returns[policy].to_arrays(f"{name}/spread"),
        }

    def load_arrays(self, policy: int, name: str, state: StateArrays) -> None:
        self.observations[policy] = RunningMoments.from_arrays(f"{name}/seen", state)
        self._returns[policy] = RunningMoments.from_arrays(f"{name}/spread", state)
