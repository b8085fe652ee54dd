"""Port between the threads that talk to external programs and the one that learns.

The learner answers between two updates, so that every action is chosen by the newest weights: while it learns, programs
wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.policies.serving.actors import Decision
from mosaic.policies.serving.episode import ActedBy, StartedEpisode
from mosaic.policies.serving.messages import CallError, EpisodeID

_MOST_EVENTS = 10_000  # that wait for the learner; programs that log actions faster than it learns are slowed down


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """Episodes whose agents must act, and the promise of their actions."""

    turns: Sequence[tuple[EpisodeID, Turn]]
    answer: Future[Sequence[Decision]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Logged:
    episode_id: EpisodeID
    turn: Turn
    actions: Mapping[AgentID, Action]


@dataclass(frozen=True, slots=True)
class Ended:
    episode_id: EpisodeID
    turn: Turn


@dataclass(frozen=True, slots=True)
class Lost:
    episode_id: EpisodeID


Event: TypeAlias = StartedEpisode | ActionRequest | Logged | Ended | Lost


class LearnerPort:
    """Queue of events, and the two ends of it that a server calls: `EpisodeActor` and `ExperienceSink`."""

    waits = True

    def __init__(
        self, check: Callable[[Turn], None], *, learns_from_logs: bool, people: Sequence[AgentID] = ()
    ) -> None:
        """`check` raises CallError for a Turn from which nothing can be learned; `people` play agents at programs."""
        self.people = frozenset(people)  # no action is asked for them
        self._check, self._learns_from_logs = check, learns_from_logs
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed: str | None = None
        self._unheard: set[EpisodeID] = set()  # episodes that are not for training, of which a sink hears nothing

    def take(self, timeout_s: float) -> list[Event]:
        """Return all events since the last call, in their order; wait for the first of them."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._closed, timeout_s)
            taken = list(self._events)
            self._events.clear()
        return taken

    def close(self, reason: str) -> None:
        """Tell all that wait, and all that ask later, that no actions will come."""
        with self._changed:
            self._closed = reason
            waiting = [event for event in self._events if isinstance(event, ActionRequest)]
            self._events.clear()
            self._changed.notify_all()
        for event in waiting:
            event.answer.set_result([_over(reason)] * len(event.turns))

    def _put(self, event: Event) -> None:
        with self._changed:
            if self._closed is not None:
                raise _over(self._closed)
            self._events.append(event)
            self._changed.notify_all()

    # -- EpisodeActor

    def begin(self, episode: StartedEpisode) -> None:
        if not episode.training_enabled:
            self._unheard.add(episode.episode_id)
        self._put(episode)

    def act(self, turns: Sequence[tuple[EpisodeID, Turn]]) -> Sequence[Decision]:
        """Wait for the learner's decisions."""
        asked = ActionRequest(turns)
        try:
            self._put(asked)
        except CallError as error:
            return [error] * len(turns)
        return asked.answer.result()

    def forget(self, episode_id: EpisodeID, agent: AgentID) -> None:
        """Do nothing: networks of external envs have no memory."""

    def end(self, episode_id: EpisodeID) -> None:
        if episode_id in self._unheard:
            self._unheard.remove(episode_id)
            self.lost(episode_id, "")

    # -- ExperienceSink

    def started(self, episode: StartedEpisode) -> None:
        """Do nothing: `begin` has told the learner, of every episode."""

    def acted(self, episode_id: EpisodeID, turn: Turn, actions: Mapping[AgentID, Action], by: ActedBy) -> None:
        if by == "policy":  # the learner chose them
            return
        if not self._learns_from_logs and not self.people >= actions.keys():
            raise CallError(
                "refused",
                "This run learns from the actions of its own policy alone. Ask for them with get_action; to learn from "
                "what others did, train with --algo dqn, or clone it with --algo dagger.",
            )
        if len(self._events) >= _MOST_EVENTS:
            raise CallError("episode_busy", "The learner is busy with what was logged before. Try again.")
        self._check(turn)
        self._put(Logged(episode_id, turn, actions))

    def ended(self, episode_id: EpisodeID, turn: Turn) -> None:
        self._check(turn)
        self._put(Ended(episode_id, turn))

    def lost(self, episode_id: EpisodeID, reason: str) -> None:
        with self._changed:
            if self._closed is None:
                self._events.append(Lost(episode_id))
                self._changed.notify_all()


def _over(reason: str) -> CallError:
    return CallError("episode_lost", f"No action: {reason}. Start another episode then.")
