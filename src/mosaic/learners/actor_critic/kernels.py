"""Compiled kernels of SAC and TD3: acting, updates of actor and twin critics, and both for many steps at once.

Actions are numbers from -1 to 1; only the env sees them in its own range. A critic reads an observation followed by an
action. Both critics are one flat vector with one optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import KernelData
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.dqn.kernels import ADAM_EPSILON, follow, keep
from mosaic.learners.dqn.replay_buffer import Held, ReplayRing, hold
from mosaic.learners.engines.adam import Optimiser, adam
from mosaic.learners.engines.fused_ppo_update import gathered
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, cycles
from mosaic.learners.rollout.off_policy import CALLS, ENV_STEPS
from mosaic.models.activations import fast_tanh
from mosaic.models.dense import Net, NetScratch, backward, forward, input_slopes, last_delta, matrix
from mosaic.models.fused import LOG_STD_HIGH, LOG_STD_LOW, SQUASH_GUARD, Model, Scratch, policy_outputs, sample_squashed
from mosaic.models.random import draw_below, draw_normal, draw_uniform

# Indices into `stats`, all sums over updates
CRITIC_LOSS, Q_VALUE, UPDATES, ACTOR_LOSS, ENTROPY, ENT_COEF, ACTOR_UPDATES = range(7)
STATS = 7
LEARN_FROM, MADE = 2, 3  # indices into `steps`, after CALLS and ENV_STEPS: env steps before learning; updates made
STEPS = 4
ENV, INFERENCE, LEARNING = range(3)  # indices into `clock`

_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
_LOG_ROOT_TWO_PI = np.float32(0.9189385332)
_FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True}


class ActorCriticHyper(NamedTuple):
    """Hyperparameters of SAC and TD3; one numpy type each, so that nothing is compiled twice."""

    soft: np.int64  # 1: SAC, 0: TD3
    learning_rate: np.float64
    random_steps: np.int64  # env steps of random play
    gamma: np.float32
    tau: np.float32
    train_freq: np.int64
    gradient_steps: np.int64  # 0: never learns
    delay: np.int64  # updates of the critics per update of the targets; with TD3 of the actor, too
    learns_entropy: np.int64
    target_entropy: np.float32
    exploration_noise: np.float32
    target_noise: np.float32
    noise_limit: np.float32


class Critics(NamedTuple):
    """Twin critics."""

    first: Net
    second: Net
    first_scratch: NetScratch
    second_scratch: NetScratch
    target: NDArray[np.float32]
    room: NDArray[np.float32]  # for their inputs


class ReplayedBatch(NamedTuple):
    """A batch and what is computed for it."""

    idx: NDArray[np.int64]  # [batch] indices into the ring
    goals: NDArray[np.float32]  # [batch]
    act: NDArray[np.float32]  # [batch, parts]
    noise: NDArray[np.float32]  # [batch, parts] from which the actions were drawn
    logp: NDArray[np.float32]  # [batch]
    slopes: NDArray[np.float32]  # [batch, parts] d(loss) / d(action)
    more_slopes: NDArray[np.float32]  # [batch, parts] of the second critic


class ActorCritic(NamedTuple):
    """Mutable state of SAC or TD3 and its scratch memory."""

    actor: Optimiser
    actor_target: NDArray[np.float32]  # TD3 alone
    model: Model
    scratch: Scratch
    critic: Optimiser
    critics: Critics
    entropy: Optimiser  # of the logarithm of the entropy's weight
    ring: ReplayRing
    held: Held
    sampled: ReplayedBatch
    decided: NDArray[np.float32]  # [M, parts] from -1 to 1
    act: NDArray[np.float32]  # [M, parts] the same in the env's range
    shift: NDArray[np.float32]  # [parts]
    scale: NDArray[np.float32]  # [parts]
    logp: NDArray[np.float32]  # [M]
    rng: NDArray[np.uint64]  # [M] of decisions
    dice: NDArray[np.uint64]  # [1] of batches and their noise
    steps: NDArray[np.int64]
    stats: NDArray[np.float64]
    clock: NDArray[np.int64]  # [3] processor cycles


@njit(**_FAST)
def _decide(agent: ActorCritic, hyper: ActorCriticHyper, env: VectorArrays, env_steps: int) -> None:
    decided, parts = agent.decided, agent.decided.shape[1]
    if env_steps < hyper.random_steps:
        for slot in range(decided.shape[0]):
            for part in range(parts):
                decided[slot, part] = _TWO * draw_uniform(agent.rng, slot) - _ONE
    else:
        out = policy_outputs(agent.actor.weights, agent.model, env.obs, agent.scratch)
        if hyper.soft:
            sample_squashed(parts, out, agent.rng, decided, agent.logp)
        else:
            for slot in range(decided.shape[0]):
                for part in range(parts):
                    noisy = fast_tanh(out[slot, part]) + hyper.exploration_noise * draw_normal(agent.rng, slot)
                    decided[slot, part] = min(max(noisy, -_ONE), _ONE)
    for slot in range(decided.shape[0]):
        for part in range(parts):
            agent.act[slot, part] = agent.shift[part] + agent.scale[part] * decided[slot, part]


@njit(**_FAST)
def look(agent: ActorCritic, hyper: ActorCriticHyper, env: VectorArrays, tally: EpisodeTally, before: int) -> None:
    """Decide for every slot; `before` is the number of env steps of earlier attempts."""
    _decide(agent, hyper, env, before + agent.steps[ENV_STEPS])
    tally.decisions[0] += hold(agent.held, env, tally.length.shape[0], agent.decided)


@njit(**_FAST)
def draw_noise(agent: ActorCritic) -> None:
    noise = agent.sampled.noise
    for i in range(noise.shape[0]):
        for part in range(noise.shape[1]):
            noise[i, part] = draw_normal(agent.dice, 0)


@njit(**_FAST)
def squash(out: NDArray[np.float32], sampled: ReplayedBatch) -> None:
    """Compute actions and their log-probabilities from means, log deviations and noise."""
    act, noise, parts = sampled.act, sampled.noise, sampled.act.shape[1]
    for i in range(act.shape[0]):
        log_probability = _ZERO
        for part in range(parts):
            log_std = min(max(out[i, parts + part], LOG_STD_LOW), LOG_STD_HIGH)
            act[i, part] = fast_tanh(out[i, part] + np.exp(log_std) * noise[i, part])
            log_probability -= _HALF * noise[i, part] * noise[i, part] + log_std + _LOG_ROOT_TWO_PI
            log_probability -= np.log(_ONE - act[i, part] * act[i, part] + SQUASH_GUARD)
        sampled.logp[i] = log_probability


@njit(**_FAST)
def _joined(obs: NDArray[np.float32], act: NDArray[np.float32], room: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return observations, each followed by its action."""
    rows, width, parts = obs.shape[0], obs.shape[1], act.shape[1]
    both: NDArray[np.float32] = matrix(room, 0, rows, width + parts)
    for i in range(rows):
        for j in range(width):
            both[i, j] = obs[i, j]
        for j in range(parts):
            both[i, width + j] = act[i, j]
    return both


