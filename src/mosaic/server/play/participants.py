"""Participants of a match: its viewers, the policies of its agents, and which viewer acts for a human agent."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.policies.mapping import ControllerKey, PolicyMapping
from mosaic.server.play.clicks import Path
from mosaic.server.play.keys import KeyBinding

HUMAN: PolicyID = "human"
STATE_EVERY_S = 0.2  # of a real-time game; its pictures are updated more often


@dataclass(slots=True, eq=False)
class Viewer:
    """One open screen."""

    notify: Callable[[], None]  # called on changes, from any thread
    claims: set[AgentID] = field(default_factory=set)  # the only agents it acts for; empty: all unclaimed ones
    path: Path = ()  # spots of an incomplete choice
    held: dict[str, None] = field(default_factory=dict)  # keys that are down, in the order they were pressed
    tapped: dict[str, None] = field(default_factory=dict)  # keys that were down since the last step
    axes: tuple[float, ...] = ()
    bindings: tuple[KeyBinding, ...] | None = None  # its own key map


class MatchViewers:
    """Viewers of a match, and the lock through which they and the match's own thread learn of changes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.changed = threading.Condition()
        self.version = 0  # grows with every change that viewers are notified of
        self.all: list[Viewer] = []
        self._clock = clock
        self._told_at_s = -math.inf
        self._unwatched_since = clock()

    def join(self, viewer: Viewer) -> None:
        """Add a viewer; its claims must be free. The lock is held by the caller, as for all methods."""
        require_owner(Viewer(viewer.notify), self.all, viewer.claims)
        self.all.append(viewer)
        self.tell()

    def leave(self, viewer: Viewer) -> None:
        if viewer in self.all:
            self.all.remove(viewer)
        if not self.all:
            self.stay_open()
        self.tell()

    def tell(self) -> None:
        """Notify everyone of a change of the state."""
        self.version += 1
        self._told_at_s = self._clock()
        self.changed.notify_all()
        self.notify()

    def notify(self) -> None:
        for viewer in self.all:
            viewer.notify()

    def is_due(self) -> bool:
        """Return whether a change that is not urgent should be told now."""
        return self._clock() - self._told_at_s >= STATE_EVERY_S

    def stay_open(self) -> None:
        """Count the time without viewers from now."""
        self._unwatched_since = self._clock()

    def until_idle_s(self, idle_s: float) -> float:
        """Return seconds until there was no viewer for `idle_s`; inf while there are any."""
        return math.inf if self.all else self._unwatched_since + idle_s - self._clock()


class PolicyAssignments:
    """AgentMapping that can change while it is used. Agents with the same policy share its controller."""

    def __init__(self, mapping: PolicyMapping) -> None:
        self._mapping = mapping
        self._chosen: dict[AgentID, PolicyID] = {}
        self._before: dict[AgentID, PolicyID] = {}

    def key_of(self, agent: AgentID, episode: int) -> ControllerKey:
        policy = self.policy_of(agent)
        return ControllerKey(policy, policy)

    def check(self, agents: Collection[AgentID]) -> None:
        self._mapping.check(agents)

    def policy_of(self, agent: AgentID) -> PolicyID:
        return self._chosen.get(agent) or self._mapping.key_of(agent).policy

    def is_human(self, agent: AgentID) -> bool:
        return self.policy_of(agent) == HUMAN

    def put(self, agent: AgentID, policy: PolicyID) -> None:
        earlier = self.policy_of(agent)
        if earlier != HUMAN:
            self._before[agent] = earlier
        self._chosen[agent] = policy

    def back_of(self, agent: AgentID) -> PolicyID:
        """Return the policy that takes over from a human: the previous one, else that of the human's opponents."""
        others = (policy for _, policy in self._mapping.rules if policy != HUMAN)
        return self._before.get(agent) or next(others, "random")

    def rotated(self, agents: Iterable[AgentID]) -> dict[AgentID, PolicyID]:
        """Shift the policies by one agent; two agents swap."""
        names = list(agents)
        policies = [self.policy_of(agent) for agent in names]
        return dict(zip(names, [*policies[-1:], *policies[:-1]], strict=True))


def acts_for(viewer: Viewer, viewers: Collection[Viewer], humans: Iterable[AgentID]) -> list[AgentID]:
    """Return the human agents that this viewer may act for."""
    if viewer.claims:
        return [agent for agent in humans if agent in viewer.claims]
    claimed = {agent for other in viewers if other is not viewer for agent in other.claims}
    return [agent for agent in humans if agent not in claimed]


def require_owner(viewer: Viewer, viewers: Collection[Viewer], agents: Iterable[AgentID]) -> None:
    """Raise InputError if another viewer has claimed one of the agents: only that one may hand it over or take it."""
    for agent in agents:
        if agent not in viewer.claims and any(agent in other.claims for other in viewers):
            raise InputError(f"'{agent}' belongs to another player: only that player hands it over or takes it.")


def who_acts(wanted: AgentID | None, mine: Collection[AgentID], acting: Collection[AgentID], human: bool) -> AgentID:
    """Return the agent that a press or an action is meant for; raise with the reason if there is none."""
    if wanted is None:
        able = [agent for agent in acting if agent in mine]
        if able:
            return able[0]
        waiting = ", ".join(acting) or "no agent"
        raise InputError(f"It is not your turn: {waiting} must act now." if mine else "You watch; you have no agent.")
    if wanted not in mine:
        reason = "another person plays it" if human else "a policy plays it; take it over first"
        raise InputError(f"You do not play '{wanted}': {reason}.")
    if wanted not in acting:
        raise InputError(f"It is not the turn of '{wanted}': {', '.join(acting) or 'no agent'} must act now.")
    return wanted
