"""Rollout worker interface: where experience is collected and learned from.

A rollout worker (`RolloutWorker`) owns some envs and a copy of every policy. Learners with several of them average
their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import HasInfos, VectorEnv, VectorShape
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.episode_mapping import EpisodeAssignment
from mosaic.learners.normalization import ObservationMoments
from mosaic.learners.opponents import Guest
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, make_assignment, make_tally
from mosaic.models.engine import LearnSettings, StateArrays


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """Length and random seed of a worker's rollouts, and the opponents in its envs."""

    n_steps: int
    seed: int
    places: int = 0  # frozen opponents that play at the same time (self-play)
    selfplay_envs: int = 0  # envs in which the learner plays only itself
    guests: tuple[Guest, ...] = ()  # foreign opponents, in the last envs
    bound: Mapping[AgentID, int] = field(default_factory=dict)  # agents that one frozen place always plays
    normalize_observations: bool = False
    episodes: EpisodeAssignment | None = None  # if policies of agents change from episode to episode

    def make_assignment(self, plan: TrainingPlan, shape: VectorShape) -> Assignment:
        """Create the assignment of policies: learners first, then frozen places, then guests."""
        guests = np.zeros((len(self.guests), len(shape.agents)), np.int64)
        for row, guest in zip(guests, self.guests, strict=True):
            row[:] = len(plan.names) + self.places + guest.policy
            row[guest.agent] = 0
        policy_of = np.array(plan.policy_of, np.int64)
        for number, agent in enumerate(shape.agents):
            if agent in self.bound:
                policy_of[number] = len(plan.names) + self.bound[agent]
        return make_assignment(
            policy_of,
            shape.envs,
            child_seed(self.seed, "seats"),
            shape.envs if self.bound else self.selfplay_envs,  # without a draw for each episode
            self.places,
            guests,
        )

    def make_tally(self, plan: TrainingPlan, shape: VectorShape) -> EpisodeTally:
        return make_tally(shape, len(plan.names), self.places + len({guest.policy for guest in self.guests}))


@dataclass(frozen=True, slots=True)
class Rates:
    """Values of one policy that schedules change between iterations."""

    learning_rate: float
    clip_range: float
    ent_coef: float
    kl_anchor: float = 0.0


@dataclass(frozen=True, slots=True)
class Discounts:
    """Discount factors and GAE parameters of each policy."""

    gamma: NDArray[np.float32]
    gae_lambda: NDArray[np.float32]

    @classmethod
    def of(cls, learning: Sequence[LearnSettings]) -> Discounts:
        gamma, gae_lambda = zip(*((each.gamma, each.gae_lambda) for each in learning), strict=True)
        return cls(np.array(gamma, np.float32), np.array(gae_lambda, np.float32))


class Stopwatch:
    """Seconds spent in envs, on inference and on learning."""

    def __init__(self) -> None:
        self._env_s = self._inference_s = self._learning_s = 0.0

    def add(self, env_s: float = 0.0, inference_s: float = 0.0, learning_s: float = 0.0) -> None:
        self._env_s += env_s
        self._inference_s += inference_s
        self._learning_s += learning_s

    def take(self) -> tuple[float, float, float]:
        """Return the seconds since the last call."""
        taken = self._env_s, self._inference_s, self._learning_s
        self._env_s = self._inference_s = self._learning_s = 0.0
        return taken


PolicyInfos: TypeAlias = list[tuple[int, Mapping[str, float]]]  # policy, and numbers in its agent's last info


class EpisodeInfos:
    """Numbers in the infos of agents that ended, with the policies that played them."""

    def __init__(self, vector: VectorEnv, learners: int) -> None:
        self._last = vector.ended_infos if isinstance(vector, HasInfos) else []
        self._learners = learners
        self._found: PolicyInfos = []

    def add(self, policy_of: NDArray[np.int64]) -> None:
        """Add the last step, before ended episodes are assigned again; opponents' numbers do not count."""
        if self._last:
            players = policy_of.ravel()
            found = [(int(players[row]), numbers) for row, numbers in self._last]
            self._found += [(policy, numbers) for policy, numbers in found if policy < self._learners]

    def take(self) -> PolicyInfos:
        """Return what was added since the last call."""
        found, self._found = self._found, []
        return found


class RolloutPolicies(Protocol):
    """A worker's copies of all policies, by number: learners first, then the frozen places of opponents."""

    def weights(self, policy: int) -> NDArray[np.float32]: ...  # flat; a copy

    def load(self, policy: int, flat: NDArray[np.float32]) -> None: ...

    def set_anchor(self, policy: int, flat: NDArray[np.float32]) -> None: ...  # towards which kl_anchor pulls

    def training_state(self, policy: int) -> StateArrays: ...  # of the optimiser

    def load_training_state(self, policy: int, state: StateArrays) -> None: ...

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None: ...

    def take_moments(self) -> ObservationMoments: ...  # since the last call


class RolloutWorker(Protocol):
    """Envs, the policies that play there, and the experience of one rollout."""

    @property
    def vector(self) -> VectorEnv: ...

    @property
    def policies(self) -> RolloutPolicies: ...

    def keep_own_critics(self) -> None: ...  # of policies that would share one

    @property
    def assignment(self) -> Assignment: ...

    @property
    def tally(self) -> EpisodeTally: ...

    @property
    def times(self) -> Stopwatch: ...

    @property
    def env_steps(self) -> int: ...  # since its creation

    def watch(self, callback: Callable[[], bool]) -> None: ...  # called between two env steps; true ends the rollout

    def collect(self) -> None: ...  # one rollout

    def learn(  # rates and losses are per policy
        self, rates: Sequence[Rates], reward_scale: NDArray[np.float32]
    ) -> list[dict[str, float]]: ...

    def env_state(self) -> StateArrays: ...  # of envs and random streams; empty if envs cannot be restored

    def take_infos(self) -> PolicyInfos: ...  # since the last call; compiled envs have none

    def restore_envs(self, state: StateArrays, env_steps: int) -> None: ...  # empty state: begin new episodes