@njit(**_FAST)
def aim(agent: ActorCritic, hyper: ActorCriticHyper, ent_coef: np.float32) -> None:
    """Compute the targets of the batch: reward plus the lower target value of the next action, and its entropy."""
    sampled, critics, ring = agent.sampled, agent.critics, agent.ring
    idx, act = sampled.idx, sampled.act
    inputs = gathered(ring.next_obs, idx, agent.model.policy.dims[0], agent.scratch.inputs)
    weights = agent.actor.weights if hyper.soft else agent.actor_target
    out = forward(weights, agent.model.policy, inputs, agent.scratch.policy)
    draw_noise(agent)
    if hyper.soft:
        squash(out, sampled)
    else:
        for i in range(act.shape[0]):
            for part in range(act.shape[1]):
                noise = hyper.target_noise * sampled.noise[i, part]
                noise = min(max(noise, -hyper.noise_limit), hyper.noise_limit)
                act[i, part] = min(max(fast_tanh(out[i, part]) + noise, -_ONE), _ONE)
    both = _joined(inputs, act, critics.room)
    one = forward(critics.target, critics.first, both, critics.first_scratch)
    other = forward(critics.target, critics.second, both, critics.second_scratch)
    for i in range(idx.shape[0]):
        sampled.goals[i] = ring.reward[idx[i]]
        if ring.follows[idx[i]] > _ZERO:
            following = min(one[i, 0], other[i, 0])
            if hyper.soft:
                following -= ent_coef * sampled.logp[i]
            sampled.goals[i] += hyper.gamma * following


