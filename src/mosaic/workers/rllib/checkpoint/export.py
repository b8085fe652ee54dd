"""Export of RLlib's policies to files that play without Ray; dense networks also without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.vector.encoding import ActionHead, action_code
from mosaic.models.architecture import Activation, Architecture
from mosaic.models.layout import LOG_STD, POLICY, VALUE, tensors
from mosaic.store.checkpoint_record import PolicyEntry
from mosaic.workers.rllib.checkpoint.controllers import (
    DEVIATIONS,
    FACTS,
    FORMAT,
    MODULE,
    SCALE,
    SHIFT,
    CodeFacts,
    ModelConfig,
    PolicyFacts,
)
from mosaic.workers.rllib.config.algorithms import SQUASHED
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.env.encoding import agent_code
from mosaic.workers.rllib.env.filters import filter_moments

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2


Arrays: TypeAlias = dict[str, NDArray[np.float32]]
CONNECTORS = "connectors.pkl"  # states of a user's connectors


def policy_files(setup: RllibSetup, policy: PolicyID) -> tuple[str, ...]:
    """Return the files of a policy, relative to the folder that it is exported to."""
    weights = f"policy_{list(setup.modules).index(policy)}.safetensors"
    return (FACTS, weights, CONNECTORS) if _has_connectors(setup) else (FACTS, weights)


def policy_entries(setup: RllibSetup) -> dict[str, PolicyEntry]:
    """Return what a checkpoint's manifest says of each policy."""
    filtered = setup.options.observation_filter == "MeanStdFilter"
    return {
        name: PolicyEntry(
            files=policy_files(setup, name),
            agents=setup.agents_of(name),
            stochastic=gives_probabilities(setup),
            normalized=None if setup.options.env_to_module else filtered,  # a user's connectors may do it too
        )
        for name in setup.modules
    }


def gives_probabilities(setup: RllibSetup) -> bool:
    """Return whether the policies give probabilities of actions; those of DQN give values."""
    return setup.algorithm != "dqn"


def _has_connectors(setup: RllibSetup) -> bool:
    return bool(setup.options.env_to_module or setup.options.module_to_env)


def export_policies(folder: Path, setup: RllibSetup, algo: Algorithm, env_steps: int = 0) -> None:
    """Write one file of weights per policy, and one document about them all; `env_steps` were trained so far."""
    runner = algo.env_runner  # none where a dataset is learned from
    modules = {module: _acting_module(algo, module) for module in setup.modules.values()}
    states = {module: learned_state(algo, module) for module in modules}
    export_modules(folder, setup, modules, states, None if runner is None else runner._env_to_module, env_steps)
    if _has_connectors(setup):
        from mosaic.workers.rllib.checkpoint.user_controller import connector_states

        (folder / CONNECTORS).write_bytes(connector_states(runner._env_to_module, runner._module_to_env))


def export_snapshot(folder: Path, setup: RllibSetup, algo: Algorithm, weights: Mapping[str, Array]) -> None:
    """Write a snapshot of the learner, of which only the weights needed to act are known, under the learner's name."""
    assert algo.env_runner is not None
    (name,) = setup.modules.values()
    folder.mkdir(exist_ok=True)
    state = learned_state(algo, name) | dict(weights)
    export_modules(folder, setup, {name: algo.get_module(name)}, {name: state}, algo.env_runner._env_to_module)


def export_modules(
    folder: Path,
    setup: RllibSetup,
    modules: Mapping[str, Any],
    states: Mapping[str, Arrays],
    connectors: ConnectorPipelineV2 | None,
    env_steps: int = 0,
) -> None:
    """Write files from modules and states.

    `modules` are a runner's, without the parts that only learning needs; `states` are the learner's.
    """
    moments = {} if connectors is None else filter_moments(connectors)
    facts: dict[PolicyID, PolicyFacts] = {}
    for policy, name in setup.modules.items():
        module, state = modules[name], states[name]
        config: ModelConfig = json.loads(json.dumps(dict(module.model_config)))
        code = _code(setup)
        dense = None if code else _dense(setup, policy, state, config)
        agents = setup.agents_of(policy)
        scalers = _scalers(moments, agents)
        file = policy_files(setup, policy)[1]
        if dense is None:
            _save_module(folder / file, {key: state[key] for key in module.state_dict()}, scalers)
        else:
            save_dense(folder / file, dense, scalers)
        facts[policy] = {
            "file": file,
            "dense": dense is not None,
            "agents": list(agents),
            "algorithm": setup.algorithm,
            "model_config": config,
            "masked": setup.masked,
            "picture_size": setup.options.picture_size,
            "normalize_actions": setup.options.normalize_actions,
            "clip_actions": setup.options.clip_actions,
            "epsilon": exploration_rate(getattr(setup.options, "epsilon", None), env_steps),
            "code": code,
        }
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, "policies": facts}, indent=1))


