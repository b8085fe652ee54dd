"""Mapping functions while training: policies of the agents that change from episode to episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID
from mosaic.policies.mapping import FunctionMapping, parse_mapping
from mosaic.runners.fixed_policies import EpisodeNumbers

EPISODES_ASKED = 1000  # before a run, to find the names of all policies that the function ever returns


class EpisodeMapping:
    """Function of (agent_id, episode) that gives agents one of several policies; it may be sent to any process.

    The policies of an agent all learn, or none of them does.
    """

    def __init__(self, reference: str, known: Mapping[AgentID, tuple[str, ...]]) -> None:
        self._reference = reference
        self.known = dict(known)  # policies of each agent, in the order of its episodes

    def policy(self, agent: AgentID, episode: int) -> str:
        """Return the policy of an agent; raise if there is no network of that name."""
        policy = self._function.key_of(agent, episode).policy
        if policy not in self.known[agent]:
            raise MosaicError(
                f"{self._reference}('{agent}', {episode}) returned '{policy}', and in the first {EPISODES_ASKED:,} "
                f"episodes it returned {', '.join(self.known[agent])}. Networks are made and policies are checked "
                "before training: return all names in these episodes, or no others later."
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
    """Raise InputError if an agent learns in some episodes only, or is played by a snapshot in some only."""
    learned = [policy for policy in policies if policy not in fixed]
    if snapshots := [policy for policy in policies if policy.startswith("self@")]:
        raise InputError(
            f"{reference} gives {agent} '{snapshots[0]}' in some episodes only ({', '.join(sorted(policies))}). A "
            "snapshot of the learner plays an agent in all episodes or in none. For several opponents in turns, leave "
            f"--agent out and type: --policies self_play --set training.params.opponents='[\"{snapshots[0]}\"]'"
        )
    if fixed and learned:
        raise InputError(
            f"{reference} gives {agent} the policy '{learned[0]}', which learns, in some episodes, and '{fixed[0]}', "
            "which does not, in others. An agent either learns or is a part of the learners' env, in the whole run. "
            f"Return policies that learn for {agent} in all episodes, or fixed ones in all; which one may change. To "
            "learn the role of every agent against fixed opponents, type: --worker native --policies self_play "
            f"--set training.params.opponents='[\"{fixed[0]}\"]'"
        )


class EpisodeAssignment:
    """Policies of the learners in the episodes of several envs, which are numbered as they begin."""

    def __init__(
        self, mapping: EpisodeMapping, agents: Sequence[AgentID], names: Sequence[str], numbers: EpisodeNumbers
    ) -> None:
        self._mapping, self._agents, self._names = mapping, agents, {name: number for number, name in enumerate(names)}
        self._numbers = numbers

    def begin(self, policy_of: NDArray[np.int64], envs: Iterable[int]) -> None:
        """Write the policies of new episodes of these envs into [env, agent]."""
        for env in envs:
            episode = self._numbers.next(env)
            for number, agent in enumerate(self._agents):
                policy_of[env, number] = self._names[self._mapping.policy(agent, episode)]
