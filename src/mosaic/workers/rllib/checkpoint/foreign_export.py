"""Conversion of checkpoints that RLlib wrote without Mosaic into Mosaic's files, from which they are exported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.connectors import env_to_module, module_to_env
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from safetensors.numpy import save_file

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.envs.vector.encoding import action_code
from mosaic.exports.observations import draw
from mosaic.models.fused import OBSERVATION_LIMIT
from mosaic.policies.controller import PolicyRequest
from mosaic.store.checkpoint_record import PolicyEntry
from mosaic.store.policies.foreign_checkpoint import ForeignSource
from mosaic.workers.rllib.checkpoint.controllers import (
    FACTS,
    FORMAT,
    MODULE,
    SCALE,
    SHIFT,
    ModelConfig,
    PolicyFacts,
    load_policy,
)
from mosaic.workers.rllib.checkpoint.export import dense_network, save_dense
from mosaic.workers.rllib.checkpoint.foreign import (
    ForeignModule,
    check_algorithm,
    find_parts,
    load_module,
    modules_by_agent,
)
from mosaic.workers.rllib.checkpoint.foreign_controller import ForeignController, check_spaces
from mosaic.workers.rllib.config.support import MASKLESS
from mosaic.workers.rllib.env.encoding import PICTURE_SIZE, agent_code
from mosaic.workers.rllib.learner.modules import algorithm_of, module_class
from mosaic.workers.rllib.reporting.log_filter import keep_quiet

_COMPARED = 200  # observations of each agent on which the files are compared with RLlib's own inference
_FILTER = env_to_module.MeanStdFilter
_DEFAULTS = (
    env_to_module.AddObservationsFromEpisodesToBatch,
    env_to_module.AddTimeDimToBatchAndZeroPad,
    env_to_module.AddStatesFromEpisodesToBatch,
    env_to_module.AgentToModuleMapping,
    env_to_module.BatchIndividualItems,
    env_to_module.NumpyToTensor,
    module_to_env.GetActions,
    module_to_env.TensorToNumpy,
    module_to_env.UnBatchToIndividualItems,
    module_to_env.ModuleToAgentUnmapping,
    module_to_env.RemoveSingleTsTimeRankFromBatch,
    module_to_env.NormalizeAndClipActions,
    module_to_env.ListifyDataForVectorEnv,
)


def convert_folder(source: ForeignSource, folder: Path, request: PolicyRequest) -> dict[str, PolicyEntry]:
    """Write the modules that play the env's agents as a run writes its policies, and compare them with RLlib."""
    keep_quiet()
    parts = find_parts(source.path)
    assert parts is not None, "foreign_policies recognised the folder"
    check_algorithm(parts, source)
    named = source.policy is not None or parts.asked is not None
    facts: dict[str, PolicyFacts] = {}
    filtered: dict[str, bool] = {}
    loaded: dict[str, dict[AgentID, ForeignModule]] = {}
    for number, (name, agents) in enumerate(modules_by_agent(parts, source, request.agents).items()):
        found = {agent: load_module(parts, name, agent) for agent in agents}
        loaded[name] = _fitting(found, request, named=named)
        facts[name] = _save(folder, f"policy_{number}.safetensors", loaded[name], request)
        filtered[name] = any(_connectors(each.to_module, _FILTER) for each in loaded[name].values())
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, "policies": facts}, indent=1))
    for name, modules in loaded.items():
        _compare(folder, name, modules, request)
    return {
        name: PolicyEntry(
            files=(FACTS, each["file"]),
            agents=tuple(each["agents"]),
            stochastic=each["algorithm"] != "dqn",
            normalized=filtered[name],
        )
        for name, each in facts.items()
    }


def _fitting(
    found: Mapping[AgentID, ForeignModule], request: PolicyRequest, *, named: bool
) -> dict[AgentID, ForeignModule]:
    """Return the agents that the module can play: all of them, or those that fit where the user named the module."""
    fitting: dict[AgentID, ForeignModule] = {}
    problems: list[InputError] = []
    for agent, each in found.items():
        try:
            check_spaces(each, agent, request)
        except InputError as error:
            problems.append(error)
        else:
            fitting[agent] = each
    if problems and not (named and fitting):
        raise problems[0]
    return fitting


def _save(folder: Path, file: str, modules: Mapping[AgentID, ForeignModule], request: PolicyRequest) -> PolicyFacts:
    agent, loaded = next(iter(modules.items()))
    single, reference = loaded.single, request.reference
    algorithm = algorithm_of(single)
    if algorithm is None:
        raise InputError(
            f"'{reference}' acts with a user's own RLModule, {_class_name(single)}: Python code that a file cannot "
            "hold. RLlib's default networks can be exported."
        )
    _check_connectors(loaded, reference)
    seen, acts = request.spec.observation_spaces[agent], request.spec.action_spaces[agent]
    _check_rows(seen, acts, reference)
    code, config = agent_code(seen, acts), _model_config(single, reference)
    network = module_class(algorithm)(
        observation_space=code.observation_space,
        action_space=code.action_space,
        inference_only=True,
        model_config=dict(config),
    )
    state = single.get_state()
    for name, array in network.get_state().items():
        if name not in state or np.shape(state[name]) != np.shape(array):
            raise InputError(f"'{reference}' has another network than RLlib's default: its weights '{name}' differ.")
    scalers = _scalers(modules, reference)
    head = action_code(acts).head  # RLlib's dueling Q-network has a mean that ONNX lacks; the dense form does without
    dense = dense_network(algorithm, state, config, code.width, head) if algorithm == "dqn" else None
    if dense is None:
        arrays = {MODULE + name: np.ascontiguousarray(state[name]) for name in network.get_state()}
        save_file(arrays | scalers, folder / file)
    else:
        save_dense(folder / file, dense, scalers)
    finish = _connectors(loaded.to_env, module_to_env.NormalizeAndClipActions)
    return {
        "file": file,
        "dense": dense is not None,
        "agents": list(modules),
        "algorithm": algorithm,
        "model_config": config,
        "masked": bool(code.choices) and algorithm not in MASKLESS,
        "picture_size": PICTURE_SIZE,
        "normalize_actions": any(each.normalize_actions for each in finish),
        "clip_actions": any(each.clip_actions for each in finish),
        "epsilon": None,
        "code": None,
    }


