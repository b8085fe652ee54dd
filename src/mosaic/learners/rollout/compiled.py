"""Rollout worker for compiled envs and the fused engine; never enters the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.engines import fused_ppo_update as stats_of
from mosaic.learners.engines.adam import load_optimiser_state, make_optimiser, optimiser_state
from mosaic.learners.engines.fused_anchor import anchor_rows, anchor_width
from mosaic.learners.engines.fused_ppo_update import Batch, make_batch, make_hyper, update
from mosaic.learners.normalization import ObservationMoments
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally
from mosaic.learners.rollout.base import Discounts, PolicyInfos, Rates, RolloutSettings, Stopwatch
from mosaic.learners.rollout.buffers import RolloutBuffer
from mosaic.learners.rollout.compiled_inference import Pool, make_inference_buffers, make_pool
from mosaic.learners.rollout.compiled_loop import collect
from mosaic.learners.rollout.shared_critic import SharedCritic, interleaved
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES, LearnSettings, StateArrays
from mosaic.models.fused import build_model, make_scratch
from mosaic.models.layout import critic_place

_SAVED_AS = {"policy_of": "brain"}  # names of arrays in checkpoints


class CompiledPolicies:
    """Policies of one architecture as rows of one matrix: learners first, then frozen places."""

    def __init__(
        self,
        architecture: Architecture,
        initial: Sequence[NDArray[np.float32]],
        shape: VectorShape,
        settings: RolloutSettings,
    ) -> None:
        self.architecture, self.learners = architecture, len(initial)
        self.model = build_model(architecture)
        weights = np.zeros((self.learners + settings.places, initial[0].size), np.float32)
        weights[: self.learners] = np.stack(initial)
        weights[self.learners :] = initial[0]
        self.optimisers = [make_optimiser(weights[policy]) for policy in range(self.learners)]
        self._pool = make_pool(weights, shape.width, settings.normalize_observations)
        self.anchors: dict[int, NDArray[np.float32]] = {}

    def __len__(self) -> int:
        return len(self._pool.weights)

    def pool(self, opponents: int) -> Pool:
        """Return the learners and the first frozen places: empty ones cost nothing."""
        full, count = self._pool, self.learners + opponents
        return Pool(
            full.weights[:count], full.shift[:count], full.scale[:count], full.seen[:count], full.seen_count[:count]
        )

    def weights(self, policy: int) -> NDArray[np.float32]:
        flat: NDArray[np.float32] = self._pool.weights[policy].copy()
        return flat

    def load(self, policy: int, flat: NDArray[np.float32]) -> None:
        self._pool.weights[policy] = flat

    def set_anchor(self, policy: int, flat: NDArray[np.float32]) -> None:
        self.anchors[policy] = flat.copy()

    def training_state(self, policy: int) -> StateArrays:
        return optimiser_state(self.optimisers[policy])

    def load_training_state(self, policy: int, state: StateArrays) -> None:
        load_optimiser_state(self.optimisers[policy], state)

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        self._pool.shift[policy] = shift
        self._pool.scale[policy] = scale

    def take_moments(self) -> ObservationMoments:
        count, sums = self._pool.seen_count, self._pool.seen
        taken = ObservationMoments(count[: self.learners].copy(), sums[: self.learners].copy())
        count[:] = 0
        sums[:] = 0
        return taken


class CompiledRollouts:
    """Rollout worker of a compiled env, whose policies share one architecture."""

    def __init__(
        self,
        vector: CompiledVector,
        plan: TrainingPlan,
        policies: CompiledPolicies,
        learning: Sequence[LearnSettings],
        settings: RolloutSettings,
    ) -> None:
        """`learning` is of each policy."""
        self.vector, self.plan, self.policies = vector, plan, policies
        shape, seed, architecture = vector.shape, settings.seed, policies.architecture
        self._hyper = [make_hyper(each) for each in learning]
        self._discounts = Discounts.of(learning)
        rows, batch_size = settings.n_steps * shape.slots, max(each.batch_size for each in learning)
        mask_width = shape.mask_width if shape.masked else 0
        batch = make_batch(rows, shape.width, shape.parts, mask_width, architecture.critic_observation)
        self.buffer = RolloutBuffer(batch, shape, settings.n_steps)
        self._scratch = make_scratch(policies.model, max(shape.slots, shape.rows, min(batch_size, rows)))
        self._inference = make_inference_buffers(shape, architecture, len(policies), child_seed(seed, "actions"))
        self.assignment, self.tally = settings.make_assignment(plan, shape), settings.make_tally(plan, shape)
        self._bound = bool(settings.bound)
        self._shuffle = np.array([child_seed(seed, "shuffle") + 1], np.uint64)
        self.shared_critic: SharedCritic | None = None
        if plan.shares_critic:
            learners = np.flatnonzero(plan.trained).tolist()
            self.shared_critic = SharedCritic(policies, dict.fromkeys(learners, critic_place(architecture)))
        self.times = Stopwatch()
        self.env_steps = 0
        vector.reset(child_seed(seed, "envs"))

    def watch(self, callback: Callable[[], bool]) -> None:
        """Do nothing: a rollout never returns to Python, and takes milliseconds."""

    def collect(self) -> None:
        started = perf_counter()
        vector, buffer = self.vector, self.buffer
        clock = self._inference.clock
        clock[:] = 0
        collect(
            vector.kernel.step,
            vector.data,
            vector.arrays,
            self.policies.pool(int(self.assignment.league[2])),
            self.policies.model,
            buffer.rows,
            buffer.track,
            self.assignment,
            self.tally,
            self._inference,
            self._scratch,
            self.policies.learners,
            self._hyper[0].gamma,
        )
        vector.rew[:] = buffer.track.reward[-1]  # as after a step of the vector env itself
        self.env_steps += buffer.steps * vector.shape.envs
        inference_s, env_s = clock / max(1, int(clock.sum())) * (perf_counter() - started)
        self.times.add(float(env_s), float(inference_s))

    def learn(self, rates: Sequence[Rates], reward_scale: NDArray[np.float32]) -> list[dict[str, float]]:
        started = perf_counter()
        buffer, model = self.buffer, self.policies.model
        buffer.estimate_advantages(self._discounts.gamma, self._discounts.gae_lambda, reward_scale)
        hypers = [
            hyper._replace(
                clip_range=np.float32(rate.clip_range),
                ent_coef=np.float32(rate.ent_coef),
                kl_anchor=np.float32(rate.kl_anchor),
            )
            for hyper, rate in zip(self._hyper, rates, strict=True)
        ]
        passes = 1
        if self.shared_critic is not None:  # their policies have the same epochs
            passes, epochs = interleaved(int(hypers[0].n_epochs), may_end_early=bool(hypers[0].target_kl))
            hypers = [hyper._replace(n_epochs=np.int64(epochs)) for hyper in hypers]

        def learn_one(policy: int) -> dict[str, float]:
            stats, idx, optimiser = np.zeros(stats_of.STATS), buffer.rows_of(policy), self.policies.optimisers[policy]
            hyper, rate, scratch, shuffle = hypers[policy], rates[policy].learning_rate, self._scratch, self._shuffle
            rows = self._anchored(policy, idx, int(hyper.batch_size))
            update(optimiser, model, hyper, rate, rows, idx, scratch, shuffle, stats)
            return explain_stats(stats) | _explain_anchor(stats, rows)

        learners = [k for k, trained in enumerate(self.plan.trained) if trained and len(buffer.rows_of(k))]
        if self.shared_critic is None:
            losses = {policy: learn_one(policy) for policy in learners}
        else:
            losses = self.shared_critic.learn(learn_one, learners, passes)
        self.times.add(learning_s=perf_counter() - started)
        return [losses.get(policy, {}) for policy in range(len(self.plan.names))]

    def _anchored(self, policy: int, idx: NDArray[np.int64], batch_size: int) -> Batch:
        """Return the rows of the rollout with the outputs of the policy's anchor, if it has one."""
        rows, policies = self.buffer.rows, self.policies
        if policy not in policies.anchors:
            return rows
        outputs = np.empty((len(rows.obs), anchor_width(policies.architecture.head)), np.float32)
        weights, model = policies.anchors[policy], policies.model
        anchor_rows(weights, model, rows.obs, rows.mask, idx, batch_size, self._scratch, outputs)
        return rows._replace(anchor=outputs)

    def keep_own_critics(self) -> None:
        self.shared_critic = None

    def env_state(self) -> StateArrays:
        return {name: array.copy() for name, array in self._state().items()}

    def take_infos(self) -> PolicyInfos:
        return []

    def restore_envs(self, state: StateArrays, env_steps: int) -> None:
        """Continue the episodes of a state; without one, or with that of another device, those that have just begun."""
        if "env.obs" not in state:
            return
        for name, array in self._state().items():
            array[:] = state[name]

    def _state(self) -> StateArrays:
        """Return all arrays with which the next rollout starts, besides weights."""
        state = episodes_state(self.vector, self.assignment, self.tally, bound=self._bound)
        return state | {"actions": self._inference.rng, "shuffle": self._shuffle}


