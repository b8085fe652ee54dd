"""Presets: options known to work well for an env, from files in mosaic/presets, each with its evidence."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field

from mosaic.config.run import RunConfig
from mosaic.config.sections import Section
from mosaic.core.ids import EnvID


class Backing(Section):
    """Evidence behind a preset."""

    command: str = Field(description="Command that was run.")
    seeds: int = Field(ge=1, description="Number of seeds.")
    result: str = Field(description="Result, and the machine it was measured on.")


class Preset(Section):
    env: EnvID
    worker: str = "native"
    algorithm: str = "ppo"
    total_timesteps: int = Field(ge=1)
    num_envs: int | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    backing: Backing


@cache
def presets() -> tuple[Preset, ...]:
    folder = files("mosaic.presets")
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".toml")), key=lambda item: item.name)
    return tuple(Preset.model_validate(tomllib.loads(item.read_text())) for item in found)


def presets_of(env: EnvID) -> tuple[Preset, ...]:
    from mosaic.envs.family import split_version  # imports gymnasium, which clients of a server do without

    name = split_version(env)[0]
    return tuple(preset for preset in presets() if split_version(preset.env)[0] == name)


def find_preset(env: EnvID, worker: str, algorithm: str) -> Preset | None:
    matching = (preset for preset in presets_of(env) if (preset.worker, preset.algorithm) == (worker, algorithm))
    return next(matching, None)


def departures(config: RunConfig, preset: Preset, usual: str | None) -> list[str]:
    """Return the settings in which a configuration differs from what was tested for a preset: its result may differ.

    `usual` is the policy configuration that a run in this env has by default.
    """
    training, environment = config.training, config.environment
    differs = {
        "agents": bool(config.agents),
        "policy_configuration": config.policy_configuration not in (None, usual),
        "environment.options": bool(environment.options),
        "environment.wrappers": bool(environment.wrappers),
        "environment.num_envs": environment.num_envs not in (None, preset.num_envs),
        "training.total_timesteps": (training.total_timesteps or preset.total_timesteps) < preset.total_timesteps,
        "training.episodes": training.episodes is not None,
        "training.init": training.init is not None,
    }
    params = {f"training.params.{name}": preset.params.get(name) != value for name, value in training.params.items()}
    return [name for name, changed in (differs | params).items() if changed]


def with_preset(config: RunConfig, worker: str, algorithm: str) -> RunConfig:
    """Return the configuration with tuned options wherever it sets none itself."""
    preset = find_preset(config.environment.id, worker, algorithm) if config.training.preset else None
    if preset is None:
        return config
    training = config.training
    changes: dict[str, object] = {"params": {**preset.params, **training.params}}
    if training.total_timesteps is None and training.episodes is None:
        changes["total_timesteps"] = preset.total_timesteps
    environment = config.environment
    if environment.num_envs is None:
        environment = environment.model_copy(update={"num_envs": preset.num_envs})
    return config.model_copy(update={"training": training.model_copy(update=changes), "environment": environment})