def _check_connectors(loaded: ForeignModule, reference: str) -> None:
    """Raise InputError for a connector whose work is not part of the files."""
    for connector in (*loaded.to_module.connectors, *loaded.to_env.connectors):
        if type(connector) is not _FILTER and type(connector) not in _DEFAULTS:
            raise InputError(
                f"'{reference}' acts through the connector {_class_name(connector)}, Python code that a file cannot "
                "hold. Of RLlib's connectors the default ones and MeanStdFilter can be exported."
            )
    filters = _connectors(loaded.to_module, _FILTER)
    if len(filters) > 1:
        raise InputError(f"'{reference}' normalises observations with {len(filters)} filters; one can be exported.")
    for each in filters:
        if each.clip_by_value != OBSERVATION_LIMIT:
            raise InputError(
                f"The MeanStdFilter of '{reference}' has clip_by_value={each.clip_by_value}; files are clipped to "
                f"±{OBSERVATION_LIMIT:g}, RLlib's default, and it cannot be exported."
            )


def _check_rows(seen: spaces.Space[Any], acts: spaces.Space[Any], reference: str) -> None:
    """Raise InputError for spaces that RLlib and Mosaic show to a network in different ways."""
    rows = isinstance(seen, spaces.Box) and len(seen.shape) == 1 and np.issubdtype(seen.dtype, np.floating)
    if not rows:
        raise InputError(
            f"'{reference}' sees {seen}. Of RLlib's own checkpoints those can be exported that see rows of numbers, "
            "such as Box(-1, 1, (4,), float32)."
        )
    if not _is_plain(acts):
        raise InputError(
            f"'{reference}' acts in {acts}. Of RLlib's own checkpoints those can be exported that act in Discrete or "
            "MultiDiscrete from 0, or a Box of float32 with one axis."
        )


def _is_plain(acts: spaces.Space[Any]) -> bool:
    if isinstance(acts, spaces.Discrete):
        return int(acts.start) == 0
    if isinstance(acts, spaces.MultiDiscrete):
        return len(acts.shape) == 1 and not np.any(acts.start)
    return isinstance(acts, spaces.Box) and len(acts.shape) == 1 and acts.dtype == np.float32


def _model_config(module: Any, reference: str) -> ModelConfig:
    """Return the settings of a network, completed by RLlib's defaults; how it was initialised no longer counts."""
    own = module.model_config
    given = asdict(own) if is_dataclass(own) and not isinstance(own, type) else dict(own or {})
    settings = {name: value for name, value in given.items() if "initializer" not in name}
    try:
        found: ModelConfig = json.loads(json.dumps(asdict(DefaultModelConfig()) | settings))
    except TypeError as error:
        raise InputError(f"The network of '{reference}' has settings that a file cannot hold: {error}.") from error
    return found


def _scalers(modules: Mapping[AgentID, ForeignModule], reference: str) -> dict[str, NDArray[np.float32]]:
    """Return shift and scale of observations: one for all, or of each agent where RLlib's env had several."""
    arrays: dict[str, NDArray[np.float32]] = {}
    for agent, loaded in modules.items():
        for each in _connectors(loaded.to_module, _FILTER):
            found = each._filters.get(loaded.agent)
            if found is None:
                raise InputError(f"The MeanStdFilter of '{reference}' knows no agent '{loaded.agent}'.")
            stats, name = found.running_stats, agent if loaded.agent is not None else ""
            shift = stats.mean if found.demean else np.zeros_like(stats.mean)
            scale = 1 / (stats.std + 1e-8) if found.destd else np.ones_like(stats.mean)  # RLlib adds 1e-8
            arrays |= {SHIFT + name: np.asarray(shift, np.float32), SCALE + name: np.asarray(scale, np.float32)}
    return arrays


def _compare(folder: Path, name: str, modules: Mapping[AgentID, ForeignModule], request: PolicyRequest) -> None:
    """Raise InputError if the files choose other actions than RLlib's module with RLlib's connectors."""
    for agent, loaded in modules.items():
        alone = replace(request, agents=(agent,), sampling=None)
        theirs, ours = ForeignController(loaded, alone, best=True), load_policy(folder, name, alone)
        for sample in draw(request.spec, (agent,), _COMPARED, masked=False):
            if sample.first:
                theirs.begin((agent,), 0)
                ours.begin((agent,), 0)
            wanted, found = theirs.act(sample.turn)[agent], ours.act(sample.turn)[agent]
            if not np.allclose(np.asarray(wanted, float), np.asarray(found, float), rtol=1e-3, atol=1e-4):
                raise InputError(
                    f"'{request.reference}' cannot be exported: for '{agent}', RLlib chooses {wanted} and the "
                    f"converted network {found}."
                )


def _connectors(pipeline: Any, kind: type[Any]) -> Sequence[Any]:
    return [each for each in pipeline.connectors if type(each) is kind]


def _class_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
