"""Dense layers of an SB3 policy, read from its weights and checked against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mosaic.core.errors import FormatError
from mosaic.workers.sb3.checkpoint.facts import Array, Sb3Policy, Weights

VALUES, QUANTILES = "q_net.q_net.", "quantile_net.quantile_net."
_SHARED, _ACTOR, _CRITIC = "mlp_extractor.shared_net.", "mlp_extractor.policy_net.", "mlp_extractor.value_net."
_VALUE = "value_net."
_LATENT, _MEANS, _DEVIATIONS = "actor.latent_pi.", "actor.mu.", "actor.log_std"
MEMORY = "lstm_actor."


class Layer(NamedTuple):
    """Linear layer, as torch holds it."""

    weight: Array  # [outputs, inputs]
    bias: Array

    @property
    def inputs(self) -> int:
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.weight.shape[0])


class PolicyLayers(NamedTuple):
    """Layers from features, or from the memory, to the numbers that decide an action."""

    body: tuple[Layer, ...]  # each is followed by the activation
    head: Layer  # logits, means or values of the actions
    deviations: Layer | Array | None  # logarithms: a layer (SAC), a vector, or with gSDE a matrix
    critic: tuple[Layer, ...]  # to the value of an observation; empty where the policy has none

    @property
    def inputs(self) -> int:
        return (*self.body, self.head)[0].inputs


class _Norm(NamedTuple):
    """Batch renormalisation as it acts: x · scale + shift."""

    scale: Array
    shift: Array


def read_layers(policy: Sb3Policy, choices: int) -> PolicyLayers:
    """Return the layers of a policy; `choices` is the number of actions whose quantiles are averaged."""
    weights, family = policy.weights, policy.facts.family
    try:
        match family:
            case "actor_critic":
                body = _sequence(policy, _SHARED, _ACTOR)
                critic = (
                    ()
                    if _has_features(weights)
                    else (*_sequence(policy, _SHARED, _CRITIC), _layer(weights, "value_net."))
                )
                found = PolicyLayers(body, _layer(weights, "action_net."), weights.get("log_std"), critic)
            case "squashed":
                found = _squashed(policy)
            case "deterministic":
                *body_, head = _sequence(policy, _MEANS)
                found = PolicyLayers(tuple(body_), head, None, ())
            case "values":
                *body_, head = _sequence(policy, VALUES)
                found = PolicyLayers(tuple(body_), head, None, ())
            case "quantiles":
                *body_, head = _sequence(policy, QUANTILES)
                found = PolicyLayers(tuple(body_), _averaged(head, choices), None, ())
    except KeyError as error:
        raise FormatError(
            f"The weights of this {policy.facts.algorithm} policy have no tensor {error}: another algorithm or another "
            "kind of network wrote them."
        ) from error
    _check_chain((*found.body, found.head))
    _check_chain(found.critic)
    return found


def _has_features(weights: Weights) -> bool:
    return any(name.startswith(("pi_features_extractor.", MEMORY)) for name in weights)


def _squashed(policy: Sb3Policy) -> PolicyLayers:
    weights, facts = policy.weights, policy.facts
    body, last = _folded(policy, _LATENT)
    means = f"{_MEANS}0." if f"{_MEANS}0.weight" in weights else _MEANS  # gSDE clips the means in a second layer
    if facts.use_sde:
        return PolicyLayers(body, _after(last, _layer(weights, means)), weights[_DEVIATIONS], ())
    deviations = _after(last, _layer(weights, f"{_DEVIATIONS}."))
    return PolicyLayers(body, _after(last, _layer(weights, means)), deviations, ())


def _sequence(policy: Sb3Policy, *prefixes: str) -> tuple[Layer, ...]:
    found: list[Layer] = []
    for prefix in prefixes:
        layers, last = _folded(policy, prefix)
        if last is not None:
            raise FormatError(f"The weights of '{prefix}' end with a normalisation, which only CrossQ's actor has.")
        found += layers
    return tuple(found)


def _folded(policy: Sb3Policy, prefix: str) -> tuple[tuple[Layer, ...], _Norm | None]:
    """Return the linear layers of a torch Sequential, each with the normalisation before it, and one after the last."""
    weights, layers, norm = policy.weights, list[Layer](), None
    places = {name.removeprefix(prefix).partition(".")[0] for name in weights if name.startswith(prefix)}
    strangers = [place for place in places if not place.isdigit()]
    if strangers:
        raise FormatError(f"'{prefix}{min(strangers)}' is not a layer of SB3's networks.")
    for place in sorted(places, key=int):
        start = f"{prefix}{place}."
        if f"{start}ra_mean" in weights:
            norm = _norm(weights, start, policy.facts.norm_eps)
        else:
            layers.append(_after(norm, _layer(weights, start)))
            norm = None
    return tuple(layers), norm


def _norm(weights: Weights, prefix: str, eps: float) -> _Norm:
    mean, variance = weights[f"{prefix}ra_mean"], weights[f"{prefix}ra_var"]
    if (variance < 0).any():
        raise FormatError(f"'{prefix}ra_var' has negative variances.")
    scale = weights[f"{prefix}scale"] / np.sqrt(variance + np.float32(eps))
    return _Norm(scale, weights[f"{prefix}bias"] - mean * scale)


def _after(norm: _Norm | None, layer: Layer) -> Layer:
    """Return one layer that does what a normalisation and a layer do."""
    if norm is None:
        return layer
    if norm.scale.shape != (layer.inputs,):
        raise FormatError(
            f"A normalisation of {norm.scale.size} numbers is followed by a layer that reads {layer.inputs}."
        )
    return Layer(layer.weight * norm.scale, layer.bias + layer.weight @ norm.shift)


def _layer(weights: Weights, prefix: str) -> Layer:
    weight, bias = weights[f"{prefix}weight"], weights[f"{prefix}bias"]
    if weight.ndim != 2 or bias.shape != (weight.shape[0],):
        raise FormatError(
            f"'{prefix}weight' has the shape {weight.shape} and '{prefix}bias' {bias.shape}: they are not a layer."
        )
    return Layer(weight, bias)


def _averaged(head: Layer, choices: int) -> Layer:
    """Return the layer of mean values: the quantiles of all actions follow each other, action by action."""
    if head.outputs % choices:
        raise FormatError(f"{head.outputs} quantiles cannot be shared by {choices} actions.")
    return Layer(
        head.weight.reshape(-1, choices, head.inputs).mean(axis=0), head.bias.reshape(-1, choices).mean(axis=0)
    )


def _check_chain(layers: Sequence[Layer]) -> None:
    for number, (before, after) in enumerate(pairwise(layers)):
        if before.outputs != after.inputs:
            raise FormatError(
                f"Layer {number} gives {before.outputs} numbers, but layer {number + 1} reads {after.inputs}: the "
                "weights do not belong to one network."
            )
