"""Random policies: uniformly random legal actions, and epsilon-greedy exploration around another policy."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from random import Random

from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.episode import DecisionReport
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.reference import Options
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.spaces import draw_action
from mosaic.policies.controller import (
    Explains,
    Explanation,
    PolicyController,
    PolicyKind,
    PolicyRequest,
    Remembers,
    Reports,
    explains_from_memory,
)


class RandomPolicyController:
    """Controller that draws from its own seed; the env's spaces are never sampled, because agents share them."""

    def __init__(self, spec: EnvSpec) -> None:
        self._random = Random(0)  # 0.4 µs a draw; numpy's Generator takes 2 to 8
        self._spaces: Lookup[AgentID, Space[object]] = Lookup(lambda agent: self._private(spec.action_spaces[agent]))

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random.seed(seed)
        self._spaces.clear()

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        masks = turn.action_masks
        return {agent: draw_action(self._spaces[agent], masks.get(agent), self._random) for agent in turn.observations}

    def _private(self, space: Space[object]) -> Space[object]:
        if isinstance(space, spaces.Discrete):
            return space  # `draw_action` does not sample it, so it may be shared
        copy = deepcopy(space)
        copy.seed(self._random.getrandbits(31))
        return copy

    def close(self) -> None:
        pass


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

    @property
    def remembers(self) -> bool:
        return explains_from_memory(self._policy)

    def forget(self, agent: AgentID) -> None:
        if isinstance(self._policy, Remembers):
            self._policy.forget(agent)

    def reports(self) -> Mapping[AgentID, DecisionReport]:
        return self._policy.reports() if isinstance(self._policy, Reports) else {}

    def close(self) -> None:
        self._policy.close()


def _make(options: Options, request: PolicyRequest) -> RandomPolicyController:
    return RandomPolicyController(request.spec)


kind = PolicyKind(usage="random", help="Uniformly random legal actions, from its own seed.", make=_make)
