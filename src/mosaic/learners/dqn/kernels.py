"""Compiled kernels of DQN: acting, learning from a replay ring, and both for many steps without returning to Python.

The Q-net is the policy net of a shared model: its outputs are the action values, so that greedy play is the policy's.
The last output, a shared model's value, is not used; it keeps its initial weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import KernelData
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.dqn.replay_buffer import Held, ReplayRing, hold, settle
from mosaic.learners.engines.adam import Optimiser, adam
from mosaic.learners.engines.fused_ppo_update import gathered
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, cycles, record_step
from mosaic.learners.rollout.off_policy import CALLS, ENV_STEPS
from mosaic.models.dense import backward, forward, last_delta
from mosaic.models.fused import Model, Scratch, forbid, policy_outputs
from mosaic.models.random import draw_below, draw_uniform

ADAM_EPSILON = 1e-8  # torch's default, which SB3's DQN keeps

# Indices into `stats`, all sums; the first two and the last two over rows
LOSS, Q_VALUE, ROWS, GRADIENT_NORM, UPDATES, CONSERVATIVE, MARGIN = range(7)
STATS = 7
ENV, INFERENCE, LEARNING = range(3)  # indices into `clock`

_LEARNERS = 1
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_LOWEST = np.float32(-1e30)


class DqnHyper(NamedTuple):
    """Hyperparameters of DQN; one numpy type each, so that nothing is compiled twice."""

    learning_rate: np.float64
    learning_starts: np.int64
    tau: np.float32
    gamma: np.float32
    train_freq: np.int64
    gradient_steps: np.int64  # 0: never learns
    target_every: np.int64  # steps of the vector env
    first_eps: np.float64
    last_eps: np.float64
    eps_steps: np.float64  # env steps from the first to the last epsilon
    max_grad_norm: np.float64  # 0: no clipping
    double_q: np.int64
    alpha: np.float32  # weight of the conservative loss of recorded decisions
    demo_share: np.float64  # of recorded decisions in a batch
    demo_coef: np.float32  # weight of the margin loss of examples
    demo_margin: np.float32
    demo_pretrain: np.int64  # updates before the first env step


class Dqn(NamedTuple):
    """Mutable state of DQN and its scratch memory."""

    optimiser: Optimiser
    target: NDArray[np.float32]
    model: Model
    ring: ReplayRing
    held: Held
    scratch: Scratch
    act: NDArray[np.float32]  # [M, 1] the decisions of the current step
    rng: NDArray[np.uint64]  # [M] of decisions
    dice: NDArray[np.uint64]  # [1] of batches
    idx: NDArray[np.int64]  # [batch] indices into the ring
    goals: NDArray[np.float32]  # [batch] their target values
    chosen: NDArray[np.int64]  # [batch] the net's next actions
    steps: NDArray[np.int64]  # [2]
    stats: NDArray[np.float64]
    clock: NDArray[np.int64]  # [3] processor cycles


_FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True}


@njit(**_FAST)
def exploration_rate(hyper: DqnHyper, env_steps: int) -> float:
    """Return the fraction of random actions: 1 until learning starts, then linearly decreasing."""
    if env_steps < hyper.learning_starts:
        return 1.0
    rate: float = hyper.first_eps + (hyper.last_eps - hyper.first_eps) * min(1.0, env_steps / hyper.eps_steps)
    return rate


@njit(**_FAST)
def decide(
    weights: NDArray[np.float32],
    model: Model,
    env: VectorArrays,
    epsilon: float,
    scratch: Scratch,
    rng: NDArray[np.uint64],
    act: NDArray[np.float32],
) -> None:
    """Choose a random legal action with probability epsilon, else the best legal one; inactive slots do not decide."""
    width = model.head.width
    masked = env.mask.shape[0] > 0
    greedy = False
    for slot in range(act.shape[0]):
        act[slot, 0] = -_ONE
        if env.active[slot] and epsilon > 0 and draw_uniform(rng, slot) < epsilon:
            legal = 0
            for action in range(width):
                legal += not masked or env.mask[slot, action] != 0
            left = draw_below(rng, slot, legal)
            for action in range(width):
                if not masked or env.mask[slot, action] != 0:
                    if left == 0:
                        act[slot, 0] = np.float32(action)
                    left -= 1
        elif env.active[slot]:
            greedy = True
    if greedy:
        out = policy_outputs(weights, model, env.obs, scratch)
        forbid(model.head, out, env.mask)
        for slot in range(act.shape[0]):
            if act[slot, 0] < _ZERO:
                act[slot, 0] = np.float32(_best(out, slot, width))
    for slot in range(act.shape[0]):
        act[slot, 0] = max(act[slot, 0], _ZERO)


@njit(**_FAST, inline="always")
def _best(values: NDArray[np.float32], row: int, width: int) -> int:
    """Return the best action, the lowest on ties, as in greedy play."""
    best = 0
    for action in range(1, width):
        if values[row, action] > values[row, best]:
            best = action
    return best


@njit(**_FAST)
def aim(
    weights: NDArray[np.float32],
    target: NDArray[np.float32],
    model: Model,
    gamma: np.float32,
    double_q: int,
    ring: ReplayRing,
    idx: NDArray[np.int64],
    scratch: Scratch,
    chosen: NDArray[np.int64],
    goals: NDArray[np.float32],
) -> None:
    """Compute the targets of the listed decisions: their reward plus the target net's value of what followed."""
    rows, width = idx.shape[0], model.head.width
    inputs = gathered(ring.next_obs, idx, model.policy.dims[0], scratch.inputs)
    if double_q:
        out = forward(weights, model.policy, inputs, scratch.policy)
        _choose(out, ring.next_mask, idx, width, chosen)
    out = forward(target, model.policy, inputs, scratch.policy)
    if not double_q:
        _choose(out, ring.next_mask, idx, width, chosen)
    for i in range(rows):
        place = idx[i]
        goals[i] = ring.reward[place]
        if ring.follows[place] > _ZERO:
            goals[i] += gamma * out[i, chosen[i]]


