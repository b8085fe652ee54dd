"""Rollout worker for compiled envs and the fused engine; never enters the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.engines import fused_ppo_update as stats_of
from mosaic.learners.engines.fused_ppo_update import Hyper, make_batch, make_optimiser, update
from mosaic.learners.league import Snapshot
from mosaic.learners.ppo.gae import advantages, rows_of
from mosaic.learners.rollout.arrays import make_agent_slots, make_tally, make_track
from mosaic.learners.rollout.base import Moments, Rates
from mosaic.learners.rollout.compiled_inference import InferenceBuffers, Pool, make_inference_buffers, make_pool
from mosaic.learners.rollout.compiled_loop import collect
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES
from mosaic.models.fused import build_model, make_scratch


class CompiledRollouts:
    """Rollout worker whose policies share one architecture; their weights are rows of one matrix."""

    def __init__(
        self,
        vector: CompiledVector,
        plan: TrainingPlan,
        architecture: Architecture,
        initial: Sequence[NDArray[np.float32]],
        hyper: Hyper,
        n_steps: int,
        seed: int,
        *,
        places: int = 0,
        selfplay_envs: int = 0,
        normalise: bool = False,
    ) -> None:
        self.vector, self.plan, self.hyper = vector, plan, hyper
        shape = vector.shape
        learners = len(plan.names)
        places = places if plan.self_play else 0
        self._learners, self._steps = learners, n_steps
        self._model = build_model(architecture)
        rows = n_steps * shape.slots
        mask_width = shape.mask_width if shape.masked else 0
        self._batch = make_batch(rows, shape.width, shape.parts, mask_width, architecture.critic_observation)
        self._track = make_track(shape, n_steps)
        self._scratch = make_scratch(self._model, max(shape.slots, shape.rows, min(int(hyper.batch_size), rows)))
        weights = np.zeros((learners + places, initial[0].size), np.float32)
        weights[:learners] = np.stack(initial)
        weights[learners:] = initial[0]
        self._pool: Pool = make_pool(weights, shape.width, normalise)
        self._full = self._pool
        if places:
            self._pool = self._crop(0)
        self._optimisers = [make_optimiser(weights[k]) for k in range(learners)]
        self._buffers: InferenceBuffers = make_inference_buffers(
            shape, architecture, learners + places, child_seed(seed, "actions")
        )
        self.seats = make_agent_slots(
            np.array(plan.policy_of, np.int64), shape.envs, child_seed(seed, "seats"), selfplay_envs, places
        )
        self.tally = make_tally(shape, learners, places)
        self._known = np.zeros(rows, np.uint8)
        self._idx = np.zeros(rows, np.int64)
        self._shuffle = np.array([child_seed(seed, "shuffle") + 1], np.uint64)
        self._seconds = np.zeros(3)
        self.env_steps = 0
        vector.reset(child_seed(seed, "envs"))

    def _crop(self, filled: int) -> Pool:
        """Return the pool with only the filled frozen places: empty ones cost nothing."""
        count = self._learners + filled
        full = self._full
        return Pool(full.weights[:count], full.shift[:count], full.scale[:count], full.seen[:count], full.looks[:count])

    def watch(self, glance: Callable[[], bool]) -> None:
        """Do nothing: a rollout never returns to Python, and takes milliseconds."""

    def collect(self) -> None:
        started = perf_counter()
        vector, kernel = self.vector, self.vector.kernel
        self._buffers.clock[:] = 0
        collect(
            kernel.step,
            kernel.facts,
            vector.state,
            vector.ints,
            vector.rng,
            vector.arrays,
            self._pool,
            self._model,
            self._batch,
            self._track,
            self.seats,
            self.tally,
            self._buffers,
            self._scratch,
            self._learners,
            self.hyper.gamma,
        )
        vector.rew[:] = self._track.reward[self._steps - 1]  # as after a step of the vector env itself
        self.env_steps += self._steps * vector.shape.envs
        spent = perf_counter() - started
        inference, env = self._buffers.clock / max(1, int(self._buffers.clock.sum())) * spent
        self._seconds[:2] += env, inference

    def learn(self, rates: Rates, reward_scale: NDArray[np.float32]) -> list[dict[str, float]]:
        started = perf_counter()
        batch, track = self._batch, self._track
        agents = len(self.vector.shape.agents)
        hyper = self.hyper._replace(clip_range=np.float32(rates.clip_range), ent_coef=np.float32(rates.ent_coef))
        advantages(track, agents, hyper.gamma, hyper.gae_lambda, reward_scale, batch.adv, batch.ret, self._known)
        losses = []
        for policy, optimiser in enumerate(self._optimisers):
            stats = np.zeros(stats_of.STATS)
            rows = rows_of(track.brain, self._known, policy, self._idx) if self.plan.trained[policy] else 0
            if rows:
                idx = self._idx[:rows]
                update(
                    optimiser, self._model, hyper, rates.learning_rate, batch, idx, self._scratch, self._shuffle, stats
                )
            losses.append(explain_stats(stats))
        self._seconds[2] += perf_counter() - started
        return losses

    def weights(self, policy: int) -> NDArray[np.float32]:
        flat: NDArray[np.float32] = self._full.weights[policy].copy()
        return flat

    def load(self, policy: int, flat: NDArray[np.float32]) -> None:
        self._full.weights[policy] = flat

    def training_state(self, policy: int) -> dict[str, NDArray[np.float32]]:
        optimiser = self._optimisers[policy]
        return {
            "optimiser.first": optimiser.first.copy(),
            "optimiser.second": optimiser.second.copy(),
            "optimiser.count": optimiser.count.astype(np.float32),
        }

    def load_training_state(self, policy: int, state: dict[str, NDArray[np.float32]]) -> None:
        optimiser = self._optimisers[policy]
        optimiser.first[:] = state["optimiser.first"]
        optimiser.second[:] = state["optimiser.second"]
        optimiser.count[:] = state["optimiser.count"].astype(np.int64)

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        self._full.shift[policy] = shift
        self._full.scale[policy] = scale

    def set_opponents(self, snapshots: Sequence[Snapshot]) -> None:
        for place, snapshot in enumerate(snapshots):
            row = self._learners + place
            if not np.array_equal(self._full.weights[row], snapshot.weights):
                self._full.weights[row] = snapshot.weights
                self.seats.rated[(self.seats.brain == row).any(axis=1)] = 0
            if snapshot.shift.size:
                self.set_scaler(row, snapshot.shift, snapshot.scale)
        self.seats.league[2] = len(snapshots)
        self._pool = self._crop(len(snapshots))

    def take_moments(self) -> Moments:
        count, seen = self._full.looks, self._full.seen
        taken = Moments(count[: self._learners].copy(), seen[: self._learners].copy(), self.tally.spread.copy())
        count[:] = 0
        seen[:] = 0
        self.tally.spread[:] = 0
        return taken

    def standing(self) -> dict[str, NDArray[Any]]:
        return {name: array.copy() for name, array in self._places().items()}

    def go_on(self, standing: dict[str, NDArray[Any]], env_steps: int) -> None:
        for name, array in self._places().items():
            array[:] = standing[name]

    def _places(self) -> dict[str, NDArray[Any]]:
        """Return all arrays with which the next rollout starts, besides weights."""
        vector = self.vector
        places: dict[str, NDArray[Any]] = {"state": vector.state, "ints": vector.ints, "rng": vector.rng}
        places |= {"actions": self._buffers.rng, "shuffle": self._shuffle}
        for name, arrays in (("env", vector.arrays), ("seats", self.seats), ("tally", self.tally)):
            places |= {f"{name}.{field}": array for field, array in arrays._asdict().items()}
        return {name: array for name, array in places.items() if array.size}

    def split(self) -> tuple[float, float, float]:
        env, inference, learning = (float(seconds) for seconds in self._seconds)
        self._seconds[:] = 0
        return env, inference, learning

    def close(self) -> None:
        self.vector.close()


def explain_stats(stats: NDArray[np.float64]) -> dict[str, float]:
    """Return means over an update; empty where nothing was learned."""
    rows, minibatches = stats[stats_of.ROWS], stats[stats_of.MINIBATCHES]
    if not rows:
        return {}
    means = {name: float(stats[place] / rows) for place, name in enumerate(LOSSES)}
    return {**means, "gradient_norm": float(stats[stats_of.GRADIENT_NORM] / minibatches)}
