"""Sessions of clients: the episodes that are running, with limits on their number and on idle time."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, Protocol, TypeVar

from mosaic.policies.serving.messages import CallError, EpisodeID

_OWN_ID = re.compile(r"[0-9a-f]{8}-\d+")
_LONGEST_ID = 200  # characters
_REMEMBERED = 10_000  # episodes that are gone, so that a late call is told why


class HasClient(Protocol):
    @property
    def client(self) -> str: ...


S = TypeVar("S", bound=HasClient)


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Limits on the episodes of a server."""

    episodes: int = 4096  # running at the same time
    per_client: int = 1024  # of one connection, or of one address without a connection
    idle_s: float = 600.0  # an episode without a call for this long is dropped


@dataclass(slots=True)
class EpisodeTable(Generic[S]):
    """Running episodes by id; each belongs to a client and expires without calls."""

    limits: EpisodeLimits = field(default_factory=EpisodeLimits)
    clock: Callable[[], float] = monotonic
    instance: str = field(default_factory=lambda: secrets.token_hex(4))  # start of this server's own ids
    _sessions: dict[EpisodeID, S] = field(default_factory=dict)
    _used: dict[EpisodeID, float] = field(default_factory=dict)  # the least recently used first
    _gone: dict[EpisodeID, str] = field(default_factory=dict)
    _clients: dict[str, int] = field(default_factory=dict)  # number of episodes
    _number: int = 0

    def new_id(self, wanted: EpisodeID | None) -> EpisodeID:
        """Return the id of a new episode; raise CallError for one that is in use."""
        if wanted is None:
            self._number += 1
            return f"{self.instance}-{self._number}"
        if not 0 < len(wanted) <= _LONGEST_ID:
            raise CallError("wrong_value", f"episode_id: it should have 1 to {_LONGEST_ID} characters.")
        if wanted in self._sessions:
            raise CallError(
                "episode_exists", f"There is already an episode '{wanted}'. End it first, or use another id."
            )
        return wanted

    def check_room(self, client: str) -> None:
        """Raise CallError where the client, or the server, has as many episodes as it may have."""
        if len(self._sessions) >= self.limits.episodes:
            raise CallError(
                "too_many_episodes", f"The server has {self.limits.episodes} episodes, its limit. Try again later."
            )
        if self._clients.get(client, 0) >= self.limits.per_client:
            raise CallError(
                "too_many_episodes",
                f"This client has {self.limits.per_client} episodes, its limit. End some before it starts others.",
            )

    def add(self, episode_id: EpisodeID, session: S) -> None:
        self._gone.pop(episode_id, None)
        self._sessions[episode_id] = session
        self._used[episode_id] = self.clock()
        self._clients[session.client] = self._clients.get(session.client, 0) + 1

    def get(self, episode_id: EpisodeID) -> S:
        """Return a running episode, which counts as used; raise CallError that says why there is none."""
        session = self._sessions.get(episode_id)
        if session is None:
            raise self._unknown(episode_id)
        del self._used[episode_id]
        self._used[episode_id] = self.clock()
        return session

    def remove(self, episode_id: EpisodeID, reason: str) -> S | None:
        """Remove an episode; later calls are told the reason, «it has ended»."""
        session = self._sessions.pop(episode_id, None)
        if session is None:
            return None
        del self._used[episode_id]
        self._clients[session.client] -= 1
        if not self._clients[session.client]:
            del self._clients[session.client]
        self._gone[episode_id] = reason
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        return session

    def idle(self) -> list[EpisodeID]:
        """Return the episodes that have had no call for too long."""
        limit = self.clock() - self.limits.idle_s
        found = []
        for episode_id, used in self._used.items():
            if used > limit:
                break
            found.append(episode_id)
        return found

    def of_client(self, client: str) -> list[EpisodeID]:
        if client not in self._clients:
            return []
        return [episode_id for episode_id, session in self._sessions.items() if session.client == client]

    def all(self) -> Iterable[EpisodeID]:
        return list(self._sessions)

    def __len__(self) -> int:
        return len(self._sessions)

    def _unknown(self, episode_id: EpisodeID) -> CallError:
        name = repr(episode_id[:_LONGEST_ID])
        if episode_id in self._gone:
            reason = self._gone[episode_id]
            return CallError("episode_lost", f"The episode {name} is over: {reason}. Start another one.")
        if _OWN_ID.fullmatch(episode_id) and not episode_id.startswith(self.instance):
            return CallError(
                "episode_lost",
                f"The episode {name} was lost: it was begun before the server was started again. Start another one.",
            )
        return CallError(
            "unknown_episode",
            f"There is no episode {name}: none was begun under this id since the server was started. Start one.",
        )
