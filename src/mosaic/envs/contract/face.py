"""What an Env must show before it is played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.spaces import Space

from mosaic.envs.contract.errors import ContractError, Place
from mosaic.envs.env import Env, EnvSpec

_NAMES = (
    "spec", "possible_agents", "agents", "observation_spaces", "action_spaces", "reset", "step", "render", "close",
)  # fmt: skip


def check_face(env: Any) -> Env:
    """The same object, if it looks like an Env."""
    missing = [name for name in _NAMES if not hasattr(env, name)]
    spec = getattr(env, "spec", None)
    if missing or not isinstance(spec, EnvSpec):
        raise ContractError(
            Place(type(env).__name__),
            f"it lacks {', '.join(missing)}" if missing else f"its spec is a {type(spec).__name__}",
            f"an Env has {', '.join(_NAMES)}, and spec is an EnvSpec",
            "mosaic.envs.adapters.user.adapt makes an Env of a Gymnasium or PettingZoo env; see mosaic.envs.env for your own",
        )
    place = Place(spec.env_id)
    agents = env.possible_agents
    if not isinstance(agents, tuple) or not all(isinstance(a, str) for a in agents) or len({*agents}) < len(agents):
        raise ContractError(
            place,
            f"possible_agents is {agents!r}",
            "possible_agents is a tuple of different names, each a str",
            "name agents with text such as 'player_0'; () says that they cannot be named ahead",
        )
    _check_spaces(place, "observation_spaces", env.observation_spaces, agents)
    _check_spaces(place, "action_spaces", env.action_spaces, agents)
    parts = (spec.possible_agents, spec.observation_spaces, spec.action_spaces)
    if parts != (agents, env.observation_spaces, env.action_spaces):
        raise ContractError(
            place,
            "spec differs from possible_agents, observation_spaces or action_spaces",
            "spec says the same as the env's own attributes",
            "build spec from those attributes",
        )
    checked: Env = env
    return checked


def _check_spaces(place: Place, name: str, found: Any, agents: tuple[str, ...]) -> None:
    for agent in agents:
        space = found.get(agent) if isinstance(found, Mapping) else None
        if not isinstance(space, Space):
            raise ContractError(
                place,
                f"{name} holds {type(space).__name__} for it",
                f"{name} maps every possible agent to a gymnasium.spaces.Space",
                f"fill {name} when the env is made",
                agent,
            )
