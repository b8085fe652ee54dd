"""Advice: a policy's view of the current position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.board_cells import san_of
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import Explains, Explanation, PolicyController, explains_from_memory
from mosaic.policies.registry import load_policy
from mosaic.runners.local import LocalEnvRunner
from mosaic.server.play.clicks import choices
from mosaic.server.play.participants import PolicyAssignments

MOST_ROWS = 12
_NOTHING = Explanation(None, None)
SeenBefore: TypeAlias = Callable[[AgentID], Sequence[Turn] | None]  # earlier in the episode; None where it was not kept


@dataclass(frozen=True, slots=True)
class Thought:
    label: str
    probability: float
    visits: int | None = None  # simulations of a policy that searches
    san: str = ""  # of chess, as players write it


@dataclass(frozen=True, slots=True)
class Advice:
    agent: AgentID
    policy: PolicyID
    thoughts: tuple[Thought, ...] = ()  # most likely first
    value: float | None = None
    proven: bool = False  # the value is exact
    note: str = ""  # why there is none


class Advisors:
    """Policies that are asked but do not play, loaded when first asked."""

    def __init__(self) -> None:
        self._made: dict[tuple[PolicyID, AgentID], PolicyController] = {}
        self._read: dict[tuple[PolicyID, AgentID], int] = {}  # turns of the episode that one with a memory has seen

    def begin(self) -> None:
        """Begin an episode: memories of the last one are dropped."""
        self._read.clear()
        for (_, agent), controller in self._made.items():
            controller.begin((agent,), 0)

    def consider(
        self, runner: LocalEnvRunner, turn: Turn, assignments: PolicyAssignments, before: SeenBefore
    ) -> Advice | None:
        """Explain the turn for the agent that acts, preferring an agent that a person plays."""
        spec = runner.env.spec
        people = [agent for agent in turn.observations if assignments.is_human(agent)]
        agent = next(iter(people or turn.observations), None)
        if agent is None:
            return None
        policy = assignments.back_of(agent) if people else assignments.policy_of(agent)
        controller = None if people else runner.controllers.players[agent].controller
        names = {choice.action: choice.text for choice in choices(spec, turn, agent)}
        try:
            controller = controller or self._reminded(spec, agent, policy, before)
        except MosaicError as error:
            return Advice(agent, policy, note=f"{policy} cannot be asked: {error}")
        if controller is None:
            return Advice(
                agent, policy, note=f"{policy} has a memory, and this episode is too large to be read from its start."
            )
        advice = self._ask(agent, policy, turn, controller, names)
        written = tuple(replace(each, san=san_of(runner.env, each.label)) for each in advice.thoughts)
        return replace(advice, thoughts=written)

    def _ask(
        self, agent: AgentID, policy: PolicyID, turn: Turn, found: PolicyController, names: Mapping[int, str]
    ) -> Advice:
        try:
            explanation = found.explain(turn.only({agent}))[agent] if isinstance(found, Explains) else _NOTHING
        except MosaicError as error:
            return Advice(agent, policy, note=f"{policy} cannot be asked: {error}")
        if explanation.probabilities is None and explanation.value is None:
            return Advice(agent, policy, note=f"{policy} cannot say what it thinks.")
        shares = [] if explanation.probabilities is None else explanation.probabilities.tolist()
        mask = turn.action_masks.get(agent)
        legal = [action for action in range(len(shares)) if mask is None or mask[action]]
        best = sorted(legal, key=lambda action: -shares[action])[:MOST_ROWS]
        visits = [None] * len(shares) if explanation.visits is None else explanation.visits.tolist()
        thoughts = tuple(
            Thought(names.get(action, f"action {action}"), float(shares[action]), visits[action]) for action in best
        )
        return Advice(agent, policy, thoughts, explanation.value, explanation.proven)

    def close(self) -> None:
        for controller in self._made.values():
            controller.close()
        self._made.clear()

    def _reminded(self, spec: EnvSpec, agent: AgentID, policy: PolicyID, before: SeenBefore) -> PolicyController | None:
        """Return the policy; one with memory first sees the earlier observations. None if they were not kept."""
        controller = self._advisor(spec, agent, policy)
        if not explains_from_memory(controller):
            return controller
        seen = before(agent)
        if seen is None:
            return None
        for turn in seen[self._read.get((policy, agent), 0) :]:
            controller.act(turn)
        self._read[policy, agent] = len(seen)
        return controller

    def _advisor(self, spec: EnvSpec, agent: AgentID, policy: PolicyID) -> PolicyController:
        if (policy, agent) not in self._made:
            controller = load_policy(policy, spec, (agent,))
            controller.begin((agent,), 0)
            self._made[policy, agent] = controller
        return self._made[policy, agent]