@njit(**_FAST)
def _choose(
    out: NDArray[np.float32], mask: NDArray[np.uint8], idx: NDArray[np.int64], width: int, chosen: NDArray[np.int64]
) -> None:
    """Choose the best legal action of every row; the values are not changed."""
    masked = mask.shape[0] > 0
    for i in range(idx.shape[0]):
        best, most = 0, _LOWEST
        for action in range(width):
            if out[i, action] > most and (not masked or mask[idx[i], action] != 0):
                best, most = action, out[i, action]
        chosen[i] = best


@njit(**_FAST)
def gradient(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    model: Model,
    hyper: DqnHyper,
    ring: ReplayRing,
    idx: NDArray[np.int64],
    goals: NDArray[np.float32],
    scratch: Scratch,
    stats: NDArray[np.float64],
) -> None:
    """Overwrite `slope` with the gradient of the loss, averaged over the decisions in idx.

    It is the Huber loss between Q(obs, act) and the goals. Recorded decisions add `alpha` times the conservative loss,
    log sum exp Q(obs, a) - Q(obs, act), and, weighted as examples, `demo_coef` times the margin loss,
    max (Q(obs, a) + margin where a is not act) - Q(obs, act); both are over legal actions a.
    """
    rows = idx.shape[0]
    inputs = gathered(ring.obs, idx, model.policy.dims[0], scratch.inputs)
    out = forward(weights, model.policy, inputs, scratch.policy)
    delta = last_delta(model.policy, rows, scratch.policy)
    delta[:, :] = _ZERO
    scale = _ONE / np.float32(rows)
    loss, total = _ZERO, _ZERO
    for i in range(rows):
        action = ring.act[idx[i]]
        error = out[i, action] - goals[i]
        far = abs(error)
        loss += _HALF * error * error if far < _ONE else far - _HALF
        total += out[i, action]
        delta[i, action] = min(max(error, -_ONE), _ONE) * scale
        if idx[i] < ring.expert.shape[0]:
            if hyper.alpha > _ZERO:
                stats[CONSERVATIVE] += _press_down(out, delta, ring, idx[i], i, model.head.width, hyper.alpha * scale)
            weight = hyper.demo_coef * ring.expert[idx[i]] * scale
            if weight > _ZERO:
                apart = _set_apart(out, delta, ring, idx[i], i, model.head.width, hyper.demo_margin, weight)
                stats[MARGIN] += ring.expert[idx[i]] * apart
    backward(weights, slope, model.policy, inputs, scratch.policy)
    stats[LOSS] += loss
    stats[Q_VALUE] += total
    stats[ROWS] += rows


@njit(**_FAST)
def _press_down(
    out: NDArray[np.float32],
    delta: NDArray[np.float32],
    ring: ReplayRing,
    place: int,
    row: int,
    width: int,
    weight: np.float32,
) -> np.float32:
    """Add the gradient of the conservative loss of a recorded decision; return the loss."""
    masked, action = ring.mask.shape[0] > 0, ring.act[place]
    top, total = _LOWEST, _ZERO
    for a in range(width):
        if not masked or ring.mask[place, a] != 0:
            top = max(top, out[row, a])
    for a in range(width):
        if not masked or ring.mask[place, a] != 0:
            total += np.exp(out[row, a] - top)
    for a in range(width):
        if not masked or ring.mask[place, a] != 0:
            delta[row, a] += weight * np.exp(out[row, a] - top) / total
    delta[row, action] -= weight
    loss: np.float32 = top + np.log(total) - out[row, action]
    return loss


@njit(**_FAST)
def _set_apart(
    out: NDArray[np.float32],
    delta: NDArray[np.float32],
    ring: ReplayRing,
    place: int,
    row: int,
    width: int,
    margin: np.float32,
    weight: np.float32,
) -> np.float32:
    """Add the gradient of the margin loss of an example; return the loss."""
    masked, action = ring.mask.shape[0] > 0, ring.act[place]
    best, most = action, out[row, action]
    for a in range(width):
        if a != action and out[row, a] + margin > most and (not masked or ring.mask[place, a] != 0):
            best, most = a, out[row, a] + margin
    if best != action:
        delta[row, best] += weight
        delta[row, action] -= weight
    loss: np.float32 = most - out[row, action]
    return loss


