"""Controllers for the agents that do not learn, within a vector env."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.lazy import Lookup
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Mask, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec
from mosaic.envs.spaces import objection
from mosaic.policies.controller import PolicyController, PolicyError, PolicyTimeoutError
from mosaic.policies.registry import load_policy

PolicyOfEpisode: TypeAlias = Callable[[AgentID, int], PolicyID]  # (agent, number of the episode)


class EpisodeNumbers(Protocol):
    """Numbers of the episodes of several envs."""

    def next(self, env: int) -> int: ...  # of the episode that this env begins


class EnvEpisodes:
    """Numbers over all envs of a run: the k-th episode of env i of n is number `first + k * n + i`.

    Two places that count the same episodes agree on their numbers without asking each other. `first` also contains the
    number of the first env if several vectors share the n envs.
    """

    def __init__(self, envs: int, first: int = 0) -> None:
        self._envs, self._first = envs, first
        self._begun: dict[int, int] = {}  # by env

    def next(self, env: int) -> int:
        before = self._begun.get(env, 0)
        self._begun[env] = before + 1
        return self._first + before * self._envs + env


@dataclass(frozen=True, slots=True)
class ChangingPolicies:
    """Fixed policies that change from episode to episode."""

    policy: PolicyOfEpisode
    numbers: EpisodeNumbers


class ControllerOthers:
    """Controllers of the fixed policies, separate for every env and created when it first plays.

    `policies` play in every env, `by_env` additionally in the envs with these numbers. With `changing` its policies
    take the places of `policies` in each episode.
    """

    def __init__(
        self,
        spec: EnvSpec,
        policies: Mapping[AgentID, PolicyID],
        seed: int,
        by_env: Mapping[int, Mapping[AgentID, PolicyID]] | None = None,
        changing: ChangingPolicies | None = None,
        elsewhere: Sequence[AgentID] = (),
    ) -> None:
        """Agents in `elsewhere` do not learn either, and something else acts for them."""
        self.agents, self._changing = (*policies, *elsewhere), changing
        self._spec, self._policies, self._seed = spec, dict(policies), seed
        self._by_env = {index: self._policies | dict(more) for index, more in (by_env or {}).items()}
        self._objections: Lookup[AgentID, Callable[[Action, Mask | None], str | None]] = Lookup(
            lambda agent: objection(spec.action_spaces[agent])
        )
        self._controllers: dict[tuple[int, AgentID, PolicyID], PolicyController] = {}

    def plays(self, index: int) -> Collection[AgentID]:
        return self._policies_of(index).keys()

    def begin(self, index: int, seed: int) -> None:
        if self._changing is not None:
            number = self._changing.numbers.next(index)
            self._by_env[index] = {agent: self._changing.policy(agent, number) for agent in self._policies}
        self.begin_again(index, seed)

    def begin_again(self, index: int, seed: int) -> None:
        for agent in self._policies_of(index):
            self._controller(index, agent).begin((agent,), child_seed(seed, "policy", agent))

    def act(self, index: int, turn: Turn) -> Mapping[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        for agent in self._policies_of(index):
            if agent in turn.observations:
                action = self._action(index, agent, turn)
                problem = self._objections[agent](action, turn.action_masks.get(agent))
                if problem:
                    raise PolicyError(f"The policy '{self._policies_of(index)[agent]}' of {agent} played {problem}.")
                actions[agent] = action
        return actions

    def _action(self, index: int, agent: AgentID, turn: Turn) -> Action:
        try:
            return self._controller(index, agent).act(turn.only((agent,)))[agent]
        except PolicyError as error:
            failure = PolicyTimeoutError if isinstance(error, PolicyTimeoutError) else PolicyError
            raise failure(f"The policy '{self._policies_of(index)[agent]}' of {agent}: {error}") from error

    def close(self) -> None:
        for controller in self._controllers.values():
            controller.close()
        self._controllers.clear()

    def _policies_of(self, index: int) -> Mapping[AgentID, PolicyID]:
        return self._by_env.get(index, self._policies)

    def _controller(self, index: int, agent: AgentID) -> PolicyController:
        policy = self._policies_of(index)[agent]
        key = (index, agent, policy)
        if key not in self._controllers:
            seed = child_seed(self._seed, "others", index, agent)
            self._controllers[key] = load_policy(policy, self._spec, (agent,), seed=seed)
        return self._controllers[key]


def make_others(
    environment: EnvironmentConfig,
    policies: Mapping[AgentID, PolicyID],
    seed: int,
    by_env: Mapping[int, Mapping[AgentID, PolicyID]] | None = None,
    changing: ChangingPolicies | None = None,
) -> ControllerOthers:
    """Build the controllers in another process, to which a configuration can be sent and an EnvSpec need not be."""
    return ControllerOthers(env_spec(environment), policies, seed, by_env, changing)
