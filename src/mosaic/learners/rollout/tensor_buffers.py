"""Rollout of envs on a device: its rows, advantages, and the results of its episodes, all as tensors.

The mathematics is that of gae.py and arrays.py, for envs whose agents end together and never skip a turn.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.rollout.arrays import WINDOW

WIN, DRAW, LOSS = 0, 1, 2


class TensorRollout(NamedTuple):
    """T steps of E envs with S slots and A agents."""

    obs: Tensor  # [T, E, S, width]
    mask: Tensor | None  # [T, E, S, mask_width] bool
    act: Tensor  # [T, E, S, parts]
    logp: Tensor  # [T, E, S]
    value: Tensor  # [T + 1, E, S]
    decider: Tensor  # [T, E, S] number of the policy that decided
    who: Tensor | None  # [T + 1, E] the agent on turn; None: all act together
    reward: Tensor  # [T, E, A]
    ended: Tensor  # [T, E] bool: terminated or truncated
    bootstrap: Tensor  # [T, E, A] value of the final observation where truncated, else 0
    adv: Tensor  # [T, E, S]
    ret: Tensor  # [T, E, S]
    known: Tensor  # [T, E, S] bool: decisions whose outcome is known


def make_tensor_rollout(shape: VectorShape, steps: int, device: torch.device) -> TensorRollout:
    envs, slots, agents = shape.envs, shape.slots_per_env, len(shape.agents)

    def zeros(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(*sizes, dtype=dtype, device=device)

    decisions = (steps, envs, slots)
    return TensorRollout(
        obs=zeros(*decisions, shape.width),
        mask=zeros(*decisions, shape.mask_width, dtype=torch.bool) if shape.masked else None,
        act=zeros(*decisions, shape.parts),
        logp=zeros(*decisions),
        value=zeros(steps + 1, envs, slots),
        decider=zeros(*decisions, dtype=torch.int64),
        who=zeros(steps + 1, envs, dtype=torch.int64) if shape.turn_based else None,
        reward=zeros(steps, envs, agents),
        ended=zeros(steps, envs, dtype=torch.bool),
        bootstrap=zeros(steps, envs, agents),
        adv=zeros(*decisions),
        ret=zeros(*decisions),
        known=torch.ones(*decisions, dtype=torch.bool, device=device),
    )


def estimate_advantages(rollout: TensorRollout, gamma: Tensor, gae_lambda: Tensor) -> None:
    """Write advantages and returns; `gamma` and `gae_lambda` are of each policy, frozen ones included."""
    if rollout.who is None:
        _estimate_together(rollout, gamma, gae_lambda)
    else:
        _estimate_in_turns(rollout, rollout.who, gamma, gae_lambda)
    torch.add(rollout.adv, rollout.value[:-1], out=rollout.ret)


def _estimate_together(rollout: TensorRollout, gamma: Tensor, gae_lambda: Tensor) -> None:
    """Estimate the advantages of agents that all decide at every step."""
    steps = len(rollout.reward)
    alike = len(gamma) == 1
    ahead, following = rollout.value[steps], torch.zeros_like(rollout.value[steps])
    for time in reversed(range(steps)):
        ended, value = rollout.ended[time][:, None], rollout.value[time]
        discount = gamma if alike else gamma[rollout.decider[time]]
        carried = discount * (gae_lambda if alike else gae_lambda[rollout.decider[time]])
        ahead = torch.where(ended, rollout.bootstrap[time], ahead)
        following = torch.where(ended, 0.0, carried * following)
        following = following + rollout.reward[time] + discount * ahead - value
        rollout.adv[time].copy_(following)
        ahead = value


def _estimate_in_turns(rollout: TensorRollout, who: Tensor, gamma: Tensor, gae_lambda: Tensor) -> None:
    """Estimate the advantages of agents that take turns.

    Every (env, agent) has its own trajectory. The rewards between two of its decisions belong to the first of them; its
    last decision has no outcome yet if another agent is on turn at the end.
    """
    steps, _, agents = rollout.reward.shape
    numbers = torch.arange(agents, device=who.device)
    acts = who[steps][:, None] == numbers
    ahead = torch.where(acts, rollout.value[steps], 0.0)
    seen, paid, following = acts, torch.zeros_like(ahead), torch.zeros_like(ahead)
    for time in reversed(range(steps)):
        ended = rollout.ended[time][:, None]
        ahead = torch.where(ended, rollout.bootstrap[time], ahead)
        following = torch.where(ended, 0.0, following)
        paid = torch.where(ended, 0.0, paid) + rollout.reward[time]
        seen = seen | ended
        acts, value = who[time][:, None] == numbers, rollout.value[time]
        discount = gamma[rollout.decider[time]]
        advantage = paid + discount * ahead - value + discount * gae_lambda[rollout.decider[time]] * following
        known = acts & seen
        rollout.adv[time].copy_(torch.where(known, advantage, 0.0).sum(1, keepdim=True))
        rollout.known[time].copy_(known.any(1, keepdim=True))
        following = torch.where(acts, torch.where(seen, advantage, 0.0), following)
        ahead = torch.where(acts, value, ahead)
        paid = torch.where(acts, 0.0, paid)
        seen = seen | acts


class EpisodeResults(NamedTuple):
    """Episodes as they run, and what the steps of one rollout added to them."""

    returns: Tensor  # [E, A] of the running episodes
    length: Tensor  # [E]
    policy_of: Tensor  # [E, A] who plays now
    rated: Tensor  # [E] bool: the opponent has not changed since the game began
    total: Tensor  # [T, E, A] returns after each step
    lengths: Tensor  # [T, E] the same of lengths
    played: Tensor  # [T, E, A] who played
    counted: Tensor  # [T, E] bool: rated games that ended
    recent: Tensor  # [learners, WINDOW + 1] returns of the last episodes; the last column is scratch space
    recent_length: Tensor  # [WINDOW + 1]
    finished: Tensor  # [learners + 1] episodes of each learner; last: of the envs
    scores: Tensor  # [places, 3] games won, drawn and lost against each frozen place
    selfplay: Tensor  # [3] the same of the first agent where the learner plays itself


def make_results(shape: VectorShape, steps: int, learners: int, places: int, policy_of: Tensor) -> EpisodeResults:
    device, envs, agents = policy_of.device, shape.envs, len(shape.agents)

    def whole(*sizes: int) -> Tensor:
        return torch.zeros(*sizes, dtype=torch.int64, device=device)

    return EpisodeResults(
        returns=torch.zeros(envs, agents, device=device),
        length=whole(envs),
        policy_of=policy_of,
        rated=torch.ones(envs, dtype=torch.bool, device=device),
        total=torch.zeros(steps, envs, agents, device=device),
        lengths=whole(steps, envs),
        played=policy_of.expand(steps, envs, agents).clone(),
        counted=torch.zeros(steps, envs, dtype=torch.bool, device=device),
        recent=torch.zeros(learners, WINDOW + 1, device=device),
        recent_length=whole(WINDOW + 1),
        finished=whole(learners + 1),
        scores=whole(max(1, places), 3),
        selfplay=whole(3),
    )


def record_step(results: EpisodeResults, time: int, reward: Tensor, ended: Tensor, *, self_play: bool) -> None:
    """Record rewards and ends; running episodes begin again where they have ended.

    Only in self-play do policies change their agents, and do games have results.
    """
    results.returns.add_(reward)
    results.length.add_(1)
    results.total[time].copy_(results.returns)
    results.lengths[time].copy_(results.length)
    results.returns.masked_fill_(ended[:, None], 0.0)
    results.length.masked_fill_(ended, 0)
    if self_play:
        results.played[time].copy_(results.policy_of)
        results.counted[time].copy_(results.rated & ended)
        results.rated.logical_or_(ended)


def record_episodes(results: EpisodeResults, ended: Tensor, *, self_play: bool) -> None:
    """Add the episodes that ended in a rollout, [T, E], to the last ones and to the scores."""
    learners = len(results.recent)
    for policy in range(learners):
        own = ended[:, :, None] & (results.played == policy)
        _push(results.recent[policy], results.finished[policy], own, results.total)
    _push(results.recent_length, results.finished[learners], ended, results.lengths)
    if self_play:
        _record_games(results, ended, learners)


def _push(recent: Tensor, finished: Tensor, ended: Tensor, values: Tensor) -> None:
    """Write the values where an episode ended over the oldest of the last ones, in their order of time."""
    ended, rank = ended.flatten(), ended.flatten().cumsum(0) - 1
    count = ended.sum()
    kept = ended & (rank >= count - WINDOW)
    place = torch.where(kept, (finished + rank) % WINDOW, WINDOW)
    recent.scatter_(0, place, values.flatten().to(recent.dtype))
    finished.add_(count)


def _record_games(results: EpisodeResults, ended: Tensor, learners: int) -> None:
    """Count the learner's results against frozen places, best return against best; else the first agent's."""
    mine = results.played == 0
    alone = (results.played < learners).all(2)
    first = torch.zeros_like(mine)
    first[:, :, 0] = True
    own = torch.where(alone[:, :, None], first, mine)
    best = torch.where(own, results.total, -torch.inf).amax(2)
    other = torch.where(own, -torch.inf, results.total).amax(2)
    outcome = torch.where(best > other, WIN, torch.where(best == other, DRAW, LOSS))
    place = (results.played.amax(2) - learners).clamp(min=0)
    _count(results.scores.view(-1), (3 * place + outcome), results.counted & ~alone)
    _count(results.selfplay, outcome, ended & alone)


def _count(counts: Tensor, index: Tensor, counted: Tensor) -> None:
    counts.scatter_add_(0, torch.where(counted, index, 0).flatten(), counted.flatten().to(counts.dtype))
