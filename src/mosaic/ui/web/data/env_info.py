"""Facts about an environment that a form needs; the env is created once to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, PolicyConfiguration
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, EnvID
from mosaic.envs.catalog import describe_incentives, entries, make_env
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import EnvEntry
from mosaic.envs.spaces import describe_space


@dataclass(frozen=True, slots=True)
class EnvLook:
    env: EnvID
    agents: tuple[AgentID, ...]
    turn_based: bool
    competitive: bool
    kind: str  # cooperative, competitive, mixed or unknown, and whether the reward is shared
    spaces: Mapping[AgentID, str]
    policies: Mapping[PolicyConfiguration, Mapping[AgentID, str]]  # which policy each agent trains by default

    @property
    def words(self) -> str:
        count = len(self.agents)
        if count == 1:
            return "1 agent"
        order = "turn-based" if self.turn_based else "simultaneous"
        kind = "" if self.kind == "unknown" else f" · {self.kind}"
        return f"{count} · {order}{kind}" if count else f"agents come and go{kind}"

    @property
    def holds_tournaments(self) -> bool:
        return len(self.agents) == 2 and self.competitive


@cache
def catalog() -> tuple[EnvEntry, ...]:
    return tuple(entries())


@cache
def look_at(env: EnvID) -> EnvLook:
    """Create an env and return facts about it; raise if it cannot be created."""
    made = make_env(env)
    try:
        spec = made.spec
    finally:
        made.close()
    seen, done = spec.observation_spaces, spec.action_spaces
    spaces = {
        agent: f"sees {describe_space(seen[agent])}, acts {describe_space(done[agent])}"
        for agent in spec.possible_agents
    }
    facts = spec.facts
    kind = describe_incentives(spec.incentives, facts.shared_reward)
    return EnvLook(env, spec.possible_agents, facts.turn_based, facts.competitive, kind, spaces, _policies(spec))


def _policies(spec: EnvSpec) -> dict[PolicyConfiguration, dict[AgentID, str]]:
    from mosaic.learners.agent_roles import read_agent_roles

    found: dict[PolicyConfiguration, dict[AgentID, str]] = {}
    for paradigm in get_args(PolicyConfiguration):
        config = RunConfig(environment=EnvironmentConfig(env_id=spec.env_id), policy_configuration=paradigm)
        try:
            plan = read_agent_roles(config, spec).plan
        except InputError:
            continue  # this configuration is not possible in this env: there are no rows to fill
        found[paradigm] = {
            agent: plan.names[place] for agent, place in zip(spec.possible_agents, plan.policy_of, strict=True)
        }
    return found
