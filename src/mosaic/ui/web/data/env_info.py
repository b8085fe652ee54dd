"""Facts about an environment that a form needs; the env is created once to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, Incentives, PolicyConfiguration
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
    incentives: Incentives
    shared_reward: bool | None
    spaces: Mapping[AgentID, str]
    policies: Mapping[PolicyConfiguration, Mapping[AgentID, str]]  # which policy each agent trains by default

    @property
    def words(self) -> str:
        count = len(self.agents)
        if count == 1:
            return "1 agent"
        order = f"{count} · {'turn-based' if self.turn_based else 'simultaneous'}" if count else "agents come and go"
        if self.incentives == "unknown":
            return order
        return f"{order} · {describe_incentives(self.incentives, self.shared_reward)}"

    @property
    def card_words(self) -> str:
        """Return the number of agents and their incentives, as short as a card."""
        if self.incentives in ("single", "unknown") or not self.agents:
            return self.words
        return f"{len(self.agents)} · {self.incentives}"

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
    return EnvLook(
        env=env,
        agents=spec.possible_agents,
        turn_based=facts.turn_based,
        competitive=facts.competitive,
        incentives=spec.incentives,
        shared_reward=facts.shared_reward,
        spaces=spaces,
        policies=_policies(spec),
    )


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
