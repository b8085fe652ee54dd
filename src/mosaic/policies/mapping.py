"""Mapping from agents to policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

from mosaic.core.errors import InputError, nearest
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.user_code import PREFIX, load_code


class MappingError(InputError):
    """Mapping that does not fit an env's agents."""


class ControllerKey(NamedTuple):
    """Key of one controller: all agents that get the same key share it."""

    group: str  # the rule that matched: `red_*`
    policy: PolicyID


class AgentMapping(Protocol):
    """Mapping that gives every agent, including ones that appear later, its controller key in an episode."""

    def key_of(self, agent: AgentID, episode: int) -> ControllerKey: ...

    def check(self, agents: Collection[AgentID]) -> None: ...


@dataclass(frozen=True, slots=True)
class PolicyMapping:
    """Rules (agent pattern, policy); the first match wins, and agents of one rule share a controller.

    A pattern is a name, `red_*`, or several of them separated by commas: `archer_0,knight_*`.
    """

    rules: tuple[tuple[str, PolicyID], ...]

    @classmethod
    def of(cls, rules: Mapping[str, PolicyID] | Iterable[str]) -> PolicyMapping:
        """Build a mapping from {"player_0": "random"} or ["player_0=random", "red_*=minimax"]."""
        pairs = rules.items() if isinstance(rules, Mapping) else map(_parse_rule, rules)
        return cls(tuple(pairs))

    def key_of(self, agent: AgentID, episode: int = 0) -> ControllerKey:
        for pattern, policy in self.rules:
            if _fits(agent, pattern):
                return ControllerKey(pattern, policy)
        raise MappingError(f"No policy for agent '{agent}'. Add --agent {agent}=POLICY or --agent '*=POLICY'.")

    def check(self, agents: Collection[AgentID]) -> None:
        """Check that every agent has a policy and every rule matches an agent.

        Nothing is checked for envs that do not name their agents ahead.
        """
        if agents and not self.rules:
            each = " ".join(f"--agent {agent}=POLICY" for agent in list(agents)[:2])
            raise MappingError(
                f"No agent has a policy. Agents: {', '.join(agents)}. Give each agent one, {each}, or all agents the "
                "same, --agent '*=random'. Type: mosaic policies"
            )
        for pattern in [part for group, _ in self.rules for part in group.split(",")] if agents else ():
            if not any(_fits(agent, pattern) for agent in agents):
                near = nearest(pattern, agents)
                hint = f" Did you mean '{near}'?" if near else ""
                raise MappingError(f"There is no agent '{pattern}'.{hint} Agents: {', '.join(agents)}.")
        for agent in agents:
            self.key_of(agent)


@dataclass(frozen=True, slots=True)
class FunctionMapping:
    """Mapping by `function(agent_id, episode) -> policy`, called at the start of every episode."""

    reference: str
    function: Callable[[AgentID, int], PolicyID]

    def key_of(self, agent: AgentID, episode: int = 0) -> ControllerKey:
        policy = self.function(agent, episode)
        if not isinstance(policy, str):
            raise MappingError(
                f"{self.reference}('{agent}', {episode}) returned {policy!r} instead of a policy's name."
            )
        return ControllerKey(policy, policy)

    def check(self, agents: Collection[AgentID]) -> None:
        for agent in agents:
            self.key_of(agent)


def parse_mapping(texts: Iterable[str]) -> AgentMapping:
    """Parse the values of `--agent`: rules AGENT=POLICY, or one python:module:function."""
    texts = list(texts)
    functions = [text for text in texts if text.startswith(PREFIX) and "=" not in text]
    if not functions:
        return PolicyMapping.of(texts)
    if len(texts) > 1:
        raise MappingError(f"'{functions[0]}' decides for every agent: leave the other --agent options out.")
    function = load_code(functions[0])
    if not callable(function):
        raise MappingError(f"{functions[0]} is a {type(function).__name__}, not a function of (agent_id, episode).")
    return FunctionMapping(functions[0], function)


def _parse_rule(text: str) -> tuple[str, PolicyID]:
    agents, equals, policy = text.partition("=")
    if not (agents and equals and policy):
        raise MappingError(f"'{text}' is not AGENT=POLICY, for example player_0=random or '*=random'.")
    return agents, policy


def _fits(agent: AgentID, pattern: str) -> bool:
    return any(part == agent or fnmatchcase(agent, part) for part in pattern.split(","))
