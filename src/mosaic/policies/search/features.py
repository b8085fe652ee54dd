"""Networks that read a game's features, and the same networks as dense layers that read its observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.envs.compiled.vector import CompiledKernel, Features
from mosaic.models.architecture import Architecture
from mosaic.models.layout import POLICY, tensors
from mosaic.policies.network import ValuedNetwork


def feature_network(architecture: Architecture, features: Features) -> Architecture:
    """Return the network that reads features, of one that computes them in its first layer."""
    return replace(architecture, observation=features.width, hidden=architecture.hidden[1:])


def observation_network(architecture: Architecture, features: Features) -> Architecture:
    """Return the network that reads observations, of one that reads features: its first layer computes the units."""
    if architecture.activation != "relu":
        raise InputError(
            f"A network that reads features has the activation relu, not {architecture.activation}: "
            "set activation=relu, or features=false."
        )
    width, units = features.weight.shape
    return replace(architecture, observation=width, hidden=(units, *architecture.hidden))


def read_observations(
    architecture: Architecture, weights: NDArray[np.float32], features: Features
) -> NDArray[np.float32]:
    """Return the weights of `observation_network` for weights of the network that reads features."""
    places = tensors(architecture)
    first = places[0].of(weights)[features.feature]
    return np.concatenate((features.weight.ravel(), features.bias, first.ravel(), weights[places[0].end :]))


def read_features(architecture: Architecture, weights: NDArray[np.float32], features: Features) -> NDArray[np.float32]:
    """Return the weights of `feature_network`, the inverse of `read_observations`."""
    places = {tensor.name: tensor for tensor in tensors(architecture)}
    second = places[f"{POLICY}1.weight"]
    _, one_unit = np.unique(features.feature, return_index=True)
    return np.concatenate((second.of(weights)[one_unit].ravel(), weights[second.end :]))


def reads_features(architecture: Architecture, weights: NDArray[np.float32], features: Features) -> bool:
    """Return whether a network's first layer computes the units, and all units of a feature count alike."""
    if not (architecture.shared and architecture.plain and architecture.activation == "relu"):
        return False
    if len(architecture.hidden) < 2 or features.weight.shape != (architecture.observation, architecture.hidden[0]):
        return False
    inside = read_features(architecture, weights, features)
    return np.array_equal(weights, read_observations(feature_network(architecture, features), inside, features))


def fast_network(network: ValuedNetwork, kernel: CompiledKernel) -> tuple[ValuedNetwork, Features | None]:
    """Return the network that reads features and the features, if it computes them; the network itself otherwise."""
    features = None if kernel.search is None else kernel.search.features
    architecture, weights, scaling = network
    if features is None or scaling is not None or not reads_features(architecture, weights, features):
        return network, None
    inside = read_features(architecture, weights, features)
    return ValuedNetwork(feature_network(architecture, features), inside, None), features


def image_of_features(features: Features, observation: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which feature each one becomes under a symmetry: entry i of an image is entry [i] of the original."""
    own, mapped = (
        _unit_sets(features, weight) for weight in (features.weight, features.weight[np.argsort(observation)])
    )
    number = {units: feature for feature, units in enumerate(own)}
    if any(units not in number for units in mapped):
        raise ValueError("a symmetry does not map the features onto each other")
    return np.array([number[units] for units in mapped], np.int64)


def _unit_sets(features: Features, weight: NDArray[np.float32]) -> list[tuple[bytes, ...]]:
    units: list[list[bytes]] = [[] for _ in range(features.width)]
    for column, bias, feature in zip(weight.T, features.bias, features.feature, strict=True):
        units[feature].append(column.tobytes() + bias.tobytes())
    return [tuple(sorted(each)) for each in units]