def _code(setup: RllibSetup) -> CodeFacts | None:
    options = setup.options
    if not options.acts_with_code:
        return None
    return {
        "rl_module": options.rl_module,
        "env_to_module": options.env_to_module,
        "module_to_env": options.module_to_env,
        "connectors": CONNECTORS if _has_connectors(setup) else None,
    }


def _acting_module(algo: Algorithm, module: str) -> Any:
    """Return a module without the parts that only learning needs."""
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    if algo.env_runner is not None:
        return algo.get_module(module)
    assert algo.learner_group is not None
    learner: Any = algo.learner_group._learner
    spec = RLModuleSpec.from_module(learner.module[module].unwrapped())
    spec.inference_only = True
    return spec.build()


def exploration_rate(schedule: float | Sequence[tuple[int, float]] | None, env_steps: int) -> float | None:
    """Return the share of random actions after these env steps; None for an algorithm without one."""
    if schedule is None or isinstance(schedule, int | float):
        return schedule
    steps, rates = zip(*schedule, strict=True)
    return float(np.interp(env_steps, steps, rates))


def learned_state(algo: Algorithm, module: str) -> Arrays:
    """Return the learner's current weights; those of the runners may be older."""
    assert algo.learner_group is not None
    state: Any = algo.learner_group.get_state(components=f"learner/rl_module/{module}")
    return dict(state["learner"]["rl_module"][module])


def _dense(setup: RllibSetup, policy: PolicyID, state: State, config: ModelConfig) -> DenseNetwork | None:
    agent = setup.agents_of(policy)[0]
    spec = setup.spec
    code = agent_code(spec.observation_spaces[agent], spec.action_spaces[agent], setup.options.picture_size)
    if code.is_picture:
        return None
    return dense_network(setup.algorithm, state, config, code.width, action_code(spec.action_spaces[agent]).head)


def _scalers(
    moments: Mapping[AgentID | None, tuple[NDArray[np.float32], NDArray[np.float32]]], agents: tuple[AgentID, ...]
) -> Arrays:
    """Return the scalers of these agents: RLlib has one filter per agent, or a nameless one."""
    arrays: Arrays = {}
    for agent, (shift, scale) in moments.items():
        if agent is None or agent in agents:
            arrays |= {f"{SHIFT}{agent or ''}": shift, f"{SCALE}{agent or ''}": scale}
    return arrays


def save_dense(path: Path, network: DenseNetwork, scalers: Arrays) -> None:
    from mosaic.models.weights_file import save_weights

    extra = dict(scalers)
    if network.deviations is not None:
        extra |= {
            DEVIATIONS + name: np.ascontiguousarray(array) for name, array in network.deviations._asdict().items()
        }
    save_weights(path, network.architecture, network.flat, extra)


def _save_module(path: Path, state: Arrays, scalers: Arrays) -> None:
    from safetensors.numpy import save_file

    arrays = {MODULE + name: np.ascontiguousarray(array) for name, array in state.items()}
    save_file(arrays | scalers, path)


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
    algorithm: str, state: State, config: ModelConfig, observation: int, head: ActionHead
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


def _activation(config: ModelConfig) -> Activation | None:
    name = str(config["fcnet_activation"])
    mixed = config["head_fcnet_hiddens"] and config["head_fcnet_activation"] != name
    return None if mixed or not config["fcnet_hiddens"] else _ACTIVATIONS.get(name)


def _actor_critic(algorithm: str, state: State) -> tuple[list[Layer], list[Layer]] | None:
    encoder, head = _first_of(state, "encoder.actor_encoder", "encoder.encoder"), "pi"
    if algorithm in SQUASHED:
        encoder = "pi_encoder"
    elif algorithm == "bc":
        encoder, head = "_encoder", "_pi_head"
    policy = _layers(state, encoder)
    if not policy:
        return None
    return policy + _layers(state, head), _critic(algorithm, state)


def _critic(algorithm: str, state: State) -> list[Layer]:
    if algorithm in (*SQUASHED, "bc"):  # values of actions, not of observations, or none: nothing can be queried
        return [Layer(np.zeros((1, 1), np.float32), np.zeros(1, np.float32))] * 2
    if any(name.startswith("critic.") for name in state):
        return _layers(state, "critic.encoder") + _layers(state, "critic.head")
    return _layers(state, _first_of(state, "encoder.critic_encoder", "encoder.encoder")) + _layers(state, "vf")


def _q_network(state: State, config: ModelConfig) -> tuple[list[Layer], list[Layer]] | None:
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
