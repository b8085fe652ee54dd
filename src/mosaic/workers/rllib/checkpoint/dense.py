"""Conversion of RLlib's dense networks to Mosaic's layout of weights, so that they play without Ray and torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.architecture import Activation, Architecture
from mosaic.models.layout import LOG_STD, POLICY, VALUE, tensors

Array: TypeAlias = NDArray[np.float32]
State: TypeAlias = Mapping[str, Array]  # of an RLModule, by RLlib's names

_ACTIVATIONS: dict[str, Activation] = {"tanh": "tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


class Layer(NamedTuple):
    weight: Array  # [out, in], as in torch
    bias: Array


class DenseNetwork(NamedTuple):
    architecture: Architecture
    flat: Array
    deviations: Layer | None  # the last layer's rows for the logarithms of the deviations, if any


def dense_network(
    algorithm: str, state: State, config: Mapping[str, Any], observation: int, head: ActionHead
) -> DenseNetwork | None:
    """Convert a module; return None if it is more than a chain of dense layers with one activation."""
    activation = _activation(config)
    if activation is None or config["use_lstm"] or config.get("num_atoms", 1) > 1:
        return None
    found = _q_network(state, config) if algorithm == "dqn" else _actor_critic(algorithm, state)
    if found is None:
        return None
    policy, value = found
    last, width = policy[-1], head.width
    policy[-1] = Layer(last.weight[:width], last.bias[:width])
    deviations = Layer(last.weight[width:], last.bias[width:]) if len(last.bias) == 2 * width else None
    architecture = Architecture(
        observation,
        head,
        hidden=_hidden(policy),
        activation=activation,
        critic_observation=value[0].weight.shape[1] if value[0].weight.shape[1] != observation else 0,
        critic_hidden=_hidden(value),
    )
    return DenseNetwork(architecture, _flat(architecture, policy, value, state.get("pi.log_std")), deviations)


def _activation(config: Mapping[str, Any]) -> Activation | None:
    name = str(config["fcnet_activation"])
    mixed = config["head_fcnet_hiddens"] and config["head_fcnet_activation"] != name
    return None if mixed or not config["fcnet_hiddens"] else _ACTIVATIONS.get(name)


def _actor_critic(algorithm: str, state: State) -> tuple[list[Layer], list[Layer]] | None:
    encoder = "pi_encoder" if algorithm == "sac" else _first_of(state, "encoder.actor_encoder", "encoder.encoder")
    policy = _layers(state, encoder)
    if not policy:
        return None
    return policy + _layers(state, "pi"), _critic(algorithm, state)


def _critic(algorithm: str, state: State) -> list[Layer]:
    if algorithm == "sac":  # values of actions, not of observations: such a critic cannot be queried
        return [Layer(np.zeros((1, 1), np.float32), np.zeros(1, np.float32))] * 2
    if any(name.startswith("critic.") for name in state):
        return _layers(state, "critic.encoder") + _layers(state, "critic.head")
    return _layers(state, _first_of(state, "encoder.critic_encoder", "encoder.encoder")) + _layers(state, "vf")


def _q_network(state: State, config: Mapping[str, Any]) -> tuple[list[Layer], list[Layer]] | None:
    """Return the layers of a Q-network.

    Linear streams of value and advantage are combined into one linear layer; the value is the mean over the actions.
    """
    encoder, advantage, value = _layers(state, "encoder"), _layers(state, "af"), _layers(state, "vf")
    if not encoder or (config["dueling"] and len(advantage) > 1):
        return None
    last = advantage[-1]
    if config["dueling"]:
        last = Layer(
            last.weight - last.weight.mean(axis=0) + value[0].weight, last.bias - last.bias.mean() + value[0].bias
        )
    before = [*encoder, *advantage[:-1]]
    mean = Layer(last.weight.mean(axis=0, keepdims=True), last.bias.mean(keepdims=True))
    return [*before, last], [*before, mean]


def _layers(state: State, prefix: str) -> list[Layer]:
    """Return the dense layers of one of RLlib's MLPs; none if it is not an MLP."""
    start, end = f"{prefix}.net.mlp.", ".weight"
    numbers = sorted(
        int(name[len(start) : -len(end)]) for name in state if name.startswith(start) and name.endswith(end)
    )
    return [Layer(state[f"{start}{number}.weight"], state[f"{start}{number}.bias"]) for number in numbers]


def _first_of(state: State, *prefixes: str) -> str:
    return next((prefix for prefix in prefixes if any(name.startswith(f"{prefix}.") for name in state)), prefixes[-1])


def _hidden(layers: Sequence[Layer]) -> tuple[int, ...]:
    return tuple(layer.bias.size for layer in layers[:-1])


def _flat(architecture: Architecture, policy: Sequence[Layer], value: Sequence[Layer], log_std: Array | None) -> Array:
    places = tensors(architecture)
    flat = np.zeros(places[-1].end, np.float32)
    for tensor in places:
        if tensor.name == LOG_STD:
            tensor.of(flat)[:] = 0 if log_std is None else log_std
            continue
        net, number, part = tensor.name.split(".")
        layer = {POLICY: policy, VALUE: value}[f"{net}."][int(number)]
        tensor.of(flat)[:] = layer.weight.T if part == "weight" else layer.bias
    return flat
