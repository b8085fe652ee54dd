"""Off-policy learning: act, store decisions in a replay buffer, and learn from them after every step.

One policy, alone or shared by all agents. What it is, how it acts and how it learns is its engine's.
"""

# compiled code uses this file

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.layout import VectorArrays, VectorEnv, step_counts
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import Counters, LearnerProgress, measure_progress
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, make_track
from mosaic.learners.rollout.base import EpisodeInfos, PolicyInfos, RolloutSettings, Stopwatch
from mosaic.models.engine import StateArrays

CALLS, ENV_STEPS = range(2)  # indices into `steps`: steps of the vector env in all attempts, env steps of this attempt


class OffPolicyEngine(Protocol):
    """Networks that act, store decisions and learn."""

    act: NDArray[np.float32]  # [slots, parts] the decisions of the current step
    steps: NDArray[np.int64]  # CALLS, ENV_STEPS
    stats: NDArray[np.float64]  # sums over the updates

    def look(self, env: VectorArrays, tally: EpisodeTally, before: int) -> None: ...  # decides for every slot

    def keep(
        self, env: VectorArrays, track: Track, assignment: Assignment, tally: EpisodeTally
    ) -> None: ...  # after the step

    def learn(self) -> None: ...  # if an update is due

    def weights(self) -> NDArray[np.float32]: ...  # of the policy, flat; a copy

    def load_optimiser(self, state: StateArrays) -> None: ...


@runtime_checkable
class CompiledOffPolicy(Protocol):
    """Engine that steps a compiled env itself."""

    def advance(
        self,
        vector: CompiledVector,
        env: VectorArrays,
        track: Track,
        assignment: Assignment,
        tally: EpisodeTally,
        before: int,
        count: int,
    ) -> tuple[float, float, float]: ...  # the seconds in env, inference and learning


EngineT = TypeVar("EngineT", bound=OffPolicyEngine)


class OffPolicyLearner(Generic[EngineT]):
    """Learner that advances in chunks of steps; a compiled env runs a chunk in one call, Python steps the others."""

    league = None

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        engine: EngineT,
        chunk: int,
        seed: int,
        total_env_steps: int | None,
    ) -> None:
        """`chunk` is the number of steps of the vector env in an iteration."""
        self.vector, self.plan = vector, plan
        self.total_env_steps = total_env_steps
        self.before = Counters()
        self.engine, self._chunk = engine, chunk
        self._arrays = VectorArrays(
            vector.obs, vector.mask, vector.who, vector.active, vector.rew, vector.term, vector.trunc, vector.fin
        )
        self._track = make_track(vector.shape, 1)
        settings = RolloutSettings(chunk, seed)
        self._assignment = settings.make_assignment(plan, vector.shape)
        self._tally = settings.make_tally(plan, vector.shape)
        self._losses: dict[str, float] = {}
        self._callback: Callable[[], bool] | None = None
        self._times = Stopwatch()
        self._infos = EpisodeInfos(vector, len(plan.names))
        vector.reset(child_seed(seed, "envs"))

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + int(self.engine.steps[ENV_STEPS])

    @property
    def tally(self) -> EpisodeTally:
        return self._tally

    def watch(self, callback: Callable[[], bool]) -> None:
        """Set the callback for envs that Python steps; a compiled chunk takes milliseconds and is not interrupted."""
        self._callback = callback

    def iterate(self) -> None:
        """Run one chunk of steps; the last one ends with the run."""
        count, left = self._chunk, math.inf
        if self.total_env_steps is not None and self.env_steps < self.total_env_steps:
            left = self.total_env_steps - self.env_steps
            count = min(count, math.ceil(left / self.vector.shape.envs))
        self.engine.stats[:] = 0
        engine: object = self.engine
        if isinstance(self.vector, CompiledVector) and isinstance(engine, CompiledOffPolicy):
            where = self._track, self._assignment, self._tally, self.before.env_steps
            seconds = engine.advance(self.vector, self._arrays, *where, count)
            self._times.add(*seconds)
            self.vector.rew[:] = self._track.reward[0]  # as after a step of the vector env itself
        else:
            self._advance_played(self.vector, count, self.env_steps + left)
        self._tell_losses()

    def _tell_losses(self) -> None:
        raise NotImplementedError

    def _advance_played(self, vector: VectorEnv, count: int, until: float) -> None:
        """Step the env `count` times, or until the run has made this number of env steps."""
        engine, env, track, counts = self.engine, self._arrays, self._track, step_counts(vector)
        for _ in range(count):
            begun = perf_counter()
            engine.look(env, self._tally, self.before.env_steps)
            decided = perf_counter()
            vector.step(engine.act)
            stepped = perf_counter()
            track.reward[0] = vector.rew
            self._infos.add(self._assignment.policy_of)
            if counts is not None:  # `keep` adds one to each
                self._tally.length[:] += counts - 1
                engine.steps[ENV_STEPS] += int((counts - 1).sum())
            engine.keep(env, track, self._assignment, self._tally)
            kept = perf_counter()
            engine.learn()
            self._times.add(stepped - decided, decided - begun + kept - stepped, perf_counter() - kept)
            enough = self._callback is not None and self._callback()
            if enough or self.env_steps >= until:
                return

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.engine.weights()

    def load_optimiser(self, policy: int, state: StateArrays) -> None:
        self.engine.load_optimiser(state)

    def scaler(self, policy: int) -> None:
        """Return None: observations are not normalised."""

    def progress(self) -> LearnerProgress:
        return measure_progress(self.env_steps, self.before, [self._tally], (dict(self._losses),))

    def take_infos(self) -> PolicyInfos:
        return self._infos.take()

    def split(self) -> tuple[float, float, float]:
        return self._times.take()

    def close(self) -> None:
        self.vector.close()
