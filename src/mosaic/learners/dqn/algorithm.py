"""DQN: act epsilon-greedily, store decisions in a replay buffer, and learn from them.

One policy, alone or shared by all agents. It is trained with the Huber loss against a target net that lags behind; see
kernels.py for the mathematics, torch_engine.py for images and replay_buffer.py for the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorArrays, VectorEnv, VectorShape
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import WORKER_PREFIX
from mosaic.learners.dqn import kernels as places
from mosaic.learners.dqn.best_policy import BestPolicy
from mosaic.learners.dqn.checks import buffer_rows
from mosaic.learners.dqn.fused_engine import FusedDqnEngine
from mosaic.learners.dqn.kernels import DqnHyper, exploration_rate
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.dqn.replay_buffer import ReplayRing
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.ppo.algorithm import schedule_factor
from mosaic.learners.recorded import RecordedSteps
from mosaic.learners.rollout.off_policy import CALLS, OffPolicyEngine, OffPolicyLearner
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays
from mosaic.models.packed_rows import RowPacking
from mosaic.models.weights_file import check_finite

OPEN_END_STEPS = 1_000_000  # base of exploration_fraction for a run of unknown length
_CHUNK_STEPS, _CHUNK_UPDATES = 1024, 128  # a chunk takes at most some tens of milliseconds
_CHUNK_TORCH_UPDATES = 8  # a convolution takes longer


class DqnEngine(OffPolicyEngine, Protocol):
    """Q-net that acts, stores decisions and learns."""

    @property
    def ring(self) -> ReplayRing: ...

    def decide(
        self, env: VectorArrays, epsilon: float, act: NDArray[np.float32]
    ) -> None: ...  # for at most as many slots as a batch has rows; writes `act` and holds nothing

    def train_recorded(
        self, done: int, count: int, seed: int
    ) -> None: ...  # updates without env steps, of which `done` were made before; the seed is of the batches

    def set_learning_rate(self, rate: float) -> None: ...

    def load(self, weights: NDArray[np.float32], target: NDArray[np.float32]) -> None: ...

    def training_state(self) -> StateArrays: ...  # of target net and optimiser


class DqnLearner(OffPolicyLearner[DqnEngine]):
    """Learner of action values, which explores with random actions."""

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        architecture: Architecture,
        options: DqnOptions,
        seed: int,
        total_env_steps: int | None = None,
        packing: RowPacking | None = None,
        recorded: RecordedSteps | None = None,
    ) -> None:
        """Make the engine; `recorded` decisions stay in its buffer."""
        shape = vector.shape
        self._hyper = make_hyper(options, shape.envs, total_env_steps, learns=plan.trained[0])
        per_step = self._hyper.gradient_steps / self._hyper.train_freq
        self._updates = _CHUNK_UPDATES if architecture.plain else _CHUNK_TORCH_UPDATES
        chunk = max(1, min(_CHUNK_STEPS // shape.envs, int(self._updates / max(per_step, 1e-9))))
        size = buffer_rows(options.buffer_size, shape.envs, len(shape.agents), total_env_steps)
        engine = make_q_engine(architecture, shape, self._hyper, options.batch_size, size, seed, packing, recorded)
        self._schedule = options.learning_rate_schedule
        self._best: BestPolicy | None = None
        self._seed, self._pretrained = seed, 0  # updates with recorded decisions, before the first env step
        super().__init__(vector, plan, engine, chunk, seed, total_env_steps)

    def keep_best(self, best: BestPolicy) -> None:
        """Test the policy now and then and return the best one; without this call the policy is the newest net."""
        self._best = best

    def iterate(self) -> None:
        """Run one chunk of steps, the last of which ends with the run; before the first, one of pretraining."""
        if not self._pretrain():
            self.engine.set_learning_rate(self.learning_rate)
            before = self.env_steps
            super().iterate()
            if self._best is not None and self._best.is_due(before, self.env_steps, self.total_env_steps):
                self._test(self._best)

    def _test(self, best: BestPolicy) -> None:
        began, name = perf_counter(), self.plan.names[0]
        check_finite(self.engine.weights(), f"After {self.env_steps:,} env steps the weights of '{name}'")
        score = best.test(self.engine, self.env_steps, self._callback or (lambda: False))
        self._times.add(inference_s=perf_counter() - began)
        if score is not None:
            self._losses |= {"test_return": score, "best_test_return": best.score}

    def weights(self, policy: int) -> NDArray[np.float32]:
        """Return those of the best policy tested so far, if there is one, else those of the net."""
        found = None if self._best is None else self._best.weights
        return self.engine.weights() if found is None else found.copy()

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next chunk."""
        left = 1.0 - self.env_steps / self.total_env_steps if self.total_env_steps else 1.0
        return float(self._hyper.learning_rate) * schedule_factor(self._schedule, left)

    def _pretrain(self) -> bool:
        """Make a chunk of the updates that come before the first env step; return whether there was one to make."""
        left = int(self._hyper.demo_pretrain) - self._pretrained
        if self.env_steps or left <= 0:
            return False
        began, done, count = perf_counter(), self._pretrained, min(self._updates, left)
        self.engine.stats[:] = 0
        self.engine.train_recorded(done, count, child_seed(self._seed, "pretraining", done))
        self._pretrained += count
        self._times.add(learning_s=perf_counter() - began)
        self._tell_losses()
        self._losses["pretraining_updates"] = float(self._pretrained)
        return True

    def _tell_losses(self) -> None:
        self._losses |= explain_q(self.engine.stats)
        self._losses["exploration_rate"] = self.epsilon

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        """Load the weights into the net and its target."""
        if seen is not None:
            raise InputError("That policy was trained on normalised observations, but DQN does not normalise them.")
        self.engine.load(flat, flat)

    @property
    def epsilon(self) -> float:
        """Current fraction of random actions."""
        return float(exploration_rate(self._hyper, self.env_steps))

    def training_state(self) -> StateArrays:
        """Return all that a new attempt needs except the weights and the buffer, which is large and soon full again."""
        name = self.plan.names[0]
        kept = {f"{name}/{key}": value for key, value in self.engine.training_state().items()}
        counts = {"calls": int(self.engine.steps[CALLS]), "pretrained": self._pretrained}
        kept |= {f"{name}/{key}": np.array([value], np.int64) for key, value in counts.items()}
        if self._best is not None:  # in another env, the next stage of a curriculum, it counts no more
            kept[f"{name}/net"] = self.engine.weights()
            kept |= {WORKER_PREFIX + key: value for key, value in self._best.to_arrays().items()}
        return kept

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        """Restore the training state with an empty buffer.

        `learning_starts` steps are played with the current epsilon before learning resumes.
        """
        name = self.plan.names[0]
        self.engine.load(state.get(f"{name}/net", weights[0]), state[f"{name}/target"])
        if self._best is not None:
            self._best.load_arrays({key.removeprefix(WORKER_PREFIX): value for key, value in state.items()})
        self.load_optimiser(0, {key.removeprefix(f"{name}/"): value for key, value in state.items()})
        self.engine.steps[CALLS] = state[f"{name}/calls"][0]
        self._pretrained = int(state.get(f"{name}/pretrained", [0])[0])

    def close(self) -> None:
        super().close()
        if self._best is not None:
            self._best.close()


