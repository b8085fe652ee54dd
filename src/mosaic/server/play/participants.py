"""Participants of a match: its viewers, the policies of its agents, and the actions that viewers choose."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Turn
from mosaic.envs.spaces import objection
from mosaic.policies.human import parse_action
from mosaic.policies.mapping import ControllerKey, PolicyMapping
from mosaic.server.play.clicks import Path, next_spots, press, spot_at
from mosaic.server.play.episode import HUMAN, CurrentEpisode, MatchPhase
from mosaic.server.play.keys import KeyBinding, check_bindings, held_action
from mosaic.server.play.pace import Pace

STATE_EVERY_S = 0.2  # of a real-time game; its pictures are updated more often


@dataclass(slots=True, eq=False)
class Viewer:
    """Viewer of a match: one open browser or terminal."""

    notify: Callable[[], None]  # called on changes, from any thread
    claims: set[AgentID] = field(default_factory=set)  # the only agents it acts for; empty: all unclaimed ones
    path: Path = ()  # spots of an incomplete choice
    held: dict[str, None] = field(default_factory=dict)  # keys that are down, in the order they were pressed
    tapped: dict[str, None] = field(default_factory=dict)  # keys that were down since the last step
    axes: tuple[float, ...] = ()
    bindings: tuple[KeyBinding, ...] | None = None  # its own key map
    pictures: bool = True  # whether it shows any
    shares: bool = True  # without claims it acts for every agent that is not claimed; else for none
    owner: bool = False  # it has shown the key of the match
    holds: set[AgentID] = field(default_factory=set)  # agents whose keys it has shown


class MatchViewers:
    """Viewers of a match, and the lock through which they and the match's own thread learn of changes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.changed = threading.Condition()
        self.version = 0  # grows with every change that viewers are notified of
        self.all: list[Viewer] = []
        self._clock = clock
        self._told_at_s = -math.inf
        self._unwatched_since = clock()

    def join(self, viewer: Viewer, held: Collection[AgentID] = ()) -> None:
        """Add a viewer; its claims must be free, except on held agents, which need a key to play.

        The lock is held by the caller, as for all methods.
        """
        require_free(self.all, viewer.claims - set(held))
        self.all.append(viewer)
        self.tell()

    def leave(self, viewer: Viewer) -> None:
        if viewer in self.all:
            self.all.remove(viewer)
        if not self.all:
            self.stay_open()
        self.tell()

    def tell(self) -> None:
        """Notify all viewers of a state change."""
        self.version += 1
        self._told_at_s = self._clock()
        self.changed.notify_all()
        self.notify()

    def notify(self) -> None:
        for viewer in self.all:
            viewer.notify()

    def is_due(self) -> bool:
        """Return whether viewers should be notified now of a change that is not urgent."""
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


def acts_for(
    viewer: Viewer, viewers: Collection[Viewer], humans: Iterable[AgentID], held: Collection[AgentID] = ()
) -> list[AgentID]:
    """Return the human agents that this viewer may act for; `held` ones only if it holds them."""
    humans = [agent for agent in humans if agent not in held or agent in viewer.holds]
    if viewer.claims or not viewer.shares:
        return [agent for agent in humans if agent in viewer.claims]
    claimed = {agent for other in viewers if other is not viewer for agent in other.claims}
    return [agent for agent in humans if agent not in claimed]


def require_free(viewers: Collection[Viewer], agents: Iterable[AgentID]) -> None:
    """Raise InputError if a viewer has claimed one of the agents."""
    for agent in agents:
        if any(agent in other.claims for other in viewers):
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


MOST_KEYS = 64  # of one viewer, down at once or since the last step


class HumanController:
    """Controller of all human players. It never waits: the match asks only when all have chosen."""

    def __init__(self) -> None:
        self.actions: dict[AgentID, Action] = {}

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self.actions[agent] for agent in turn.observations}

    def close(self) -> None:
        pass


