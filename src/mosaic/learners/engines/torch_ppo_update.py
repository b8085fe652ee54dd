"""PPO update in torch: the loss, and the state of Adam as flat arrays for checkpoints.

The mathematics is the fused engine's (fused_ppo_update.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.engine import LearnSettings, StateArrays
from mosaic.models.torch_distributions import divergence, judge
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
    anchor_kl: Tensor


class Distribution(NamedTuple):
    """Outputs of a network that determine a distribution of actions."""

    outputs: Tensor
    log_std: Tensor | None


def ppo_loss(
    head: ActionHead,
    answer: NetworkOutput,
    log_std: Tensor | None,
    rows: Minibatch,
    settings: LearnSettings,
    anchor: Distribution | None = None,
    weight: Tensor | None = None,
) -> Loss:
    """Return clipped surrogate, value error, entropy bonus and distance from the anchor; nothing waits for the device.

    With `settings.imitate` the surrogate is -log-probability, weighted by the rows' advantages. With `weight`, means
    are weighted: rows of weight 0 do not count.
    """

    def mean(numbers: Tensor) -> Tensor:
        return numbers.mean() if weight is None else (numbers * weight).sum() / weight.sum().clamp(min=1.0)

    judged = judge(head, answer.outputs, log_std, rows.mask, rows.act)
    advantage = normalised(rows.adv, weight) if settings.normalize_advantage and not settings.imitate else rows.adv
    log_ratio = judged.logp - (judged.logp.detach() if settings.imitate else rows.logp)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
    gain = advantage * judged.logp if settings.imitate else torch.minimum(ratio * advantage, clipped * advantage)
    policy = -mean(gain)
    value = mean(value_error(answer.value, rows.val, rows.ret, settings.clip_range_vf))
    entropy = mean(judged.entropy)
    total = policy + settings.vf_coef * value - settings.ent_coef * entropy
    apart = torch.zeros_like(policy)
    if anchor is not None:
        apart = mean(divergence(head, anchor.outputs, anchor.log_std, answer.outputs, log_std, rows.mask))
        total = total + settings.kl_anchor * apart
    with torch.no_grad():
        outside = mean(((ratio - 1).abs() > settings.clip_range).to(ratio.dtype))
        kl = mean(ratio - 1 - log_ratio)
    return Loss(total, policy, value, entropy, outside, kl, apart)


def normalised(advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1; a single row has no deviation."""
    if advantage.numel() < 2:
        return advantage
    if weight is None:
        return (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    count = weight.sum()
    apart = advantage - (advantage * weight).sum() / count.clamp(min=1.0)
    deviation = ((apart.square() * weight).sum() / (count - 1).clamp(min=1.0)).sqrt()
    return torch.where(count < 2, advantage, apart / (deviation + 1e-8))


def value_error(value: Tensor, old: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """Return squared errors; with a clip range the larger of free and clipped, so that far steps do not pay."""
    free = (value - target).square()
    if not clip_range:
        return free
    far = value - old
    clipped = (old + far.clamp(-clip_range, clip_range) - target).square()
    # Where the clip is not active both are equal except for rounding, and rounding must not stop a gradient.
    return torch.where(far.abs() > clip_range, torch.maximum(free, clipped), free)


def adam_state(optimiser: torch.optim.Adam, parameters: Iterable[nn.Parameter]) -> StateArrays:
    """Return both moments and the number of steps; the fused engines use the same names."""
    first, second, count = [], [], 0.0
    for parameter in parameters:
        state = optimiser.state.get(parameter, {})
        first.append(_flat(state.get("exp_avg", torch.zeros_like(parameter))))
        second.append(_flat(state.get("exp_avg_sq", torch.zeros_like(parameter))))
        count = float(state.get("step", count))
    return {
        "optimiser.first": np.concatenate(first),
        "optimiser.second": np.concatenate(second),
        "optimiser.count": np.array([count], np.float32),
    }


def load_adam_state(optimiser: torch.optim.Adam, parameters: Iterable[nn.Parameter], state: StateArrays) -> None:
    """Write the state into the optimiser's tensors, which are made if it has none yet and keep their addresses."""
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()

        def moment(name: str, where: slice, like: nn.Parameter) -> Tensor:
            return torch.from_numpy(state[name][where].copy()).to(like.device).reshape(like.shape)

        loaded = {
            "step": torch.tensor(float(state["optimiser.count"][0])),
            "exp_avg": moment("optimiser.first", slice(start, end), parameter),
            "exp_avg_sq": moment("optimiser.second", slice(start, end), parameter),
        }
        if optimiser.defaults["capturable"]:
            loaded["step"] = loaded["step"].to(parameter.device)
        if known := optimiser.state.get(parameter):
            for name, tensor in loaded.items():
                known[name].copy_(tensor)
        else:
            optimiser.state[parameter] = loaded
        start = end


def _flat(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().to(torch.float32).cpu().numpy().ravel()
