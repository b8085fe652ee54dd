"""DQN: act greedily but for some chance, remember, and learn from what is remembered.

One policy, alone or shared by all agents. What follows a decision is learned by the Huber loss against a target net
that lags behind; see fused_dqn.py for the mathematics and fused_replay.py for what is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector import VectorArrays, VectorEnv
from mosaic.learners import fused_dqn as places
from mosaic.learners.adam import make_optimiser
from mosaic.learners.dqn_options import DqnOptions
from mosaic.learners.fused_dqn import Dqn, DqnHyper, advance, exploration_rate, keep, learn, look
from mosaic.learners.fused_replay import make_held, make_ring
from mosaic.learners.learner import Progress
from mosaic.learners.normalise import RunningMoments
from mosaic.learners.plan import Plan
from mosaic.learners.seats import make_seats
from mosaic.learners.tally import WINDOW, Tally, make_tally
from mosaic.learners.track import make_track
from mosaic.models.architecture import Architecture
from mosaic.models.chance import random_streams
from mosaic.models.fused import build_model, make_scratch
from mosaic.models.layout import count_weights, tensors

OPEN_END_STEPS = 1_000_000  # what exploration_fraction is a share of where nobody knows how long a run will be
_CHUNK_STEPS, _CHUNK_UPDATES = 1024, 128  # so that a chunk takes some tens of milliseconds at most


class DqnLearner:
    """Advances by chunks of steps. A compiled env does a chunk in one call; any other is stepped by Python."""

    league = None

    def __init__(
        self,
        vector: VectorEnv,
        plan: Plan,
        architecture: Architecture,
        options: DqnOptions,
        seed: int,
        total_env_steps: int | None = None,
    ) -> None:
        self.vector, self.plan, self.options = vector, plan, options
        self.total_env_steps = total_env_steps
        self.env_steps_before = 0  # of earlier attempts
        self.agent_steps_before = 0
        self.episodes_before = 0
        shape = vector.shape
        self._hyper = make_hyper(options, shape.envs, total_env_steps, learns=plan.trained[0])
        per_step = self._hyper.gradient_steps / self._hyper.train_freq
        self._chunk = max(1, min(_CHUNK_STEPS // shape.envs, int(_CHUNK_UPDATES / max(per_step, 1e-9))))
        model = build_model(architecture)
        weights = first_q_weights(architecture, child_seed(seed, "weights", 0))
        batch = options.batch_size
        self._dqn = Dqn(
            optimiser=make_optimiser(weights),
            target=weights.copy(),
            model=model,
            ring=make_ring(shape, options.buffer_size),
            held=make_held(shape),
            scratch=make_scratch(model, max(batch, shape.slots)),
            act=np.zeros((shape.slots, shape.parts), np.float32),
            rng=random_streams(child_seed(seed, "actions"), shape.slots),
            dice=random_streams(child_seed(seed, "batches"), 1),
            idx=np.zeros(batch, np.int64),
            goals=np.zeros(batch, np.float32),
            chosen=np.zeros(batch, np.int64),
            steps=np.zeros(2, np.int64),
            stats=np.zeros(places.STATS),
            clock=np.zeros(3, np.int64),
        )
        self._arrays = VectorArrays(
            vector.obs, vector.mask, vector.who, vector.active, vector.rew, vector.term, vector.trunc, vector.fin
        )
        self._track = make_track(shape, 1)
        self._seats = make_seats(np.array(plan.policy_of, np.int64), shape.envs, child_seed(seed, "seats"), 0, 0)
        self._tally = make_tally(shape, 1, 0)
        self._losses: dict[str, float] = {}
        self._glance: Callable[[], bool] | None = None
        self._seconds = np.zeros(3)
        vector.reset(child_seed(seed, "envs"))

    @property
    def env_steps(self) -> int:
        return self.env_steps_before + int(self._dqn.steps[places.ENV_STEPS])

    @property
    def tally(self) -> Tally:
        return self._tally

    def watch(self, glance: Callable[[], bool]) -> None:
        """Called where Python steps the envs; a compiled chunk takes milliseconds and is not interrupted."""
        self._glance = glance

    def iterate(self) -> None:
        """One chunk of steps; the last one ends with the run."""
        count = self._chunk
        if self.total_env_steps is not None and self.env_steps < self.total_env_steps:
            count = min(count, math.ceil((self.total_env_steps - self.env_steps) / self.vector.shape.envs))
        self._dqn.stats[:] = 0
        if isinstance(self.vector, CompiledVector):
            self._advance_compiled(self.vector, count)
        else:
            self._advance_played(self.vector, count)
        self._losses |= _explain(self._dqn.stats)
        self._losses["exploration_rate"] = self.epsilon

    def _advance_compiled(self, vector: CompiledVector, count: int) -> None:
        started = perf_counter()
        kernel, clock = vector.kernel, self._dqn.clock
        clock[:] = 0
        advance(
            kernel.step,
            kernel.facts,
            vector.state,
            vector.ints,
            vector.rng,
            self._arrays,
            self._dqn,
            self._hyper,
            self._track,
            self._seats,
            self._tally,
            self.env_steps_before,
            count,
        )
        vector.rew[:] = self._track.reward[0]  # as after a step of its own
        self._seconds += clock / max(1, int(clock.sum())) * (perf_counter() - started)

    def _advance_played(self, vector: VectorEnv, count: int) -> None:
        dqn, hyper, env, track = self._dqn, self._hyper, self._arrays, self._track
        for _ in range(count):
            begun = perf_counter()
            look(dqn, hyper, env, self._tally, self.env_steps_before)
            decided = perf_counter()
            vector.step(dqn.act)
            stepped = perf_counter()
            track.reward[0] = vector.rew
            keep(dqn, hyper, env, track, self._seats, self._tally)
            kept = perf_counter()
            learn(dqn, hyper)
            self._seconds += stepped - decided, decided - begun + kept - stepped, perf_counter() - kept
            if self._glance is not None and self._glance():
                return

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self._dqn.optimiser.weights.copy()

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        """Into the net and its target."""
        if seen is not None:
            raise InputError("That policy was trained on normalised observations, and DQN sees them as they are.")
        self._dqn.optimiser.weights[:] = flat
        self._dqn.target[:] = flat

    def load_optimiser(self, policy: int, state: dict[str, NDArray[Any]]) -> None:
        optimiser = self._dqn.optimiser
        optimiser.first[:] = state["optimiser.first"]
        optimiser.second[:] = state["optimiser.second"]
        optimiser.count[:] = state["optimiser.count"]

    def scaler(self, policy: int) -> None:
        """Observations are seen as they are."""

    @property
    def epsilon(self) -> float:
        """The share of random actions now."""
        return float(exploration_rate(self._hyper, self.env_steps))

    def progress(self) -> Progress:
        tally = self._tally
        return Progress(
            env_steps=self.env_steps,
            agent_steps=self.agent_steps_before + int(tally.decisions[0]),
            episodes=self.episodes_before + int(tally.finished[-1]),
            returns=(tally.recent[0, : min(WINDOW, int(tally.finished[0]))].copy(),),
            lengths=tally.recent_length[: min(WINDOW, int(tally.finished[-1]))].copy(),
            losses=(dict(self._losses),),
        )

    def training_state(self) -> dict[str, NDArray[Any]]:
        """All that a new attempt needs besides the weights, but for the buffer: it is large, and soon full again."""
        name, optimiser = self.plan.names[0], self._dqn.optimiser
        return {
            f"{name}/target": self._dqn.target.copy(),
            f"{name}/optimiser.first": optimiser.first.copy(),
            f"{name}/optimiser.second": optimiser.second.copy(),
            f"{name}/optimiser.count": optimiser.count.copy(),
            f"{name}/calls": self._dqn.steps[places.CALLS : places.CALLS + 1].copy(),
        }

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: dict[str, NDArray[Any]]) -> None:
        """The buffer begins empty: `learning_starts` steps are played as eps has it now before learning goes on."""
        name = self.plan.names[0]
        self._dqn.optimiser.weights[:] = weights[0]
        self._dqn.target[:] = state[f"{name}/target"]
        self.load_optimiser(0, {key.removeprefix(f"{name}/"): value for key, value in state.items()})
        self._dqn.steps[places.CALLS] = state[f"{name}/calls"][0]

    def split(self) -> tuple[float, float, float]:
        """Seconds in env, inference and learning since the last reading."""
        env, inference, learning = (float(seconds) for seconds in self._seconds)
        self._seconds[:] = 0
        return env, inference, learning

    def close(self) -> None:
        self.vector.close()


def first_q_weights(architecture: Architecture, seed: int) -> NDArray[np.float32]:
    """torch's way to begin a linear layer, which SB3's DQN keeps; zeros for the value that is not used."""
    random = np.random.default_rng(seed)
    layout = tensors(architecture)
    flat = np.zeros(count_weights(architecture), np.float32)
    for matrix, bias in zip(layout[::2], layout[1::2], strict=True):
        bound = 1 / math.sqrt(matrix.shape[0])
        for tensor in (matrix, bias):
            tensor.of(flat)[:] = random.uniform(-bound, bound, tensor.shape)
    for tensor in layout[-2:]:
        tensor.of(flat)[..., -1] = 0
    return flat


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
    """Means of what the updates of a chunk added up; empty where there was none."""
    rows, updates = stats[places.ROWS], stats[places.UPDATES]
    if not updates:
        return {}
    return {
        "loss": float(stats[places.LOSS] / rows),
        "q_value": float(stats[places.Q_VALUE] / rows),
        "gradient_norm": float(stats[places.GRADIENT_NORM] / updates),
        "updates": float(updates),
    }
