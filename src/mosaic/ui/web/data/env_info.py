"""Facts about an environment that a form needs; the env is created once to read them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, Incentives, PolicyConfiguration
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.plugins import plugins
from mosaic.envs.catalog import describe_incentives, entries, make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.family import EnvEntry
from mosaic.envs.shared_env import sharing_envs
from mosaic.envs.spaces import describe_space
from mosaic.workers.api import ChoosesAlgorithm
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import default_algorithm


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
    def full_words(self) -> str:
        """Return the same where nothing beside it says that the number is one of agents."""
        return self.words.replace(" ", " agents ", 1) if len(self.agents) > 1 else self.words

    @property
    def card_words(self) -> str:
        """Return the number of agents and their incentives, as short as a card."""
        if self.incentives in ("single", "unknown") or not self.agents:
            return self.words
        return f"{len(self.agents)} · {self.incentives}"

    @property
    def holds_tournaments(self) -> bool:
        return len(self.agents) == 2 and self.competitive


@dataclass(frozen=True, slots=True)
class EnvOffer:
    """Facts about an env, None where they are not known, and the algorithms that workers choose for it."""

    look: EnvLook | None
    usual: Mapping[str, str]


@cache
def catalog() -> tuple[EnvEntry, ...]:
    return tuple(entries())


_MAKING = threading.Lock()


def make_alone(env: EnvID) -> Env:
    """Make an env while no other thread of the pages does: two that load MuJoCo at once would end the process."""
    with _MAKING:
        return make_env(env)


@cache
def look_at(env: EnvID) -> EnvLook:
    """Create an env and return facts about it; raise if it cannot be created."""
    made = make_alone(env)
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


@cache
def usual_algorithms(env: EnvID) -> Mapping[str, str]:
    """Return the default algorithm of each worker that chooses one for the env; this resets an env."""
    config, found = RunConfig(environment=EnvironmentConfig(env_id=env)), {}
    with sharing_envs():
        for name in plugins("mosaic.workers"):
            try:
                worker = load_worker(name)
                if isinstance(worker, ChoosesAlgorithm):
                    found[name] = default_algorithm(worker, config)
            except (MissingExtraError, InputError):
                continue  # it cannot train here at all, as its check will say
    return found


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
