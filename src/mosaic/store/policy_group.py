"""Several policies of one run behind one controller, each acting for its own agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from mosaic.core.ids import AgentID
from mosaic.core.lazy_dict import Lookup
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.policies.controller import Explains, Explanation, PolicyController, Remembers


class PolicyGroup:
    def __init__(
        self,
        policy_of: Callable[[AgentID], str],
        make: Callable[[str], PolicyController],
        policies: Iterable[str],
    ) -> None:
        """`policies`: those to be made now; others follow when an agent that has them is born."""
        self._policy_of: Lookup[AgentID, str] = Lookup(policy_of)
        self._controllers: Lookup[str, PolicyController] = Lookup(make, sorted(policies))
        self._begun: set[str] = set()
        self._seed = 0

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._seed = seed
        self._begun.clear()
        for policy, members in self._groups(agents):
            self._ready(policy, members)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        for policy, members in self._groups(turn.observations):
            actions.update(self._ready(policy, members).act(turn.only(members)))
        return actions

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        opinions = dict.fromkeys(turn.observations, Explanation(None, None))
        for policy, members in self._groups(turn.observations):
            controller = self._ready(policy, members)
            if isinstance(controller, Explains):
                opinions.update(controller.explain(turn.only(members)))
        return opinions

    def forget(self, agent: AgentID) -> None:
        controller = self._controllers[self._policy_of[agent]]
        if isinstance(controller, Remembers):
            controller.forget(agent)

    def close(self) -> None:
        for controller in self._controllers.values():
            controller.close()

    def _groups(self, agents: Iterable[AgentID]) -> list[tuple[str, tuple[AgentID, ...]]]:
        ordered = sorted(agents, key=self._policy_of.__getitem__)
        return [(policy, tuple(members)) for policy, members in groupby(ordered, self._policy_of.__getitem__)]

    def _ready(self, policy: str, members: tuple[AgentID, ...]) -> PolicyController:
        controller = self._controllers[policy]
        if policy not in self._begun:
            controller.begin(members, child_seed(self._seed, policy))
            self._begun.add(policy)
        return controller
