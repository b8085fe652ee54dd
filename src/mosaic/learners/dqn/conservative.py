"""CQL: Q-learning from recorded decisions alone, in which actions that were not recorded are valued low.

It is DQN without env steps: every update draws from the dataset, and the conservative loss (kernels.py) is added.
An env step is a recorded decision that was learned from. Batches depend on the seed and the number of updates alone, so
that a run continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import Counters, LearnerProgress
from mosaic.learners.dqn.algorithm import explain_q, make_q_engine
from mosaic.learners.dqn.kernels import DqnHyper
from mosaic.learners.dqn.options import CqlOptions
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.recorded import RecordedSteps, check_recorded, recorded_state
from mosaic.learners.rollout.arrays import EpisodeTally
from mosaic.learners.rollout.base import PolicyInfos, RolloutSettings, Stopwatch
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays
from mosaic.models.packed_rows import RowPacking

_UPDATES, _TORCH_UPDATES = 128, 8  # of an iteration, which takes some tens of milliseconds


class CqlLearner:
    """Learner of one policy, whose iterations are updates; the env is shown, and never stepped."""

    league = None
    epsilon = 0.0  # share of random actions, of a policy that is asked to explore as in training

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        architecture: Architecture,
        options: CqlOptions,
        seed: int,
        recorded: RecordedSteps,
        packing: RowPacking | None = None,
    ) -> None:
        self.vector, self.plan, self.before = vector, plan, Counters()
        self.tally: EpisodeTally = RolloutSettings(1, seed).make_tally(plan, vector.shape)
        self._seed, self._batch = seed, options.batch_size
        hyper = conservative_hyper(options, learns=plan.trained[0])
        self.engine = make_q_engine(architecture, vector.shape, hyper, options.batch_size, 1, seed, packing, recorded)
        self._chunk = _UPDATES if architecture.plain else _TORCH_UPDATES
        self._learned = 0  # updates of this attempt
        self._losses: dict[str, float] = {}
        self._times = Stopwatch()
        vector.reset(child_seed(seed, "envs"))

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + self._learned * self._batch

    def iterate(self) -> None:
        started, done = perf_counter(), self.env_steps // self._batch
        self.engine.stats[:] = 0
        self.engine.train_recorded(done, self._chunk, child_seed(self._seed, "batches", done))
        self._learned += self._chunk
        self._losses |= explain_q(self.engine.stats)
        self._times.add(learning_s=perf_counter() - started)

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.engine.weights()

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        """Load the weights into the net and its target."""
        if seen is not None:
            raise InputError("That policy was trained on normalised observations, but CQL does not normalise them.")
        self.engine.load(flat, flat)

    def load_optimiser(self, policy: int, state: StateArrays) -> None:
        self.engine.load_optimiser(state)

    def scaler(self, policy: int) -> None:
        """Return None: observations are not normalised."""

    def training_state(self) -> StateArrays:
        name = self.plan.names[0]
        own = {f"{name}/{key}": value for key, value in self.engine.training_state().items()}
        return own | recorded_state(name, len(self.engine.ring.expert))

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        name = self.plan.names[0]
        check_recorded(name, len(self.engine.ring.expert), state)
        self.engine.load(weights[0], state[f"{name}/target"])
        self.load_optimiser(0, {key.removeprefix(f"{name}/"): value for key, value in state.items()})

    def progress(self) -> LearnerProgress:
        steps, nothing = self.env_steps, np.zeros(0, np.float32)
        return LearnerProgress(steps, steps, 0, (nothing,), np.zeros(0, np.int64), (dict(self._losses),))

    def watch(self, callback: Callable[[], bool]) -> None:
        """Do nothing: no env is stepped."""

    def take_infos(self) -> PolicyInfos:
        return []

    def split(self) -> tuple[float, float, float]:
        return self._times.take()

    def close(self) -> None:
        self.vector.close()


def conservative_hyper(options: CqlOptions, *, learns: bool) -> DqnHyper:
    nothing = np.float64(0)
    return DqnHyper(
        learning_rate=np.float64(options.learning_rate if learns else 0),
        learning_starts=np.int64(0),
        tau=np.float32(options.tau),
        gamma=np.float32(options.gamma),
        train_freq=np.int64(1),
        gradient_steps=np.int64(1),
        target_every=np.int64(options.target_update_interval),
        first_eps=nothing,
        last_eps=nothing,
        eps_steps=np.float64(1),
        max_grad_norm=np.float64(options.max_grad_norm),
        double_q=np.int64(options.double_q),
        alpha=np.float32(options.alpha),
        demo_share=np.float64(1),
        demo_coef=np.float32(0),
        demo_margin=np.float32(0),
        demo_pretrain=np.int64(0),
    )
