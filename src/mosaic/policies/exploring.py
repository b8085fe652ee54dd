"""Epsilon-greedy exploration around another policy."""

from __future__ import annotations

from random import Random

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import Explains, Explanation, PolicyController, Remembers
from mosaic.policies.random import RandomPolicyController


class EpsilonGreedyController:
    """Controller that plays a random legal action with probability `epsilon`, else the action of `policy`."""

    def __init__(self, policy: PolicyController, spec: EnvSpec, epsilon: float) -> None:
        self._policy, self._epsilon = policy, epsilon
        self._uniform = RandomPolicyController(spec)
        self._random = Random(0)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random.seed(child_seed(seed, "epsilon"))
        self._uniform.begin(agents, child_seed(seed, "uniform"))
        self._policy.begin(agents, seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        actions = dict(self._policy.act(turn))  # always queried, since it may have memory
        exploring = tuple(agent for agent in turn.observations if self._random.random() < self._epsilon)
        return actions | self._uniform.act(turn.only(exploring)) if exploring else actions

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        """Return the explanation of the policy without exploration."""
        if not isinstance(self._policy, Explains):
            return dict.fromkeys(turn.observations, Explanation(None, None))
        return dict(self._policy.explain(turn))

    def forget(self, agent: AgentID) -> None:
        if isinstance(self._policy, Remembers):
            self._policy.forget(agent)

    def close(self) -> None:
        self._policy.close()
