"""Learner interface, as workers use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import AgentRoles, TrainingPlan
from mosaic.learners.league import League
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.rollout.arrays import EpisodeTally
from mosaic.models.architecture import Architecture


@dataclass(frozen=True, slots=True)
class LearnerProgress:
    """Training progress over the last episodes."""

    env_steps: int
    agent_steps: int
    episodes: int
    returns: tuple[NDArray[np.float32], ...]  # of each policy's last episodes
    lengths: NDArray[np.int64]
    losses: tuple[dict[str, float], ...]  # of each policy in the last iteration

    @property
    def return_mean(self) -> float | None:
        """Mean return of the learning agents; None before the first episode has ended."""
        seen = np.concatenate(self.returns)
        return float(seen.mean()) if seen.size else None


class Learner(Protocol):
    """Learner that advances in whole iterations; between two of them everything may be read, saved and loaded."""

    env_steps_before: int  # of earlier attempts
    agent_steps_before: int
    episodes_before: int

    @property
    def plan(self) -> TrainingPlan: ...

    @property
    def league(self) -> League | None: ...

    @property
    def env_steps(self) -> int: ...

    @property
    def vector(self) -> VectorEnv: ...  # the envs of the first rollout worker, for rendering

    @property
    def tally(self) -> EpisodeTally: ...  # of the same envs

    def watch(self, glance: Callable[[], bool]) -> None: ...  # called between Python env steps; true ends a rollout

    def iterate(self) -> None: ...

    def progress(self) -> LearnerProgress: ...

    def weights(self, policy: int) -> NDArray[np.float32]: ...

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None: ...

    def load_optimiser(self, policy: int, state: dict[str, NDArray[Any]]) -> None: ...  # "optimiser.first", …

    def scaler(self, policy: int) -> RunningMoments | None: ...

    def training_state(self) -> dict[str, NDArray[Any]]: ...

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: dict[str, NDArray[Any]]) -> None: ...

    def split(self) -> tuple[float, float, float]: ...  # seconds in env, inference and learning since the last call

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Assembled:
    """Learner with all that its worker needs to save and play its policies."""

    learner: Learner
    roles: AgentRoles
    spec: EnvSpec
    architectures: tuple[Architecture, ...]  # of each policy
    engine: str
    said: str  # the choices made and why, in one line
