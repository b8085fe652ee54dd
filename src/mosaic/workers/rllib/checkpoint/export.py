"""Export of RLlib's policies to files that play without Ray."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.vector.encoding import action_code
from mosaic.workers.rllib.checkpoint.dense import DenseNetwork, dense_network
from mosaic.workers.rllib.checkpoint.names import DEVIATIONS, FACTS, FORMAT, MODULE, SCALE, SHIFT
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.env.encoding import agent_code
from mosaic.workers.rllib.env.filters import filter_moments

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

Arrays: TypeAlias = dict[str, NDArray[Any]]


def policy_files(setup: RllibSetup, policy: PolicyID) -> tuple[str, ...]:
    """Return the files of a policy, relative to the folder that it is exported to."""
    return FACTS, f"policy_{list(setup.modules).index(policy)}.safetensors"


def export_policies(folder: Path, setup: RllibSetup, algo: Algorithm, env_steps: int = 0) -> None:
    """Write one file of weights per policy, and one document about them all; `env_steps` were trained so far."""
    assert algo.env_runner is not None
    modules = {module: algo.get_module(module) for module in setup.modules.values()}
    states = {module: learned_state(algo, module) for module in modules}
    export_modules(folder, setup, modules, states, algo.env_runner._env_to_module, env_steps)


def export_modules(
    folder: Path,
    setup: RllibSetup,
    modules: Mapping[str, Any],
    states: Mapping[str, Arrays],
    connectors: Any,
    env_steps: int = 0,
) -> None:
    """Write files from modules and states.

    `modules` are a runner's, without the parts that only learning needs; `states` are the learner's.
    """
    moments = filter_moments(connectors)
    facts: dict[PolicyID, Any] = {}
    for policy, name in setup.modules.items():
        module, state = modules[name], states[name]
        config: dict[str, Any] = json.loads(json.dumps(dict(module.model_config)))
        dense = _dense(setup, policy, state, config)
        agents = setup.agents_of(policy)
        scalers = _scalers(moments, agents)
        _, file = policy_files(setup, policy)
        if dense is None:
            _save_module(folder / file, {key: state[key] for key in module.state_dict()}, scalers)
        else:
            _save_dense(folder / file, dense, scalers)
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
        }
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, "policies": facts}, indent=1))


def exploration_rate(schedule: Any, env_steps: int) -> float | None:
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


def _dense(
    setup: RllibSetup, policy: PolicyID, state: Mapping[str, Any], config: Mapping[str, Any]
) -> DenseNetwork | None:
    agent = setup.agents_of(policy)[0]
    spec = setup.spec
    seat = agent_code(spec.observation_spaces[agent], spec.action_spaces[agent], setup.options.picture_size)
    if seat.is_picture:
        return None
    return dense_network(setup.algorithm, state, config, seat.width, action_code(spec.action_spaces[agent]).head)


def _scalers(
    moments: Mapping[AgentID | None, tuple[NDArray[np.float32], NDArray[np.float32]]], agents: tuple[AgentID, ...]
) -> Arrays:
    """Return the scalers of these agents: RLlib has one filter per agent, or a nameless one."""
    arrays: Arrays = {}
    for agent, (shift, scale) in moments.items():
        if agent is None or agent in agents:
            arrays |= {f"{SHIFT}{agent or ''}": shift, f"{SCALE}{agent or ''}": scale}
    return arrays


def _save_dense(path: Path, network: DenseNetwork, scalers: Arrays) -> None:
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