def episodes_state(vector: CompiledVector, assignment: Assignment, tally: EpisodeTally, *, bound: bool) -> StateArrays:
    """Return the arrays of compiled envs, their episodes and the policies that play there; not copies."""
    state: StateArrays = {"state": vector.state, "ints": vector.ints, "rng": vector.rng}
    assigned = {_SAVED_AS.get(field, field): array for field, array in assignment._asdict().items()}
    if bound:  # agents keep their policies; those of a run from before there were bound agents do not count
        del assigned["brain"], assigned["league"]
    for name, arrays in (("env", vector.arrays._asdict()), ("assignment", assigned), ("tally", tally._asdict())):
        state |= {f"{name}.{field}": array for field, array in arrays.items()}
    return {name: array for name, array in state.items() if array.size}


def _explain_anchor(stats: NDArray[np.float64], rows: Batch) -> dict[str, float]:
    return {"anchor_kl": float(stats[stats_of.ANCHOR_KL] / max(stats[stats_of.ROWS], 1))} if len(rows.anchor) else {}


def explain_stats(stats: NDArray[np.float64]) -> dict[str, float]:
    """Return means over an update; empty where nothing was learned."""
    rows, minibatches = stats[stats_of.ROWS], stats[stats_of.MINIBATCHES]
    if not rows:
        return {}
    means = {name: float(stats[place] / rows) for place, name in enumerate(LOSSES)}
    return {**means, "gradient_norm": float(stats[stats_of.GRADIENT_NORM] / minibatches)}