@njit(**_FAST)
def update(dqn: Dqn, hyper: DqnHyper) -> None:
    """Take one Adam step on a batch drawn with replacement, a share of it from the recorded decisions."""
    ring, optimiser, idx = dqn.ring, dqn.optimiser, dqn.idx
    kept = ring.expert.shape[0]
    filled = min(ring.written[0], ring.act.shape[0] - kept)
    for i in range(idx.shape[0]):
        if kept > 0 and (filled == 0 or draw_uniform(dqn.dice, 0) < hyper.demo_share):
            idx[i] = draw_below(dqn.dice, 0, kept)
        else:
            idx[i] = kept + draw_below(dqn.dice, 0, filled)
    weights, model, scratch = optimiser.weights, dqn.model, dqn.scratch
    aim(weights, dqn.target, model, hyper.gamma, hyper.double_q, ring, idx, scratch, dqn.chosen, dqn.goals)
    gradient(weights, optimiser.gradient, model, hyper, ring, idx, dqn.goals, scratch, dqn.stats)
    dqn.stats[GRADIENT_NORM] += adam(optimiser, hyper.learning_rate, hyper.max_grad_norm, ADAM_EPSILON)
    dqn.stats[UPDATES] += 1


@njit(**_FAST)
def follow(target: NDArray[np.float32], weights: NDArray[np.float32], tau: np.float32) -> None:
    """Move the target net towards the net."""
    if tau == _ONE:  # fastmath would leave a trace of the old value
        target[:] = weights
        return
    for i in range(target.shape[0]):
        target[i] += tau * (weights[i] - target[i])


@njit(**_FAST)
def train_recorded(dqn: Dqn, hyper: DqnHyper, done: int, count: int) -> None:
    """Make updates without env steps; `done` of them were made before."""
    for number in range(done + 1, done + count + 1):
        update(dqn, hyper)
        if number % hyper.target_every == 0:
            follow(dqn.target, dqn.optimiser.weights, hyper.tau)


@njit(**_FAST)
def look(dqn: Dqn, hyper: DqnHyper, env: VectorArrays, tally: EpisodeTally, before: int) -> None:
    """Decide for every slot; `before` is the number of env steps of earlier attempts."""
    epsilon = exploration_rate(hyper, before + dqn.steps[ENV_STEPS])
    decide(dqn.optimiser.weights, dqn.model, env, epsilon, dqn.scratch, dqn.rng, dqn.act)
    tally.decisions[0] += hold(dqn.held, env, tally.length.shape[0], dqn.act)


@njit(**_FAST)
def keep(
    dqn: Dqn, hyper: DqnHyper, env: VectorArrays, track: Track, assignment: Assignment, tally: EpisodeTally
) -> None:
    """Record the step that was made and store the decisions it completed."""
    envs = tally.length.shape[0]
    settle(dqn.ring, dqn.held, env, envs, track.reward[0])
    record_step(tally, assignment, track, 0, env.term, env.trunc, _LEARNERS, hyper.gamma)
    dqn.steps[CALLS] += 1
    dqn.steps[ENV_STEPS] += envs


@njit(**_FAST)
def learn(dqn: Dqn, hyper: DqnHyper) -> None:
    """Run what is due after this step: the target net follows, the net learns."""
    calls = dqn.steps[CALLS]
    if calls % hyper.target_every == 0:
        follow(dqn.target, dqn.optimiser.weights, hyper.tau)
    ready = dqn.steps[ENV_STEPS] > hyper.learning_starts and dqn.ring.written[0] > 0
    if ready and calls % hyper.train_freq == 0:
        for _ in range(hyper.gradient_steps):
            update(dqn, hyper)


@njit(**_FAST)
def advance(
    step: Callable[..., None],
    data: KernelData,
    env: VectorArrays,
    dqn: Dqn,
    hyper: DqnHyper,
    track: Track,
    assignment: Assignment,
    tally: EpisodeTally,
    before: int,
    count: int,
) -> None:
    """Make `count` steps of a compiled env and run the updates in between."""
    for _ in range(count):
        begun = cycles()
        look(dqn, hyper, env, tally, before)
        decided = cycles()
        reward = track.reward[0]
        facts, state, ints, rng = data
        step(facts, state, ints, rng, dqn.act, env.obs, env.mask, env.who, reward, env.term, env.trunc, env.fin)
        stepped = cycles()
        keep(dqn, hyper, env, track, assignment, tally)
        kept = cycles()
        learn(dqn, hyper)
        dqn.clock[ENV] += stepped - decided
        dqn.clock[INFERENCE] += decided - begun + kept - stepped
        dqn.clock[LEARNING] += cycles() - kept
