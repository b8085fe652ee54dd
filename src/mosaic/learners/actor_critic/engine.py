"""Compiled engine of SAC and TD3: dense networks on the CPU, as flat arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.encoding import ActionHead, ActionRange
from mosaic.envs.vector.layout import VectorArrays, VectorShape
from mosaic.learners.actor_critic import kernels as places
from mosaic.learners.actor_critic.kernels import (
    ActorCritic,
    ActorCriticHyper,
    Critics,
    ReplayedBatch,
    advance,
    learn,
    look,
)
from mosaic.learners.dqn.fused_engine import first_q_weights
from mosaic.learners.dqn.kernels import keep
from mosaic.learners.dqn.replay_buffer import ReplayRing, make_held, make_ring
from mosaic.learners.engines.adam import Optimiser, load_optimiser_state, make_optimiser, optimiser_state
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track
from mosaic.learners.rollout.off_policy import CALLS
from mosaic.models.architecture import Architecture
from mosaic.models.dense import forward, make_net, make_net_scratch, net_size
from mosaic.models.engine import StateArrays
from mosaic.models.fused import build_model, make_scratch, policy_outputs
from mosaic.models.random import random_streams

_RING = ("obs", "act", "reward", "next_obs", "follows")
_COUNT = "optimiser.count"


class FusedActorCriticEngine:
    """Actor, twin critics and their targets as flat weights, with replay buffer and optimisers."""

    def __init__(
        self,
        architecture: Architecture,
        shape: VectorShape,
        hyper: ActorCriticHyper,
        action_range: ActionRange,
        batch: int,
        size: int,
        seed: int,
        ent_coef: float,
    ) -> None:
        self._hyper = hyper
        self._agent = _make_agent(architecture, shape, hyper, action_range, batch, size, seed, ent_coef)
        self.act, self.steps, self.stats = self._agent.act, self._agent.steps, self._agent.stats

    @property
    def agent(self) -> ActorCritic:
        return self._agent

    @property
    def ent_coef(self) -> float:
        return math.exp(float(self._agent.entropy.weights[0]))

    def look(self, env: VectorArrays, tally: EpisodeTally, before: int) -> None:
        look(self._agent, self._hyper, env, tally, before)

    def keep(self, env: VectorArrays, track: Track, assignment: Assignment, tally: EpisodeTally) -> None:
        keep(self._agent, self._hyper, env, track, assignment, tally)

    def learn(self) -> None:
        learn(self._agent, self._hyper)

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
        started, clock = perf_counter(), self._agent.clock
        clock[:] = 0
        rest = track, assignment, tally, before, count
        advance(vector.kernel.step, vector.data, env, self._agent, self._hyper, *rest)
        env_s, inference_s, learning_s = clock / max(1, int(clock.sum())) * (perf_counter() - started)
        return float(env_s), float(inference_s), float(learning_s)

    def judge(self, obs: NDArray[np.float32]) -> tuple[float, float, float]:
        agent, parts = self._agent, self._agent.act.shape[1]
        out = policy_outputs(agent.actor.weights, agent.model, obs[None], agent.scratch)[0].copy()
        both = np.concatenate([obs, np.tanh(out[:parts])])[None]
        critics = agent.critics
        values = [
            float(forward(agent.critic.weights, net, both, scratch)[0, 0])
            for net, scratch in ((critics.first, critics.first_scratch), (critics.second, critics.second_scratch))
        ]
        return min(values), float(out[0]), math.exp(float(out[parts])) if self._hyper.soft else 0.0

    def weights(self) -> NDArray[np.float32]:
        return self._agent.actor.weights.copy()

    def load(self, weights: NDArray[np.float32]) -> None:
        """Load the actor and its target; the critics stay as they are."""
        self._agent.actor.weights[:] = weights
        self._agent.actor_target[:] = weights

    def load_optimiser(self, state: StateArrays) -> None:
        load_optimiser_state(self._agent.actor, state)

    def training_state(self, *, replay: bool) -> StateArrays:
        """Return everything but the actor's weights and the decisions that are not complete yet."""
        agent = self._agent
        state = {**_adam_state(agent.actor), "actor_target": agent.actor_target.copy()}
        for name, optimiser in (("critic", agent.critic), ("entropy", agent.entropy)):
            state[name] = optimiser.weights.copy()
            state |= {f"{name}_{key}": value for key, value in _adam_state(optimiser).items()}
        state |= {"critic_target": agent.critics.target.copy(), "steps": agent.steps.copy()}
        state |= {"actions": agent.rng.copy(), "batches": agent.dice.copy()}
        if replay:
            filled = min(int(agent.ring.written[0]), len(agent.ring.reward))
            state |= {f"replay.{name}": getattr(agent.ring, name)[:filled].copy() for name in _RING}
            state["replay.written"] = agent.ring.written.copy()
            state["replay.size"] = np.array([len(agent.ring.reward)])
        return state

    def load_training_state(self, state: StateArrays, env_steps: int, learning_starts: int) -> None:
        """Restore it; `env_steps` are those of earlier attempts. Without a replay buffer, one is collected first."""
        agent = self._agent
        self.load_optimiser(state)
        agent.actor_target[:] = state["actor_target"]
        for name, optimiser in (("critic", agent.critic), ("entropy", agent.entropy)):
            optimiser.weights[:] = state[name]
            prefix = f"{name}_"
            load_optimiser_state(
                optimiser, {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            )
        agent.critics.target[:] = state["critic_target"]
        for place in (CALLS, places.MADE):
            agent.steps[place] = state["steps"][place]
        if "replay.written" in state:
            restore_ring(agent.ring, state)
            agent.steps[places.LEARN_FROM] = learning_starts - env_steps
        if len(state["actions"]) == len(agent.rng):
            agent.rng[:] = state["actions"]
        agent.dice[:] = state["batches"]


def restore_ring(ring: ReplayRing, state: StateArrays) -> None:
    """Fill a ring with stored decisions; one of another size gets the newest, the oldest of them first."""
    written, size = int(state["replay.written"][0]), int(state["replay.size"][0])
    rows = np.arange(len(state["replay.reward"]))
    if size != len(ring.reward):
        rows = np.roll(rows, -(written % size) if written > size else 0)[-len(ring.reward) :]
        written = len(rows)
    for name in _RING:
        getattr(ring, name)[: len(rows)] = state[f"replay.{name}"][rows]
    ring.written[0] = written


def _adam_state(optimiser: Optimiser) -> StateArrays:
    return optimiser_state(optimiser) | {_COUNT: optimiser.count.copy()}


def _make_agent(
    architecture: Architecture,
    shape: VectorShape,
    hyper: ActorCriticHyper,
    action_range: ActionRange,
    batch: int,
    size: int,
    seed: int,
    ent_coef: float,
) -> ActorCritic:
    model, most, parts = build_model(architecture), max(batch, shape.slots), shape.parts
    actor = first_q_weights(architecture, child_seed(seed, "weights", 0))
    if not hyper.soft:
        _fix_deviation(actor, architecture, math.log(float(hyper.exploration_noise)))
    dims = (architecture.observation + parts, *architecture.hidden, 1)
    weights = np.concatenate([first_critic_weights(dims, child_seed(seed, "critic", number)) for number in range(2)])
    first, second = (make_net(dims, architecture.activation, start) for start in (0, net_size(dims)))
    critics = Critics(
        first,
        second,
        make_net_scratch(first, batch),
        make_net_scratch(second, batch),
        target=weights.copy(),
        room=np.zeros(batch * dims[0], np.float32),
    )
    rows = np.zeros((batch, parts), np.float32)
    decisions = np.zeros((shape.slots, parts), np.float32)
    return ActorCritic(
        actor=make_optimiser(actor),
        actor_target=actor.copy(),
        model=model,
        scratch=make_scratch(model, most),
        critic=make_optimiser(weights),
        critics=critics,
        entropy=make_optimiser(np.array([math.log(max(ent_coef, 1e-30))], np.float32)),
        ring=make_ring(shape, size),
        held=make_held(shape),
        sampled=ReplayedBatch(
            np.zeros(batch, np.int64),
            np.zeros(batch, np.float32),
            rows.copy(),
            rows.copy(),
            np.zeros(batch, np.float32),
            rows.copy(),
            rows.copy(),
        ),
        decided=decisions.copy(),
        act=decisions.copy(),
        shift=action_range.shift,
        scale=action_range.scale,
        logp=np.zeros(shape.slots, np.float32),
        rng=random_streams(child_seed(seed, "actions"), shape.slots),
        dice=random_streams(child_seed(seed, "batches"), 1),
        steps=np.array([0, 0, hyper.random_steps, 0], np.int64),
        stats=np.zeros(places.STATS),
        clock=np.zeros(3, np.int64),
    )


def first_critic_weights(dims: Sequence[int], seed: int) -> NDArray[np.float32]:
    """Initialise linear layers like torch, as SB3 does."""
    architecture = Architecture(dims[0], ActionHead("categorical", (dims[-1],)), tuple(dims[1:-1]), shared=True)
    with_value = first_q_weights(architecture, seed)
    last = (dims[-2] + 1) * (dims[-1] + 1)  # its outputs are the values and one that is not used
    whole, end = with_value[:-last], with_value[-last:].reshape(dims[-2] + 1, dims[-1] + 1)
    return np.concatenate((whole, np.ascontiguousarray(end[:, :-1]).ravel()))


def _fix_deviation(flat: NDArray[np.float32], architecture: Architecture, log_std: float) -> None:
    """Give a deterministic actor the deviation with which it is played where it is asked to sample."""
    from mosaic.models.layout import tensors

    parts = architecture.head.parts
    weight, bias = tensors(architecture)[-2:]
    weight.of(flat)[:, parts : 2 * parts] = 0
    bias.of(flat)[parts : 2 * parts] = log_std
