"""Action distributions in torch: sampling, log-probabilities and the most probable action."""

from __future__ import annotations

from math import log, pi
from typing import NamedTuple

import torch
from torch import Tensor

from mosaic.envs.vector.encoding import ActionHead

MASKED = -1e9  # logit of illegal choices; not −inf, whose product with zero is NaN
_HALF_LOG_TWO_PI = 0.5 * log(2 * pi)
_LEAST_DRAW = 1e-30  # an exponential draw of exactly 0 would select even an illegal choice


class Judged(NamedTuple):
    """Log-probabilities and entropies for actions that were taken."""

    logp: Tensor
    entropy: Tensor


class Drawn(NamedTuple):
    """Actions [rows, parts] and their log-probabilities."""

    act: Tensor
    logp: Tensor


def masked(outputs: Tensor, mask: Tensor | None) -> Tensor:
    return outputs if mask is None else outputs.masked_fill(mask == 0, MASKED)


def judge(head: ActionHead, outputs: Tensor, log_std: Tensor | None, mask: Tensor | None, act: Tensor) -> Judged:
    """Return log-probabilities of the actions, and entropies, one for each row."""
    if head.kind == "gaussian":
        assert log_std is not None
        logp = _gaussian_logp(outputs, log_std, act)
        return Judged(logp, (log_std + 0.5 + _HALF_LOG_TWO_PI).sum(-1).expand_as(logp))
    logps, entropies = [], []
    for part, logits in enumerate(_parts(head, masked(outputs, mask))):
        log_softmax = logits.log_softmax(-1)
        logps.append(log_softmax.gather(-1, act[:, part : part + 1].long())[:, 0])
        entropies.append(-(log_softmax.exp() * log_softmax).sum(-1))
    return Judged(sum(logps[1:], logps[0]), sum(entropies[1:], entropies[0]))


def draw(
    head: ActionHead,
    outputs: Tensor,
    log_std: Tensor | None,
    mask: Tensor | None,
    generator: torch.Generator | None = None,
) -> Drawn:
    """Sample one action for each row: argmax of logit plus Gumbel noise, without probabilities or a host round trip."""
    if head.kind == "gaussian":
        assert log_std is not None
        noise = torch.empty_like(outputs).normal_(generator=generator)
        act = outputs + log_std.exp() * noise
        return Drawn(act, _gaussian_logp(outputs, log_std, act))
    logits = masked(outputs, mask)
    noisy = logits - torch.empty_like(logits).exponential_(generator=generator).clamp_min_(_LEAST_DRAW).log_()
    chosen, logps = [], []
    for part, tried in zip(_parts(head, logits), _parts(head, noisy), strict=True):
        choice = tried.argmax(-1, keepdim=True)
        chosen.append(choice)
        logps.append((part.gather(-1, choice) - part.logsumexp(-1, keepdim=True))[:, 0])
    return Drawn(torch.cat(chosen, 1).to(outputs.dtype), sum(logps[1:], logps[0]))


def likeliest(head: ActionHead, outputs: Tensor, mask: Tensor | None) -> Tensor:
    """Return the most probable action [rows, parts] of each row."""
    if head.kind == "gaussian":
        return outputs
    parts = _parts(head, masked(outputs, mask))
    return torch.stack([part.argmax(-1) for part in parts], 1).to(outputs.dtype)


def divergence(
    head: ActionHead,
    usual: Tensor,
    usual_log_std: Tensor | None,
    outputs: Tensor,
    log_std: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Return the KL divergence of a distribution of actions from the usual one, KL(usual || now), for each row."""
    if head.kind == "gaussian":
        assert usual_log_std is not None
        assert log_std is not None
        wide, far = (usual_log_std - log_std).exp(), (outputs - usual) * (-log_std).exp()
        return (log_std - usual_log_std + 0.5 * (wide.square() + far.square() - 1)).sum(-1)
    apart = torch.zeros_like(outputs[..., 0])
    for before, now in zip(_parts(head, masked(usual, mask)), _parts(head, masked(outputs, mask)), strict=True):
        log_before = before.log_softmax(-1)
        apart = apart + (log_before.exp() * (log_before - now.log_softmax(-1))).sum(-1)
    return apart


def _parts(head: ActionHead, outputs: Tensor) -> tuple[Tensor, ...]:
    return torch.split(outputs, list(head.sizes), dim=-1)


def _gaussian_logp(mean: Tensor, log_std: Tensor, act: Tensor) -> Tensor:
    return -(0.5 * ((act - mean) * (-log_std).exp()).square() + log_std + _HALF_LOG_TWO_PI).sum(-1)
