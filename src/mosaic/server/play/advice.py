"""Advice: a policy's view of the current position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import Explains, PolicyController
from mosaic.policies.registry import load_policy
from mosaic.runners.local import LocalEnvRunner
from mosaic.server.play.clicks import choices
from mosaic.server.play.participants import PolicyAssignments

MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Thought:
    label: str
    probability: float
    visits: int | None = None  # simulations of a policy that searches


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

    def consider(self, runner: LocalEnvRunner, turn: Turn, assignments: PolicyAssignments) -> Advice | None:
        """Explain the turn for the agent that acts, a human one first: that is what its person wants to know."""
        spec = runner.env.spec
        people = [agent for agent in turn.observations if assignments.is_human(agent)]
        agent = next(iter(people or turn.observations), None)
        if agent is None:
            return None
        policy = assignments.back_of(agent) if people else assignments.policy_of(agent)
        controller = None if people else runner.controllers.players[agent].controller
        names = {choice.action: choice.label for choice in choices(spec, turn, agent)}
        return self.ask(spec, agent, policy, turn, controller, names)

    def ask(
        self,
        spec: EnvSpec,
        agent: AgentID,
        policy: PolicyID,
        turn: Turn,
        controller: PolicyController | None,
        names: Mapping[int, str],
    ) -> Advice:
        """Explain the turn for an agent; `controller` is the policy that plays for it, unless a human does."""
        try:
            found = controller or self._advisor(spec, agent, policy)
            if not isinstance(found, Explains):
                return Advice(agent, policy, note=f"{policy} cannot say what it thinks.")
            if controller is None and getattr(found, "remembers", False):
                return Advice(agent, policy, note=f"{policy} has a memory, and advises only where it plays itself.")
            explanation = found.explain(turn.only({agent}))[agent]
        except MosaicError as error:
            return Advice(agent, policy, note=f"{policy} cannot be asked: {error}")
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

    def _advisor(self, spec: EnvSpec, agent: AgentID, policy: PolicyID) -> PolicyController:
        if (policy, agent) not in self._made:
            controller = load_policy(policy, spec, (agent,))
            controller.begin((agent,), 0)
            self._made[policy, agent] = controller
        return self._made[policy, agent]
