"""Keys of a match: its owner, and the people who hold an agent, may give agents to other policies.

A key is a secret. The reply that opens a match has the owner's; the owner's view has one for each agent, for the links
that invite others. A held agent is played by its holder alone, also while that person is away. In a game with hidden
information the first player of an agent holds it, so that no one else sees its cards later; that player's view has the
key.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.server.play.episode import HUMAN
from mosaic.server.play.participants import Viewer

MOST_CHANGES = 5


class MatchKeys(BaseModel):
    """Keys of a match, in its file."""

    model_config = ConfigDict(extra="forbid")

    owner: str
    agents: dict[AgentID, str]
    held: list[AgentID]


class Access:
    """Keys of a match and what viewers did with them. Callers hold the match's lock."""

    def __init__(self) -> None:
        self.owner_key = secrets.token_urlsafe(16)
        self.held: set[AgentID] = set()  # agents whose key was shown
        self.changes: list[str] = []  # what was done to agents, newest last
        self.number = 0  # of changes so far
        self._keys: dict[AgentID, str] = {}

    def saved(self) -> MatchKeys:
        return MatchKeys(owner=self.owner_key, agents=dict(self._keys), held=sorted(self.held))

    def restore(self, keys: MatchKeys) -> None:
        """Take the keys of a match that another server has saved."""
        self.owner_key, self._keys = keys.owner, dict(keys.agents)
        self.held.update(keys.held)

    def key_of(self, agent: AgentID) -> str:
        return self._keys.setdefault(agent, secrets.token_urlsafe(16))

    def identify(self, viewer: Viewer, key: str) -> None:
        """Let a viewer show a key."""
        if secrets.compare_digest(key.encode(), self.owner_key.encode()):
            viewer.owner = True
            return
        for agent, known in self._keys.items():
            if secrets.compare_digest(key.encode(), known.encode()):
                viewer.claims.add(agent)
                viewer.holds.add(agent)
                self.held.add(agent)
                return
        raise InputError(
            "The key in this link belongs to another match: you can watch, or play an agent that no person holds."
        )

    def hold(self, viewer: Viewer, agents: Iterable[AgentID]) -> None:
        """Assign to a viewer those of the agents that no person holds; the viewer can reclaim them with their keys."""
        for agent in agents:
            if agent not in self.held:
                viewer.holds.add(agent)
                self.held.add(agent)

    def check_owner(self, viewer: Viewer, what: str) -> None:
        if not viewer.owner:
            raise InputError(f"Only the match's owner may {what}.")

    def check_holder(self, viewer: Viewer, agents: Iterable[AgentID]) -> None:
        """Raise InputError unless the viewer holds the agents or owns the match."""
        for agent in agents:
            if not viewer.owner and agent not in viewer.holds:
                raise InputError(
                    f"Only the person who holds '{agent}' or the match's owner may give it to another policy."
                )

    def swap(self, viewers: Iterable[Viewer], follows: Mapping[AgentID, AgentID]) -> None:
        """Let people and their keys follow their policies to other agents."""
        self._keys = {follows.get(agent, agent): key for agent, key in self._keys.items()}
        moved = {follows.get(agent, agent) for agent in self.held}
        self.held.clear()
        self.held.update(moved)
        for viewer in viewers:
            viewer.claims = {follows.get(agent, agent) for agent in viewer.claims}
            viewer.holds = {follows.get(agent, agent) for agent in viewer.holds}

    def tell(self, viewer: Viewer, changes: Mapping[AgentID, tuple[PolicyID, PolicyID]]) -> None:
        """Record which policies the viewer has replaced, and with which."""
        by = "the match's owner" if viewer.owner else "its player"
        for agent, (earlier, now) in changes.items():
            if now != earlier:
                self.number += 1
                self.changes.append(
                    f"{agent} is now played by {_person(now)} instead of {_person(earlier)}: changed by {by}."
                )
        del self.changes[:-MOST_CHANGES]


def _person(policy: PolicyID) -> str:
    return "a person" if policy == HUMAN else policy