class HumanPlayers:
    """Actions that viewers have chosen for human agents. Callers hold the match's lock."""

    def __init__(
        self, episode: CurrentEpisode, assignments: PolicyAssignments, viewers: MatchViewers, pace: Pace
    ) -> None:
        self._episode, self._assignments, self._viewers, self._pace = episode, assignments, viewers, pace
        self.chosen: dict[AgentID, Action] = {}  # for the next step
        self.taken: Turn | None = None  # the turn whose actions were taken last; its step may still be in progress
        self._last: dict[AgentID, Action] = {}
        self.held: Collection[AgentID] = ()  # agents that only their holders act for

    def begin(self) -> None:
        self.chosen.clear()
        self._last.clear()

    def mine(self, viewer: Viewer) -> list[AgentID]:
        """Return the agents that this viewer acts for."""
        humans = [agent for agent in self._episode.agents if self._assignments.is_human(agent)]
        return acts_for(viewer, self._viewers.all, humans, self.held)

    def people(self) -> list[Viewer]:
        """Return the viewers who play."""
        return [viewer for viewer in self._viewers.all if self.mine(viewer)]

    def bindings_of(self, viewer: Viewer, agent: AgentID) -> tuple[KeyBinding, ...]:
        """Return the key bindings: two players at one keyboard have a hand each; a single player has both."""
        if viewer.bindings is not None:
            return tuple(binding for binding in viewer.bindings if binding.agent in (None, agent))
        keys, mine = self._episode.key_maps[agent], self.mine(viewer)
        if len(mine) < 2:
            return keys.both
        return (keys.left, keys.right)[mine.index(agent)] if mine.index(agent) < 2 else ()

    def act(self, viewer: Viewer, agent: AgentID | None, data: object) -> None:
        agent = self._who(viewer, agent)
        self._choose(agent, read_action(self._episode.known_spec.action_spaces[agent], data))

    def type_move(self, viewer: Viewer, agent: AgentID | None, text: str) -> None:
        """Choose the legal action with this name, or this number or numbers as on the command line."""
        agent = self._who(viewer, agent)
        names = {choice.label.lower(): choice.action for choice in self._episode.choices.get(agent, ())}
        typed = text.strip().lower()
        if typed in names:
            self._choose(agent, names[typed])
            return
        try:
            action = parse_action(self._episode.known_spec.action_spaces[agent], typed)
        except ValueError as error:
            if names:
                raise unknown("legal move", text.strip(), list(names)) from error
            raise InputError(f"'{text.strip()}' is not an action: {error}.") from error
        self._choose(agent, action)

    def press(self, viewer: Viewer, agent: AgentID | None, spot: str) -> None:
        self._press(viewer, self._who(viewer, agent), spot)

    def click(self, viewer: Viewer, agent: AgentID | None, x: float, y: float) -> None:
        agent = self._who(viewer, agent)
        self._press(viewer, agent, spot_at(self._episode.choices.get(agent, ()), viewer.path, x, y))

    def key(self, viewer: Viewer, code: str, key: str, down: bool) -> None:
        """Handle a key: in real time keys are held; in turn-based games a key press chooses."""
        if not down:
            viewer.held.pop(code, None)
            return
        if len(viewer.tapped) >= MOST_KEYS or len(viewer.held) >= MOST_KEYS:
            raise InputError(f"More than {MOST_KEYS} keys are down at once.")
        viewer.held[code] = viewer.tapped[code] = None
        episode = self._episode
        acting = [a for a in self.mine(viewer) if episode.turn is not None and a in episode.turn.observations]
        if self._pace.real_time or not acting or episode.phase is not MatchPhase.PLAYING:
            return
        typed = [s.id for s in next_spots(episode.choices.get(acting[0], ()), viewer.path) if s.key and s.key == key]
        if typed:
            self._press(viewer, acting[0], typed[0])
            return
        bindings = self.bindings_of(viewer, acting[0])
        if any(code in binding.keys for binding in bindings):
            keys = episode.key_maps[acting[0]]
            self._choose(acting[0], held_action(keys, bindings, tuple(viewer.held), viewer.axes))

    def bind(self, viewer: Viewer, bindings: list[KeyBinding] | None) -> None:
        """Give a viewer its own key map; None restores the env's."""
        space = next((self._episode.known_spec.action_spaces[agent] for agent in self._episode.agents), None)
        viewer.bindings = None if bindings is None or space is None else check_bindings(space, bindings)
        self._viewers.tell()

    def take(self, turn: Turn) -> dict[AgentID, Action]:
        """Return the actions of the human agents for this step: what was chosen, else what keys are held."""
        taken: dict[AgentID, Action] = {}
        for agent in turn.observations:
            if self._assignments.is_human(agent):
                taken[agent] = self.chosen[agent] if agent in self.chosen else self._held(agent)
        self.chosen.clear()
        self.taken = turn
        self._last.update(taken)
        for viewer in self._viewers.all:
            viewer.tapped.clear()
            viewer.path = ()
        return taken

    def _who(self, viewer: Viewer, wanted: AgentID | None) -> AgentID:
        self._episode.check_playable()
        if wanted is not None:
            self._episode.check_agent(wanted)
        human = wanted is not None and self._assignments.is_human(wanted)
        undecided = wanted is None and not self._pace.real_time
        acting = [agent for agent in self._episode.acting if not undecided or agent not in self.chosen]
        return who_acts(wanted, self.mine(viewer), acting, human)

    def _press(self, viewer: Viewer, agent: AgentID, spot: str) -> None:
        pressed = press(self._episode.choices.get(agent, ()), viewer.path, spot)
        viewer.path = pressed.path
        if pressed.action is None:
            self._viewers.tell()
        else:
            self._choose(agent, pressed.action)

    def _choose(self, agent: AgentID, action: Action) -> None:
        turn = self._episode.turn
        mask = None if turn is None else turn.action_masks.get(agent)
        problem = objection(self._episode.known_spec.action_spaces[agent])(action, mask)
        if problem:
            raise InputError(f"'{agent}' may not play {problem}.")
        self.chosen[agent] = action
        self._viewers.tell()

    def _held(self, agent: AgentID) -> Action:
        """Return the action for the keys that the agent's player holds now."""
        keys = self._episode.key_maps[agent]
        for viewer in self._viewers.all:
            if agent in self.mine(viewer):
                held = tuple({**viewer.tapped, **viewer.held})
                found = held_action(keys, self.bindings_of(viewer, agent), held, viewer.axes)
                if found is not None:
                    return found
        last = self._last.get(agent)
        if last is not None:
            return last
        return keys.rest if keys.rest is not None else self._episode.choices[agent][0].action


def read_action(space: Space[Action], data: object) -> Action:
    """Convert an action from JSON."""
    match space:
        case spaces.Discrete() if isinstance(data, int):
            return data
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            try:
                return np.asarray(data, space.dtype).reshape(space.shape)
            except (TypeError, ValueError, OverflowError) as error:
                raise InputError(f"{data!r} is not an action of {space}: {error}.") from error
        case _:
            raise InputError(f"{data!r} is not an action of {space}.")