def make_q_engine(
    architecture: Architecture,
    shape: VectorShape,
    hyper: DqnHyper,
    batch: int,
    size: int,
    seed: int,
    packing: RowPacking | None,
    recorded: RecordedSteps | None = None,
) -> DqnEngine:
    """Make the compiled engine where possible: it is an order of magnitude faster on small nets."""
    if architecture.plain:
        return FusedDqnEngine(architecture, shape, hyper, batch, size, seed, recorded)
    from mosaic.learners.dqn.torch_engine import TorchDqnEngine

    return TorchDqnEngine(architecture, shape, hyper, batch, size, seed, packing, recorded)


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
        alpha=np.float32(0),
        demo_share=np.float64(options.demo_share),
        demo_coef=np.float32(options.demo_coef),
        demo_margin=np.float32(options.demo_margin),
        demo_pretrain=np.int64(options.demo_pretrain if learns else 0),
    )


def explain_q(stats: NDArray[np.float64]) -> dict[str, float]:
    """Return means over the updates of a chunk; empty where there was none."""
    rows, updates = stats[places.ROWS], stats[places.UPDATES]
    if not updates:
        return {}
    found = {
        "loss": float(stats[places.LOSS] / rows),
        "q_value": float(stats[places.Q_VALUE] / rows),
        "gradient_norm": float(stats[places.GRADIENT_NORM] / updates),
        "updates": float(updates),
    }
    for name, place in (("conservative_loss", places.CONSERVATIVE), ("margin_loss", places.MARGIN)):
        if stats[place]:
            found[name] = float(stats[place] / rows)
    return found
