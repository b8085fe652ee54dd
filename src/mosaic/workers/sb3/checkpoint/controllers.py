"""Controllers for SB3 policies, without SB3; without torch where the network has dense layers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.envs.space_json import space_differences, space_to_json
from mosaic.envs.vector.encoding import ActionCode, RowCode
from mosaic.models.architecture import Activation, Architecture
from mosaic.models.layout import LOG_STD, POLICY, VALUE, tensors
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.policies.network import NetworkPolicyController
from mosaic.policies.random import EpsilonGreedyController
from mosaic.workers.sb3.checkpoint.actions import check_squashed, fitting_layers, head_of, sb3_action
from mosaic.workers.sb3.checkpoint.facts import Array, Sb3Facts, Sb3Policy, load_policy_file
from mosaic.workers.sb3.checkpoint.layers import MEMORY, Layer, PolicyLayers, read_layers
from mosaic.workers.sb3.checkpoint.rows import row_parts, sb3_row

_FUSED: dict[str, Activation] = {"Tanh": "tanh", "ReLU": "relu", "SiLU": "silu"}


class AgentCodes(NamedTuple):
    """Observations and actions of the agents that a policy can act for; others raise InputError."""

    rows: Lookup[AgentID, RowCode]
    actions: Lookup[AgentID, ActionCode]


def load_controller(path: Path, request: PolicyRequest) -> PolicyController:
    """Return a controller for a policy that `write_policy` wrote."""
    return make_controller(load_policy_file(path), request)


def make_controller(policy: Sb3Policy, request: PolicyRequest) -> PolicyController:
    """Return a controller for a policy.

    When sampling, DQN and QR-DQN explore as in training, or draw by their values if a temperature is given; others
    draw from their distribution.
    """
    facts, sampling = policy.facts, request.sampling
    if sampling is not None and facts.family == "deterministic":
        raise InputError(
            f"'{request.reference}': a {facts.algorithm} policy has one action for each observation, and no "
            "probabilities to draw from. Leave sample and temperature out."
        )
    if sampling is not None and sampling.temperature is None and facts.epsilon is not None:
        best = make_controller(policy, replace(request, sampling=None))
        return EpsilonGreedyController(best, request.spec, facts.epsilon)
    layers = fitting_layers(facts, read_layers(policy, head_of(facts).width))
    codes = agent_codes(facts, request)
    temperature = None if sampling is None else sampling.temperature or 1.0
    if _is_dense(policy, layers, sampled=sampling is not None):
        return _dense_controller(policy, layers, codes, request, temperature)
    from mosaic.workers.sb3.checkpoint.network_controller import Sb3PolicyController

    return Sb3PolicyController(policy, layers, codes, request, temperature)


def agent_codes(facts: Sb3Facts, request: PolicyRequest) -> AgentCodes:
    """Return the codes of the request's agents; raise InputError, with the differences, where spaces do not fit."""
    spec = request.spec
    known = [agent for agent in request.agents if agent in spec.possible_agents]

    def row(agent: AgentID) -> RowCode:
        space = spec.observation_spaces[agent]
        code = sb3_row(space, facts)
        if code is None:
            differences = space_differences(space_to_json(space), facts.observation, "its observation")
            raise _unfit(request, agent, differences)
        return code

    def action(agent: AgentID) -> ActionCode:
        space = spec.action_spaces[agent]
        code = sb3_action(space, facts)
        if code is None:
            raise _unfit(request, agent, space_differences(space_to_json(space), facts.action, "its action"))
        check_squashed(space, facts)
        return code

    return AgentCodes(Lookup(row, known), Lookup(action, known))


def _unfit(request: PolicyRequest, agent: AgentID, differences: Sequence[str]) -> InputError:
    return InputError(
        f"'{request.reference}' cannot play {request.spec.env_id} as {agent}, whose spaces differ: "
        f"{'; '.join(differences)}."
    )


def _is_dense(policy: Sb3Policy, layers: PolicyLayers, *, sampled: bool) -> bool:
    """Return whether Mosaic's compiled network can act: dense layers, and deviations that are the same everywhere."""
    facts = policy.facts
    special = any(name.startswith(MEMORY) or "features_extractor." in name for name in policy.weights)
    varies = isinstance(layers.deviations, Layer) or facts.use_sde
    return facts.activation in _FUSED and not special and not (sampled and varies)


def _dense_controller(
    policy: Sb3Policy, layers: PolicyLayers, codes: AgentCodes, request: PolicyRequest, temperature: float | None
) -> PolicyController:
    facts, parts = policy.facts, row_parts(policy.facts.observation)
    width = parts[-1].start + parts[-1].size
    if layers.inputs != width:
        raise InputError(
            f"'{request.reference}': its first layer reads {layers.inputs} numbers, but its observations have {width}."
        )
    architecture = Architecture(
        observation=width,
        head=head_of(facts),
        hidden=tuple(layer.outputs for layer in layers.body),
        activation=_FUSED[facts.activation],
        critic_observation=0 if layers.critic else 1,  # 1: there is no value of an observation
        critic_hidden=tuple(layer.outputs for layer in layers.critic[:-1]),
    )
    flat = _flat(architecture, layers)
    actions = codes.actions
    if facts.use_sde and facts.family == "squashed" and facts.clip_mean > 0:
        actions = Lookup(lambda agent: _clipped(codes.actions[agent], facts.clip_mean), codes.actions)
    drawn, warmth = temperature is not None, temperature or 1.0
    return NetworkPolicyController(architecture, flat, codes.rows, actions, policy.scaler, request.seed, drawn, warmth)


def _clipped(code: ActionCode, limit: float) -> ActionCode:
    return ActionCode(code.head, lambda row: code.action(np.clip(row, -limit, limit)))


def _flat(architecture: Architecture, layers: PolicyLayers) -> Array:
    named = {POLICY: (*layers.body, layers.head), VALUE: layers.critic}
    places = tensors(architecture)
    flat = np.zeros(places[-1].end, np.float32)
    for tensor in places:
        if tensor.name == LOG_STD:
            shared = isinstance(layers.deviations, np.ndarray) and layers.deviations.shape == tensor.shape
            tensor.of(flat)[:] = layers.deviations if shared else 0.0
            continue
        net, number, part = tensor.name.split(".")
        if named[f"{net}."]:
            layer = named[f"{net}."][int(number)]
            tensor.of(flat)[:] = layer.weight.T if part == "weight" else layer.bias
    return flat
