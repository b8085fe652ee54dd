"""Compiled DQN engine: dense networks on the CPU."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.layout import VectorArrays, VectorShape
from mosaic.learners.dqn import kernels as places
from mosaic.learners.dqn.kernels import Dqn, DqnHyper, advance, decide, keep, learn, look, train_recorded
from mosaic.learners.dqn.replay_buffer import make_held, make_ring
from mosaic.learners.engines.adam import load_optimiser_state, make_optimiser, optimiser_state
from mosaic.learners.recorded import RecordedSteps
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays
from mosaic.models.fused import build_model, make_scratch
from mosaic.models.layout import count_weights, tensors
from mosaic.models.random import random_streams


class FusedDqnEngine:
    """Q-net as flat weights, with its target, replay buffer and optimiser."""

    def __init__(
        self,
        architecture: Architecture,
        shape: VectorShape,
        hyper: DqnHyper,
        batch: int,
        size: int,
        seed: int,
        recorded: RecordedSteps | None = None,
    ) -> None:
        model, most = build_model(architecture), max(batch, shape.slots)
        weights = first_q_weights(architecture, child_seed(seed, "weights", 0))
        self._hyper = hyper
        self._dqn = Dqn(
            optimiser=make_optimiser(weights),
            target=weights.copy(),
            model=model,
            ring=make_ring(shape, size, recorded=recorded),
            held=make_held(shape),
            scratch=make_scratch(model, most),
            act=np.zeros((shape.slots, shape.parts), np.float32),
            rng=random_streams(child_seed(seed, "actions"), most),
            dice=random_streams(child_seed(seed, "batches"), 1),
            idx=np.zeros(batch, np.int64),
            goals=np.zeros(batch, np.float32),
            chosen=np.zeros(batch, np.int64),
            steps=np.zeros(2, np.int64),
            stats=np.zeros(places.STATS),
            clock=np.zeros(3, np.int64),
        )
        self.act, self.steps, self.stats, self.ring = self._dqn.act, self._dqn.steps, self._dqn.stats, self._dqn.ring

    def look(self, env: VectorArrays, tally: EpisodeTally, before: int) -> None:
        look(self._dqn, self._hyper, env, tally, before)

    def decide(self, env: VectorArrays, epsilon: float, act: NDArray[np.float32]) -> None:
        decide(self._dqn.optimiser.weights, self._dqn.model, env, epsilon, self._dqn.scratch, self._dqn.rng, act)

    def keep(self, env: VectorArrays, track: Track, assignment: Assignment, tally: EpisodeTally) -> None:
        keep(self._dqn, self._hyper, env, track, assignment, tally)

    def learn(self) -> None:
        learn(self._dqn, self._hyper)

    def train_recorded(self, done: int, count: int, seed: int) -> None:
        self._dqn.dice[:] = random_streams(seed, 1)
        train_recorded(self._dqn, self._hyper, done, count)

    def advance(
        self,
        vector: CompiledVector,
        env: VectorArrays,
        track: Track,
        assignment: Assignment,
        tally: EpisodeTally,
        before: int,
        count: int,
    ) -> tuple[float, float, float]:
        """Step a compiled env and run the updates in between; return the seconds in env, inference and learning."""
        started = perf_counter()
        clock = self._dqn.clock
        clock[:] = 0
        advance(
            vector.kernel.step,
            vector.data,
            env,
            self._dqn,
            self._hyper,
            track,
            assignment,
            tally,
            before,
            count,
        )
        env_s, inference_s, learning_s = clock / max(1, int(clock.sum())) * (perf_counter() - started)
        return float(env_s), float(inference_s), float(learning_s)

    def set_learning_rate(self, rate: float) -> None:
        self._hyper = self._hyper._replace(learning_rate=np.float64(rate))

    def weights(self) -> NDArray[np.float32]:
        return self._dqn.optimiser.weights.copy()

    def load(self, weights: NDArray[np.float32], target: NDArray[np.float32]) -> None:
        self._dqn.optimiser.weights[:] = weights
        self._dqn.target[:] = target

    def training_state(self) -> StateArrays:
        optimiser = self._dqn.optimiser
        state = {"target": self._dqn.target.copy(), **optimiser_state(optimiser)}
        return state | {"optimiser.count": optimiser.count.copy()}

    def load_optimiser(self, state: StateArrays) -> None:
        load_optimiser_state(self._dqn.optimiser, state)


def first_q_weights(architecture: Architecture, seed: int) -> NDArray[np.float32]:
    """Initialise linear layers like torch, as SB3's DQN does; the unused value output is zero."""
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
