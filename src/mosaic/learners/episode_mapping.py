"""Mapping functions while training: policies of the agents that change from episode to episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID
from mosaic.policies.mapping import FunctionMapping, parse_mapping

EPISODES_ASKED = 1000  # before a run, to find the names of all policies that the function ever returns


class EpisodeMapping:
    """Function of (agent_id, episode) that gives agents one of several policies; it may be sent to any process."""

    def __init__(self, reference: str, known: Mapping[AgentID, tuple[str, ...]]) -> None:
        self._reference = reference
        self.known = dict(known)  # policies of each agent that learns, in the order of its episodes

    def policy(self, agent: AgentID, episode: int) -> str:
        """Return the policy of an agent; raise if there is no network of that name."""
        policy = self._function.key_of(agent, episode).policy
        if policy not in self.known[agent]:
            raise MosaicError(
                f"{self._reference}('{agent}', {episode}) returned '{policy}', and in the first {EPISODES_ASKED:,} "
                f"episodes it returned {', '.join(self.known[agent])}. Networks are made before training: return all "
                "names in these episodes, or no others later."
            )
        return policy

    @cached_property
    def _function(self) -> FunctionMapping:
        return load_function(self._reference)

    def __reduce__(self) -> tuple[type[EpisodeMapping], tuple[str, dict[AgentID, tuple[str, ...]]]]:
        return EpisodeMapping, (self._reference, self.known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodeMapping) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self._reference)


def load_function(reference: str) -> FunctionMapping:
    mapping = parse_mapping([reference])
    assert isinstance(mapping, FunctionMapping)
    return mapping


def ask_ahead(reference: str, agents: Sequence[AgentID]) -> dict[AgentID, tuple[str, ...]]:
    """Return the policies that the function gives each agent, in the order in which they first play."""
    function = load_function(reference)
    answers = {agent: [_ask(function, agent, episode) for episode in range(EPISODES_ASKED)] for agent in agents}
    return {agent: tuple(dict.fromkeys(policies)) for agent, policies in answers.items()}


def _ask(function: FunctionMapping, agent: AgentID, episode: int) -> str:
    try:
        return function.key_of(agent, episode).policy
    except MosaicError:
        raise
    except Exception as error:
        raise InputError(
            f"{function.reference}('{agent}', {episode}) raised {type(error).__name__}: {error}. It should be a "
            "function of (agent_id, episode) that returns the name of a policy."
        ) from error


def check_varying(reference: str, agent: AgentID, policies: Sequence[str], fixed: Sequence[str]) -> None:
    """Raise InputError if an agent's policy varies and one of them is fixed."""
    if fixed:
        raise InputError(
            f"{reference} gives {agent} different policies in different episodes ({', '.join(sorted(policies))}), and "
            f"'{fixed[0]}' does not learn. While training an agent learns in all episodes, or one fixed policy plays "
            "it in all: return names of policies that learn, or always the same."
        )


class EpisodeAssignment:
    """Policies of the episodes of several envs, which are numbered as they begin: `first`, `first + step`, …."""

    def __init__(
        self, mapping: EpisodeMapping, agents: Sequence[AgentID], names: Sequence[str], first: int = 0, step: int = 1
    ) -> None:
        self._mapping, self._agents, self._names = mapping, agents, {name: number for number, name in enumerate(names)}
        self._first, self._next, self._step = first, first, step

    def begin(self, policy_of: NDArray[np.int64], envs: Iterable[int]) -> None:
        """Write the policies of new episodes of these envs into [env, agent]."""
        for env in envs:
            for number, agent in enumerate(self._agents):
                policy_of[env, number] = self._names[self._mapping.policy(agent, self._next)]
            self._next += self._step

    def skip(self, episodes: int) -> None:
        """Continue after the episodes of earlier attempts."""
        self._next = self._first + episodes
