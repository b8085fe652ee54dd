"""Comparison of the spaces a policy was trained on with those of the env it is to play."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from typing import Any

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID, EnvID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.envs.space_json import Document, space_differences, spec_spaces
from mosaic.policies.controller import PolicyRequest
from mosaic.store.archives.trust import loading, trust_given
from mosaic.store.checkpoint_record import Checkpoint, environment_of


def check_spaces(checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> None:
    """Raise InputError, with the differences, where an agent's spaces are not among those the policy was trained on.

    Agents that an env does not name in advance are not checked here.
    """
    trained = _spaces_of_policy(checkpoint, policy)
    spec = request.spec
    for agent in request.agents:
        if agent not in spec.possible_agents or not trained:
            continue
        here = spec_spaces(spec, (agent,))[agent]
        if here not in trained.values():
            candidates = [trained[agent]] if agent in trained else list(trained.values())
            try:
                found = min((_differences(here, there) for there in candidates), key=len)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise FormatError(
                    f"The checkpoint {checkpoint.path} does not describe its spaces: {error!r}."
                ) from error
            raise InputError(
                f"'{request.reference}' was trained in {_trained_id(checkpoint)} and cannot play {spec.env_id} as "
                f"{agent}, whose spaces differ: {'; '.join(found)}.{_advice(checkpoint, spec)}"
            )


def foreign_env_note(checkpoint: Checkpoint, request: PolicyRequest) -> str | None:
    """Describe how the env differs from the training env, for a policy that can play it since the spaces are equal."""
    trained, here = _trained_in(checkpoint), request.spec.facts.config
    if trained is None:
        return None
    unlike = []
    if not _same_name(trained.id, here.id):
        unlike.append(f"in {trained.id}")
    if dict(trained.options) != dict(here.options):
        unlike.append(f"with the options {_json(trained.options)} instead of {_json(here.options)}")
    if trained.wrappers != here.wrappers:
        unlike.append(
            f"with the wrappers {_json(trained.wrappers)} instead of {_json(here.wrappers)} "
            f"(to play as in training, type: {_wrappers_setting(trained)})"
        )
    if not unlike:
        return None
    return f"'{request.reference}' was trained {' and '.join(unlike)}; it plays {here.id}, whose spaces are equal."


def _spaces_of_policy(checkpoint: Checkpoint, policy: str) -> Mapping[AgentID, Document]:
    """Return the spaces of the agents that the run gave the policy; of all agents where it names none."""
    trained = trained_spaces(checkpoint)
    patterns = [part for entry in checkpoint.manifest.policies[policy].agents for part in entry.split(",")]
    own = {agent: spaces for agent, spaces in trained.items() if any(fnmatchcase(agent, p) for p in patterns)}
    return own or trained


def trained_spaces(checkpoint: Checkpoint) -> Mapping[AgentID, Document]:
    """Return the spaces in the manifest; without them, create the env and query it."""
    if checkpoint.manifest.spaces:
        return checkpoint.manifest.spaces
    config = _trained_in(checkpoint)
    if config is None:
        return {}
    with loading(checkpoint, trust_given()), closing(make_env(config)) as env:
        return spec_spaces(env.spec)


def _differences(here: Document, there: Document) -> list[str]:
    return [
        *space_differences(here["observation"], there["observation"], "its observation"),
        *space_differences(here["action"], there["action"], "its action"),
    ]


def _advice(checkpoint: Checkpoint, spec: EnvSpec) -> str:
    trained, here = _trained_in(checkpoint), spec.facts.config
    if trained is None or not _same_name(trained.id, here.id):
        return ""
    if trained.wrappers != here.wrappers:
        return f" The run was trained with the wrappers {_json(trained.wrappers)}: type {_wrappers_setting(trained)}"
    if dict(trained.options) != dict(here.options):
        return (
            f" The run was trained with the options {_json(trained.options)}: set them with --set environment.options."
        )
    return ""


def _trained_in(checkpoint: Checkpoint) -> EnvironmentConfig | None:
    return environment_of(checkpoint) if checkpoint.manifest.environment else None


def _trained_id(checkpoint: Checkpoint) -> EnvID:
    config = _trained_in(checkpoint)
    return config.id if config else "another env"


def _same_name(one: EnvID, other: EnvID) -> bool:
    """Compare versions only where both have one: a run may have been requested without."""
    (name, version), (other_name, other_version) = split_version(one), split_version(other)
    return name == other_name and (version == other_version or None in (version, other_version))


def _wrappers_setting(config: EnvironmentConfig) -> str:
    return f"--set 'environment.wrappers={_json(config.wrappers)}'"


def _json(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else dict(value), ensure_ascii=False, default=str)
