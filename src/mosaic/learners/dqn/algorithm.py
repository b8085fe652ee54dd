"""DQN: act epsilon-greedily, store decisions in a replay buffer, and learn from them.

One policy, alone or shared by all agents. It is trained with the Huber loss against a target net that lags behind; see
kernels.py for the mathematics, torch_engine.py for images and replay_buffer.py for the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.layout import VectorArrays, VectorEnv, VectorShape
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import Counters, LearnerProgress, measure_progress
from mosaic.learners.dqn import kernels as places
from mosaic.learners.dqn.checks import buffer_rows
from mosaic.learners.dqn.fused_engine import FusedDqnEngine
from mosaic.learners.dqn.kernels import DqnHyper, exploration_rate
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, make_track
from mosaic.learners.rollout.base import EpisodeInfos, PolicyInfos, RolloutSettings, Stopwatch
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays
from mosaic.models.packed_rows import RowPacking

OPEN_END_STEPS = 1_000_000  # base of exploration_fraction for a run of unknown length
_CHUNK_STEPS, _CHUNK_UPDATES = 1024, 128  # a chunk takes at most some tens of milliseconds
_CHUNK_TORCH_UPDATES = 8  # a convolution takes longer


class DqnEngine(Protocol):
    """Q-net that acts, stores decisions and learns."""

    act: NDArray[np.float32]  # [slots, 1] the decisions of the current step
    steps: NDArray[np.int64]  # [2] steps of the vector env in all attempts, env steps of this attempt
    stats: NDArray[np.float64]  # sums over the updates

    def look(self, env: VectorArrays, tally: EpisodeTally, before: int) -> None: ...  # decides for every slot

    def keep(
        self, env: VectorArrays, track: Track, assignment: Assignment, tally: EpisodeTally
    ) -> None: ...  # after the step

    def learn(self) -> None: ...  # if an update is due

    def weights(self) -> NDArray[np.float32]: ...  # flat; a copy

    def load(self, weights: NDArray[np.float32], target: NDArray[np.float32]) -> None: ...

    def training_state(self) -> StateArrays: ...  # of target net and optimiser

    def load_optimiser(self, state: StateArrays) -> None: ...


class DqnLearner:
    """Learner that advances in chunks of steps; a compiled env runs a chunk in one call, Python steps the others."""

    league = None

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        architecture: Architecture,
        options: DqnOptions,
        seed: int,
        total_env_steps: int | None = None,
        packing: RowPacking | None = None,
    ) -> None:
        self.vector, self.plan = vector, plan
        self.total_env_steps = total_env_steps
        self.before = Counters()
        shape = vector.shape
        self._hyper = make_hyper(options, shape.envs, total_env_steps, learns=plan.trained[0])
        per_step = self._hyper.gradient_steps / self._hyper.train_freq
        updates = _CHUNK_UPDATES if architecture.plain else _CHUNK_TORCH_UPDATES
        self._chunk = max(1, min(_CHUNK_STEPS // shape.envs, int(updates / max(per_step, 1e-9))))
        size = buffer_rows(options.buffer_size, shape.envs, len(shape.agents), total_env_steps)
        self.engine = _engine(architecture, shape, self._hyper, options.batch_size, size, seed, packing)
        self._arrays = VectorArrays(
            vector.obs, vector.mask, vector.who, vector.active, vector.rew, vector.term, vector.trunc, vector.fin
        )
        self._track = make_track(shape, 1)
        settings = RolloutSettings(self._chunk, seed)
        self._assignment, self._tally = settings.make_assignment(plan, shape), settings.make_tally(plan, shape)
        self._losses: dict[str, float] = {}
        self._callback: Callable[[], bool] | None = None
        self._times = Stopwatch()
        self._infos = EpisodeInfos(vector, len(plan.names))
        vector.reset(child_seed(seed, "envs"))

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + int(self.engine.steps[places.ENV_STEPS])

    @property
    def tally(self) -> EpisodeTally:
        return self._tally

    def watch(self, callback: Callable[[], bool]) -> None:
        """Set the callback for envs that Python steps; a compiled chunk takes milliseconds and is not interrupted."""
        self._callback = callback

    def iterate(self) -> None:
        """Run one chunk of steps; the last one ends with the run."""
        count = self._chunk
        if self.total_env_steps is not None and self.env_steps < self.total_env_steps:
            count = min(count, math.ceil((self.total_env_steps - self.env_steps) / self.vector.shape.envs))
        self.engine.stats[:] = 0
        if isinstance(self.vector, CompiledVector) and isinstance(self.engine, FusedDqnEngine):
            where = self._track, self._assignment, self._tally, self.before.env_steps
            seconds = self.engine.advance(self.vector, self._arrays, *where, count)
            self._times.add(*seconds)
            self.vector.rew[:] = self._track.reward[0]  # as after a step of the vector env itself
        else:
            self._advance_played(self.vector, count)
        self._losses |= _explain(self.engine.stats)
        self._losses["exploration_rate"] = self.epsilon

    def _advance_played(self, vector: VectorEnv, count: int) -> None:
        engine, env, track = self.engine, self._arrays, self._track
        for _ in range(count):
            begun = perf_counter()
            engine.look(env, self._tally, self.before.env_steps)
            decided = perf_counter()
            vector.step(engine.act)
            stepped = perf_counter()
            track.reward[0] = vector.rew
            self._infos.add(self._assignment.policy_of)
            engine.keep(env, track, self._assignment, self._tally)
            kept = perf_counter()
            engine.learn()
            self._times.add(stepped - decided, decided - begun + kept - stepped, perf_counter() - kept)
            if self._callback is not None and self._callback():
                return

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.engine.weights()

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        """Load the weights into the net and its target."""
        if seen is not None:
            raise InputError("That policy was trained on normalised observations, but DQN does not normalise them.")
        self.engine.load(flat, flat)

    def load_optimiser(self, policy: int, state: StateArrays) -> None:
        self.engine.load_optimiser(state)

    def scaler(self, policy: int) -> None:
        """Return None: observations are not normalised."""

    @property
    def epsilon(self) -> float:
        """Current fraction of random actions."""
        return float(exploration_rate(self._hyper, self.env_steps))

    def progress(self) -> LearnerProgress:
        return measure_progress(self.env_steps, self.before, [self._tally], (dict(self._losses),))

    def training_state(self) -> StateArrays:
        """Return all that a new attempt needs except the weights and the buffer, which is large and soon full again."""
        name = self.plan.names[0]
        kept = {f"{name}/{key}": value for key, value in self.engine.training_state().items()}
        return {**kept, f"{name}/calls": self.engine.steps[places.CALLS : places.CALLS + 1].copy()}

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        """Restore the training state with an empty buffer.

        `learning_starts` steps are played with the current epsilon before learning resumes.
        """
        name = self.plan.names[0]
        self.engine.load(weights[0], state[f"{name}/target"])
        self.load_optimiser(0, {key.removeprefix(f"{name}/"): value for key, value in state.items()})
        self.engine.steps[places.CALLS] = state[f"{name}/calls"][0]

    def take_infos(self) -> PolicyInfos:
        return self._infos.take()

    def split(self) -> tuple[float, float, float]:
        return self._times.take()

    def close(self) -> None:
        self.vector.close()


def _engine(
    architecture: Architecture,
    shape: VectorShape,
    hyper: DqnHyper,
    batch: int,
    size: int,
    seed: int,
    packing: RowPacking | None,
) -> DqnEngine:
    """Make the compiled engine where possible: it is an order of magnitude faster on small nets."""
    if architecture.plain:
        return FusedDqnEngine(architecture, shape, hyper, batch, size, seed)
    from mosaic.learners.dqn.torch_engine import TorchDqnEngine

    return TorchDqnEngine(architecture, shape, hyper, batch, size, seed, packing)


def make_hyper(options: DqnOptions, envs: int, total_env_steps: int | None, *, learns: bool) -> DqnHyper:
    updates = options.train_freq * envs if options.gradient_steps < 0 else options.gradient_steps
    return DqnHyper(
        learning_rate=np.float64(options.learning_rate),
        learning_starts=np.int64(options.learning_starts),
        tau=np.float32(options.tau),
        gamma=np.float32(options.gamma),
        train_freq=np.int64(options.train_freq),
        gradient_steps=np.int64(updates if learns else 0),
        target_every=np.int64(max(1, options.target_update_interval // envs)),
        first_eps=np.float64(options.exploration_initial_eps),
        last_eps=np.float64(options.exploration_final_eps),
        eps_steps=np.float64(max(1.0, options.exploration_fraction * (total_env_steps or OPEN_END_STEPS))),
        max_grad_norm=np.float64(options.max_grad_norm),
        double_q=np.int64(options.double_q),
    )


def _explain(stats: NDArray[np.float64]) -> dict[str, float]:
    """Return means over the updates of a chunk; empty where there was none."""
    rows, updates = stats[places.ROWS], stats[places.UPDATES]
    if not updates:
        return {}
    return {
        "loss": float(stats[places.LOSS] / rows),
        "q_value": float(stats[places.Q_VALUE] / rows),
        "gradient_norm": float(stats[places.GRADIENT_NORM] / updates),
        "updates": float(updates),
    }
