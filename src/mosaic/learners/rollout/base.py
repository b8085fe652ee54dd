"""Rollout worker interface: where experience is collected and learned from.

A rollout worker (`RolloutWorker`) owns some envs and a copy of every policy. Learners with several of them average
their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.league import Snapshot
from mosaic.learners.rollout.arrays import AgentSlots, EpisodeTally


@dataclass(frozen=True, slots=True)
class Rates:
    """Values that schedules change between iterations."""

    learning_rate: float
    clip_range: float
    ent_coef: float


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over each policy's observations since the last call, and over discounted returns of each agent."""

    count: NDArray[np.float64]  # [policies]
    seen: NDArray[np.float64]  # [policies, 2, width]
    spread: NDArray[np.float64]  # [agents, 3]


class RolloutWorker(Protocol):
    @property
    def vector(self) -> VectorEnv: ...

    @property
    def seats(self) -> AgentSlots: ...

    @property
    def tally(self) -> EpisodeTally: ...

    @property
    def env_steps(self) -> int: ...  # since its creation

    def watch(self, glance: Callable[[], bool]) -> None: ...  # called between two env steps; true ends the rollout

    def collect(self) -> None: ...  # one rollout

    def learn(self, rates: Rates, reward_scale: NDArray[np.float32]) -> list[dict[str, float]]: ...  # per policy

    def weights(self, policy: int) -> NDArray[np.float32]: ...  # flat; a copy

    def load(self, policy: int, flat: NDArray[np.float32]) -> None: ...

    def training_state(self, policy: int) -> dict[str, NDArray[np.float32]]: ...  # of the optimiser

    def load_training_state(self, policy: int, state: dict[str, NDArray[np.float32]]) -> None: ...

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None: ...

    def set_opponents(self, snapshots: Sequence[Snapshot]) -> None: ...  # into the first places of the league

    def take_moments(self) -> Moments: ...

    def standing(self) -> dict[str, NDArray[Any]]: ...  # of envs and random streams; empty if envs cannot be restored

    def go_on(self, standing: dict[str, NDArray[Any]], env_steps: int) -> None: ...  # from there, or in new episodes

    def split(self) -> tuple[float, float, float]: ...  # seconds in env, inference and learning since the last call

    def close(self) -> None: ...