@njit(**_FAST)
def critic_gradient(agent: ActorCritic, hyper: ActorCriticHyper) -> None:
    """Overwrite the critics' gradient with that of their squared errors; SAC halves the loss, as SB3 does."""
    sampled, critics, ring, critic = agent.sampled, agent.critics, agent.ring, agent.critic
    idx, rows = sampled.idx, sampled.idx.shape[0]
    inputs = gathered(ring.obs, idx, agent.model.policy.dims[0], agent.scratch.inputs)
    for i in range(rows):
        for part in range(sampled.act.shape[1]):
            sampled.act[i, part] = ring.act[idx[i], part]
    both = _joined(inputs, sampled.act, critics.room)
    weight = (_ONE if hyper.soft else _TWO) / np.float32(rows)
    loss = _critic_loss(critic, critics.first, critics.first_scratch, both, sampled.goals, weight, agent.stats)
    loss += _critic_loss(critic, critics.second, critics.second_scratch, both, sampled.goals, weight, agent.stats)
    agent.stats[CRITIC_LOSS] += loss


@njit(**_FAST)
def _critic_loss(
    critic: Optimiser,
    net: Net,
    scratch: NetScratch,
    both: NDArray[np.float32],
    goals: NDArray[np.float32],
    weight: np.float32,
    stats: NDArray[np.float64],
) -> np.float32:
    rows = both.shape[0]
    values = forward(critic.weights, net, both, scratch)
    delta = last_delta(net, rows, scratch)
    loss, total = _ZERO, _ZERO
    for i in range(rows):
        error = values[i, 0] - goals[i]
        loss += _HALF * weight * error * error
        total += values[i, 0]
        delta[i, 0] = weight * error
    backward(critic.weights, critic.gradient, net, both, scratch)
    stats[Q_VALUE] += _HALF * total / np.float32(rows)
    return loss


@njit(**_FAST)
def actor_gradient(agent: ActorCritic, hyper: ActorCriticHyper, ent_coef: np.float32) -> None:
    """Overwrite the actor's gradient with that of its loss.

    SAC: the entropy's weight times the log-probability, less the lower value, of actions drawn with `sampled.noise`.
    TD3: less the first critic's value of the policy's action.
    """
    sampled, critics, actor, critic = agent.sampled, agent.critics, agent.actor, agent.critic
    act, rows, parts = sampled.act, sampled.act.shape[0], sampled.act.shape[1]
    net, width = agent.model.policy, agent.model.policy.dims[0]
    inputs = gathered(agent.ring.obs, sampled.idx, width, agent.scratch.inputs)
    out = forward(actor.weights, net, inputs, agent.scratch.policy)
    if hyper.soft:
        squash(out, sampled)
    else:
        for i in range(rows):
            for part in range(parts):
                act[i, part] = fast_tanh(out[i, part])
    both = _joined(inputs, act, critics.room)
    one = forward(critic.weights, critics.first, both, critics.first_scratch)
    push = _ONE / np.float32(rows)
    first_delta = last_delta(critics.first, rows, critics.first_scratch)
    loss = _ZERO
    if hyper.soft:
        other = forward(critic.weights, critics.second, both, critics.second_scratch)
        second_delta = last_delta(critics.second, rows, critics.second_scratch)
        for i in range(rows):
            lower = one[i, 0] <= other[i, 0]
            first_delta[i, 0], second_delta[i, 0] = -push if lower else _ZERO, _ZERO if lower else -push
            loss += ent_coef * sampled.logp[i] - min(one[i, 0], other[i, 0])
        input_slopes(critic.weights, critics.second, width, rows, critics.second_scratch, sampled.more_slopes)
    else:
        for i in range(rows):
            first_delta[i, 0] = -push
            loss -= one[i, 0]
        sampled.more_slopes[:, :] = _ZERO
    input_slopes(critic.weights, critics.first, width, rows, critics.first_scratch, sampled.slopes)
    delta = last_delta(net, rows, agent.scratch.policy)
    delta[:, :] = _ZERO
    for i in range(rows):
        for part in range(parts):
            flat = _ONE - act[i, part] * act[i, part]
            slope = (sampled.slopes[i, part] + sampled.more_slopes[i, part]) * flat
            if hyper.soft:
                slope += push * ent_coef * _TWO * act[i, part] * flat / (flat + SQUASH_GUARD)
                log_std = out[i, parts + part]
                if LOG_STD_LOW < log_std < LOG_STD_HIGH:
                    delta[i, parts + part] = slope * np.exp(log_std) * sampled.noise[i, part] - push * ent_coef
            delta[i, part] = slope
    backward(actor.weights, actor.gradient, net, inputs, agent.scratch.policy)
    agent.stats[ACTOR_LOSS] += loss * push


