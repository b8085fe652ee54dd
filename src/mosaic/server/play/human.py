"""Human players of a match: their clicks, keys and axes as actions, and the controller that plays these."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.spaces import objection
from mosaic.policies.human import parse_action
from mosaic.server.play.clicks import next_spots, press, spot_at
from mosaic.server.play.episode import CurrentEpisode, MatchPhase
from mosaic.server.play.keys import KeyBinding, check_bindings, held_action
from mosaic.server.play.pace import Pace
from mosaic.server.play.participants import MatchViewers, PolicyAssignments, Viewer, acts_for, who_acts

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
        self._last: dict[AgentID, Action] = {}

    def begin(self) -> None:
        self.chosen.clear()
        self._last.clear()

    def mine(self, viewer: Viewer) -> list[AgentID]:
        """Return the agents that this viewer acts for."""
        humans = [agent for agent in self._episode.agents if self._assignments.is_human(agent)]
        return acts_for(viewer, self._viewers.all, humans)

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
