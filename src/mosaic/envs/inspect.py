"""Description of an env, read by making and closing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium.spaces import Space

from mosaic.core.ids import AgentID, EnvID
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.registry import has_kernel
from mosaic.envs.family import EnvEntry
from mosaic.envs.spaces import describe_space


@dataclass(frozen=True, slots=True)
class EnvDescription:
    """An entry of `mosaic envs`; texts are empty if the env is not installed."""

    id: EnvID
    installed: bool
    install: str | None
    agents: tuple[AgentID, ...] = ()
    turn_based: bool = False
    competitive: bool = False
    reproducible: bool = True
    observation: str = ""
    action: str = ""
    compiled_twin: bool = False


def inspect_env(entry: EnvEntry) -> EnvDescription:
    if not entry.installed:
        return EnvDescription(entry.id, False, entry.install)
    env = make_env(entry.id)
    try:
        facts = env.spec.facts
        return EnvDescription(
            entry.id,
            True,
            None,
            env.possible_agents,
            facts.turn_based,
            facts.competitive,
            facts.reproducible,
            _of_all(env.observation_spaces, env.possible_agents),
            _of_all(env.action_spaces, env.possible_agents),
            has_kernel(entry.id),
        )
    finally:
        env.close()


def _of_all(spaces: Mapping[AgentID, Space[Any]], agents: Iterable[AgentID]) -> str:
    """Describe the space, or the different spaces, of the agents."""
    return " or ".join(dict.fromkeys(describe_space(spaces[agent]) for agent in agents))
