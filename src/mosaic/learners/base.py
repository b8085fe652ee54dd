"""Learner interface, as workers use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import AgentRoles, TrainingPlan
from mosaic.learners.league import League
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.rollout.arrays import WINDOW, EpisodeTally
from mosaic.learners.rollout.base import PolicyInfos
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays

WORKER_PREFIX = "lane."  # of the names of a rollout worker's arrays in a training state


@dataclass(slots=True)
class Counters:
    """Steps and episodes of a run."""

    env_steps: int = 0
    agent_steps: int = 0
    episodes: int = 0


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


def measure_progress(
    env_steps: int, before: Counters, tallies: Sequence[EpisodeTally], losses: tuple[dict[str, float], ...]
) -> LearnerProgress:
    """Return the progress over all rollout workers; there is one entry of `losses` per policy."""
    return LearnerProgress(
        env_steps=env_steps,
        agent_steps=before.agent_steps + sum(int(tally.decisions[0]) for tally in tallies),
        episodes=before.episodes + sum(int(tally.finished[-1]) for tally in tallies),
        returns=tuple(
            np.concatenate([tally.recent[k, : min(WINDOW, int(tally.finished[k]))] for tally in tallies])
            for k in range(len(losses))
        ),
        lengths=np.concatenate([t.recent_length[: min(WINDOW, int(t.finished[-1]))] for t in tallies]),
        losses=losses,
    )


class PolicyWeights(Protocol):
    """Weights of the policies, by number, to be saved, played or loaded from another run."""

    @property
    def plan(self) -> TrainingPlan: ...

    def weights(self, policy: int) -> NDArray[np.float32]: ...

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None: ...

    def load_optimiser(self, policy: int, state: StateArrays) -> None: ...  # "optimiser.first", …

    def scaler(self, policy: int) -> RunningMoments | None: ...


class Resumable(Protocol):
    """Training state, with which a new attempt continues where an earlier one ended."""

    before: Counters  # of earlier attempts

    def training_state(self) -> StateArrays: ...

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None: ...


class Viewable(Protocol):
    """Envs of the first rollout worker, for rendering."""

    @property
    def env_steps(self) -> int: ...

    @property
    def vector(self) -> VectorEnv: ...

    @property
    def tally(self) -> EpisodeTally: ...

    def watch(self, callback: Callable[[], bool]) -> None: ...  # called between Python env steps; true ends a rollout


class TellsInfos(Protocol):
    """Numbers in the infos of the envs."""

    def take_infos(self) -> PolicyInfos: ...  # of agents that ended since the last call


class Learner(PolicyWeights, Resumable, Viewable, TellsInfos, Protocol):
    """Learner that advances in whole iterations; between two of them everything may be read, saved and loaded."""

    @property
    def league(self) -> League | None: ...

    def iterate(self) -> None: ...

    def progress(self) -> LearnerProgress: ...

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
    networks: tuple[str | None, ...] = ()  # python:MODULE:FACTORY of each policy's own network
