"""PPO loss in torch: the same mathematics as the fused engine's gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.engine import LearnSettings
from mosaic.models.torch_distributions import judge
from mosaic.models.torch_net import NetworkOutput


class Minibatch(NamedTuple):
    """Rows of experience on the device; `mask` is None where everything is legal."""

    obs: Tensor
    critic_obs: Tensor
    mask: Tensor | None
    act: Tensor
    logp: Tensor
    val: Tensor
    adv: Tensor
    ret: Tensor


class Loss(NamedTuple):
    """Total loss and its parts; each a mean over rows."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    clipped: Tensor
    kl: Tensor


def ppo_loss(
    head: ActionHead, answer: NetworkOutput, log_std: Tensor | None, rows: Minibatch, settings: LearnSettings
) -> Loss:
    """Return clipped surrogate, value error and entropy bonus; nothing here waits for the device."""
    judged = judge(head, answer.outputs, log_std, rows.mask, rows.act)
    advantage = normalised(rows.adv) if settings.normalize_advantage else rows.adv
    log_ratio = judged.logp - rows.logp
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
    policy = -torch.minimum(ratio * advantage, clipped * advantage).mean()
    value = value_error(answer.value, rows.val, rows.ret, settings.clip_range_vf).mean()
    entropy = judged.entropy.mean()
    total = policy + settings.vf_coef * value - settings.ent_coef * entropy
    with torch.no_grad():
        outside = ((ratio - 1).abs() > settings.clip_range).to(ratio.dtype).mean()
        kl = (ratio - 1 - log_ratio).mean()
    return Loss(total, policy, value, entropy, outside, kl)


def normalised(advantage: Tensor) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1; a single row has no deviation."""
    if advantage.numel() < 2:
        return advantage
    return (advantage - advantage.mean()) / (advantage.std() + 1e-8)


def value_error(value: Tensor, old: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """Return squared errors; with a clip range the larger of free and clipped, so that far steps do not pay."""
    free = (value - target).square()
    if not clip_range:
        return free
    far = value - old
    clipped = (old + far.clamp(-clip_range, clip_range) - target).square()
    # Where the clip is not active both are equal except for rounding, and rounding must not stop a gradient.
    return torch.where(far.abs() > clip_range, torch.maximum(free, clipped), free)
