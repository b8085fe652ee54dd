"""Checks of a run configuration that apply to every worker.

Settings that a worker does not honour are refused, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import reduce
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mosaic.config.run import RunConfig
from mosaic.config.sections import INTERVALS, CheckpointConfig
from mosaic.config.validation import list_settings
from mosaic.core.errors import InputError
from mosaic.core.machine import count_gpus
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.reference import split_reference
from mosaic.telemetry.sinks.base import sink_factory
from mosaic.workers.api import ChecksRuns, ExportsPolicies, ResourceName, Worker, WorkerCapabilities

if TYPE_CHECKING:
    from mosaic.envs.env import EnvSpec


_MAPPING = ("agents", "policies_to_train", "evaluation.opponents")


def check_ahead(worker: Worker, config: RunConfig) -> None:
    """Raise InputError for what can be checked without the env: mirrors, resources, and rules that no worker reads."""
    for name in config.telemetry.mirrors:
        sink_factory(name)
    check_resources(worker, config)
    if not worker.info.agent_mapping:
        _refuse_mapping(worker.info, config)
    _refuse_unhonoured(worker, config)
    if config.export.wanted:
        _check_export(config)


def check_resources(worker: Worker, config: RunConfig) -> None:
    """Raise InputError for settings of `resources`, and for a number of envs, that the worker does not support."""
    info, resources = worker.info, config.resources
    for name, value in unmet_resources(info, config).items():
        met = ", ".join(map(_path, info.resources)) or "none of these settings"
        raise InputError(
            f"The worker {info.name} cannot meet {_path(name)}={value}; it meets {met}. "
            "Leave it out, or train with another worker. Type: mosaic workers"
        )
    if resources.num_gpus and not isinstance(worker, ChecksRuns):
        there = count_gpus()
        if resources.num_gpus > there:
            raise InputError(
                f"The run asks for {resources.num_gpus:g} GPUs and this machine has {there}. "
                "Set resources.num_gpus lower."
            )


def unhonoured_settings(worker: Worker) -> dict[str, str]:
    """Return settings outside `resources` that the worker does not honour, with the reason."""
    info, refused = worker.info, dict(worker.info.refuses)
    if not info.evaluates:
        refused |= dict.fromkeys(
            ("evaluation.every_steps", "evaluation.episodes", "evaluation.opponents"), "it does not evaluate policies"
        )
    if not info.agent_mapping:
        refused |= dict.fromkeys(_MAPPING, "it itself decides which policy plays each agent")
    if not info.curriculum:
        refused["environment.curriculum"] = "it trains in the same env from beginning to end"
    if not info.policy_options:
        refused["training.policies"] = "all its policies have the same settings"
    if not info.init:
        refused["training.init"] = "it always starts with new weights"
    if not info.checkpoints:
        saves = getattr(worker, "resumes_what_was_saved", False)  # announced ones are kept as configured
        names = (*INTERVALS, "at_end") if saves else CheckpointConfig.model_fields
        why = "the program decides when it saves" if saves else "it does not save checkpoints"
        refused |= {f"checkpoint.{name}": why for name in names}
    if not isinstance(worker, ExportsPolicies):
        refused |= dict.fromkeys(("export.at_end", "export.on_best"), "its policies cannot be exported")
    return refused


def _check_export(config: RunConfig) -> None:
    """Raise InputError for exports that would all fail: packages that are missing, versions that do not exist."""
    from mosaic.exports.export import check_settings, settings_of

    check_settings(settings_of(config.export))
    if config.export.at_end and not config.checkpoint.at_end:
        raise InputError(
            "export.at_end=true exports the checkpoint of the end, and checkpoint.at_end is false. "
            "Set checkpoint.at_end to true, or leave export.at_end out."
        )


def _refuse_unhonoured(worker: Worker, config: RunConfig) -> None:
    """Raise InputError for a setting that is not its default and that the worker does not honour."""
    refused = unhonoured_settings(worker)
    for name, value in changed_from_default(config, refused).items():
        shown = json.dumps(value, default=_plain) if not isinstance(value, str) else value
        others = [each for each in plugins("mosaic.workers") if each != worker.info.name and _honours(each, name)]
        exist = f" Workers that honour it: {', '.join(others)}." if others else ""
        raise InputError(
            f"The worker {worker.info.name} cannot honour {name}={shown}: {refused[name]}.{exist} "
            "Leave it out, or train with another worker. Type: mosaic workers"
        )


def _plain(value: object) -> object:
    return value.model_dump(exclude_defaults=True) if isinstance(value, BaseModel) else list(value)  # type: ignore[call-overload]


def changed_from_default(config: RunConfig, names: Collection[str]) -> dict[str, object]:
    """Return those of the named settings that are not at their default, with their values."""
    changed: dict[str, object] = {}
    for name, field in list_settings(RunConfig):
        value = reduce(getattr, name.split("."), config)
        if name in names and value != field.get_default(call_default_factory=True):
            changed[name] = value
    return changed


def _honours(name: str, setting: str) -> bool:
    worker: Worker = load_plugin("mosaic.workers", name)
    return setting not in unhonoured_settings(worker)


def unmet_resources(info: WorkerCapabilities, config: RunConfig) -> dict[ResourceName, object]:
    """Return the requested settings that the worker does not declare to support, with their values."""
    return {name: value for name, value in _asked(config).items() if name not in info.resources}


def check_in_env(worker: Worker, config: RunConfig, spec: EnvSpec) -> None:
    """Raise InputError if rules and opponents do not fit the agents of the env."""
    from mosaic.learners.agent_roles import read_mapping
    from mosaic.learners.opponents import check_played, check_players

    if worker.info.agent_mapping and not isinstance(worker, ChecksRuns):
        check_played(read_mapping(config, spec).every_played, spec)
    if config.export.wanted and config.export.target == "godot":
        _check_plug_in(config, spec)
    opponents = config.evaluation.opponents
    if opponents and len(spec.possible_agents) == 1:
        raise InputError(f"evaluation.opponents: {spec.env_id} has one agent, and no opponent. Leave it out.")
    for reference in opponents:
        if split_reference(reference)[0] == "human":
            raise InputError("evaluation.opponents: a person cannot play while a policy trains. Name another policy.")
    check_players(opponents, spec)


def _check_plug_in(config: RunConfig, spec: EnvSpec) -> None:
    from mosaic.exports.godot import check_plug_in
    from mosaic.learners.agent_roles import read_mapping

    for agent in read_mapping(config, spec).learners:
        spaces = spec.observation_spaces[agent], spec.action_spaces[agent]
        check_plug_in(f"export.target=godot: a policy of {spec.env_id}", *spaces, masked=False, memory=0)


def _path(name: ResourceName) -> str:
    return f"environment.{name}" if name == "num_envs" else f"resources.{name}"


def _asked(config: RunConfig) -> dict[ResourceName, object]:
    """Return settings that need a worker's support; one process with one env on one core needs none."""
    asked: dict[ResourceName, object] = {}
    resources = config.resources
    if config.environment.num_envs not in (None, 1):
        asked["num_envs"] = config.environment.num_envs
    if resources.num_env_runners not in (None, 1):
        asked["num_env_runners"] = resources.num_env_runners
    if resources.num_gpus:
        asked["num_gpus"] = f"{resources.num_gpus:g}"
    if resources.num_cpus != 1:
        asked["num_cpus"] = resources.num_cpus
    if resources.runtime not in (None, "single"):
        asked["runtime"] = resources.runtime
    if resources.ray_address is not None:
        asked["ray_address"] = resources.ray_address
    return asked


def maps_agents(config: RunConfig) -> bool:
    """Return whether the run assigns policies to agents, which can only be checked against the agents of the env."""
    return bool(_mapping_settings(config))


def _mapping_settings(config: RunConfig) -> list[str]:
    given = {
        "agents (--agent)": config.agents,
        "policies_to_train": config.policies_to_train,
        "evaluation.opponents": config.evaluation.opponents,
    }
    return [name for name, value in given.items() if value]


def _refuse_mapping(info: WorkerCapabilities, config: RunConfig) -> None:
    for name in _mapping_settings(config):
        raise InputError(
            f"The worker {info.name} itself decides which policy plays each agent, and cannot honour {name}. "
            "Leave it out, or train with another worker. Type: mosaic workers"
        )
