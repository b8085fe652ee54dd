"""Check of whether a worker can train in an env."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, get_args

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.envs.env import EnvSpec
from mosaic.workers.api import SpaceKind, WorkerCapabilities

_KINDS: dict[type[Space[Any]], SpaceKind] = {
    spaces.Discrete: "discrete",
    spaces.MultiDiscrete: "multi_discrete",
    spaces.MultiBinary: "multi_binary",
    spaces.Box: "box",
    spaces.Dict: "dict",
    spaces.Tuple: "tuple",
}
assert {*_KINDS.values(), "pictures"} == set(get_args(SpaceKind))


def space_kind(space: Space[Any]) -> SpaceKind | None:
    """Return the kind of a space; None for other kinds, such as text and graphs."""
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3):
        return "pictures"
    return next((kind for type_, kind in _KINDS.items() if isinstance(space, type_)), None)


def cares(info: WorkerCapabilities) -> bool:
    """Return whether the env must be inspected: a worker that declares no kinds and no number of agents takes any."""
    return bool(info.max_agents or info.action_kinds or info.observation_kinds)


def check_fit(info: WorkerCapabilities, spec: EnvSpec) -> None:
    """Raise InputError if the worker does not declare that it can train in such an env."""
    agents, most = spec.possible_agents, info.max_agents
    if most is not None and len(agents) > most:
        raise InputError(
            f"The worker {info.name} trains at most {_agents(most)}, and {spec.env_id} has {len(agents)}. "
            "Take an env with fewer, or another worker. Type: mosaic workers"
        )
    _check_kinds(info, spec, "action", info.action_kinds, spec.action_spaces)
    _check_kinds(info, spec, "observation", info.observation_kinds, spec.observation_spaces)


def _check_kinds(
    info: WorkerCapabilities,
    spec: EnvSpec,
    what: str,
    known: Collection[SpaceKind],
    found: Mapping[AgentID, Space[Any]],
) -> None:
    if not known:
        return
    for agent in spec.possible_agents:
        kind = space_kind(found[agent])
        if kind is None or kind not in known:
            raise InputError(
                f"The worker {info.name} cannot train {spec.env_id}: the {what} of '{agent}' is {found[agent]}, "
                f"and it knows {', '.join(known)}. Take another worker. Type: mosaic workers"
            )


def _agents(count: int) -> str:
    return "1 agent" if count == 1 else f"{count} agents"