@njit(**_FAST)
def update(agent: ActorCritic, hyper: ActorCriticHyper) -> None:
    """Take one step of the critics on a batch drawn with replacement, and one of actor and targets where it is due."""
    sampled, ring, rate = agent.sampled, agent.ring, hyper.learning_rate
    filled = min(ring.written[0], ring.reward.shape[0])
    for i in range(sampled.idx.shape[0]):
        sampled.idx[i] = draw_below(agent.dice, 0, filled)
    ent_coef = np.exp(agent.entropy.weights[0]) if hyper.soft else _ZERO
    aim(agent, hyper, ent_coef)
    critic_gradient(agent, hyper)
    adam(agent.critic, rate, 0.0, ADAM_EPSILON)
    agent.steps[MADE] += 1
    agent.stats[UPDATES] += 1
    due = agent.steps[MADE] % hyper.delay == 0
    if hyper.soft or due:
        draw_noise(agent)
        actor_gradient(agent, hyper, ent_coef)
        adam(agent.actor, rate, 0.0, ADAM_EPSILON)
        agent.stats[ACTOR_UPDATES] += 1
    if hyper.soft:
        entropy = _ZERO
        for i in range(sampled.logp.shape[0]):
            entropy -= sampled.logp[i] / np.float32(sampled.logp.shape[0])
        agent.stats[ENTROPY] += entropy
        agent.stats[ENT_COEF] += ent_coef
        if hyper.learns_entropy:
            agent.entropy.gradient[0] = entropy - hyper.target_entropy
            adam(agent.entropy, rate, 0.0, ADAM_EPSILON)
    if due:
        follow(agent.critics.target, agent.critic.weights, hyper.tau)
        if not hyper.soft:
            follow(agent.actor_target, agent.actor.weights, hyper.tau)


@njit(**_FAST)
def learn(agent: ActorCritic, hyper: ActorCriticHyper) -> None:
    """Run the updates that are due after this step."""
    ready = agent.steps[ENV_STEPS] > agent.steps[LEARN_FROM] and agent.ring.written[0] > 0
    if ready and agent.steps[CALLS] % hyper.train_freq == 0:
        for _ in range(hyper.gradient_steps):
            update(agent, hyper)


@njit(**_FAST)
def advance(
    step: Callable[..., None],
    data: KernelData,
    env: VectorArrays,
    agent: ActorCritic,
    hyper: ActorCriticHyper,
    track: Track,
    assignment: Assignment,
    tally: EpisodeTally,
    before: int,
    count: int,
) -> None:
    """Make `count` steps of a compiled env and run the updates in between."""
    for _ in range(count):
        begun = cycles()
        look(agent, hyper, env, tally, before)
        decided = cycles()
        facts, state, ints, rng = data
        reward = track.reward[0]
        step(facts, state, ints, rng, agent.act, env.obs, env.mask, env.who, reward, env.term, env.trunc, env.fin)
        stepped = cycles()
        keep(agent, hyper, env, track, assignment, tally)
        kept = cycles()
        learn(agent, hyper)
        agent.clock[ENV] += stepped - decided
        agent.clock[INFERENCE] += decided - begun + kept - stepped
        agent.clock[LEARNING] += cycles() - kept
