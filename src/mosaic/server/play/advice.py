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

MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Thought:
    label: str
    probability: float


@dataclass(frozen=True, slots=True)
class Advice:
    agent: AgentID
    policy: PolicyID
    thoughts: tuple[Thought, ...] = ()  # most likely first
    value: float | None = None
    note: str = ""  # why there is none


class Advisors:
    """Policies that are asked but do not play, loaded when first asked."""

    def __init__(self) -> None:
        self._made: dict[tuple[PolicyID, AgentID], PolicyController] = {}

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
            explanation = found.explain(turn.only({agent}))[agent]
        except MosaicError as error:
            return Advice(agent, policy, note=f"{policy} cannot be asked: {error}")
        shares = [] if explanation.probabilities is None else explanation.probabilities.tolist()
        mask = turn.action_masks.get(agent)
        legal = [action for action in range(len(shares)) if mask is None or mask[action]]
        best = sorted(legal, key=lambda action: -shares[action])[:MOST_ROWS]
        thoughts = tuple(Thought(names.get(action, f"action {action}"), float(shares[action])) for action in best)
        return Advice(agent, policy, thoughts, explanation.value)

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
