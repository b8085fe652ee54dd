"""Shared state of a match, what viewers may do to it, and how each of them sees it.

One lock guards everything. Screens call the methods from any thread; the match's own thread waits on the same lock
until something changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice

from mosaic.core.episode import Episode
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, Json, JsonObject, PolicyID
from mosaic.core.seeding import fresh_seed
from mosaic.core.turn import Turn
from mosaic.envs.board_cells import layout_json
from mosaic.envs.tables.table import Sight, table_json, table_text
from mosaic.policies.mapping import PolicyMapping
from mosaic.server.auth.match_keys import Access
from mosaic.server.play.advice import Advice
from mosaic.server.play.clicks import Spot, as_json, next_spots
from mosaic.server.play.episode import HUMAN, CurrentEpisode, MatchEndedError, MatchPhase, Move, PositionText, take_back
from mosaic.server.play.keys import KeyBinding
from mosaic.server.play.messages import MatchRequest, Restart
from mosaic.server.play.pace import Pace
from mosaic.server.play.participants import HumanPlayers, MatchViewers, PolicyAssignments, Viewer

SHOWN_MOVES = 300
SHOWN_BINDINGS = 80


@dataclass(slots=True)
class KeptSoFar:
    """Recording settings of a match, and the episodes recorded so far."""

    recording: bool  # every episode, as a file
    files: list[str] = field(default_factory=list)
    demo: str | None = None  # name of the demonstration that is recorded
    demo_episodes: int = 0  # added to demonstrations
    in_demo: bool = False  # whether the current one is


class MatchState:
    """Shared state of a match. Methods take the lock themselves, except those that say otherwise."""

    def __init__(self, match_id: str, request: MatchRequest, clock: Callable[[], float]) -> None:
        self.id, self.request = match_id, request
        self.viewers = MatchViewers(clock)
        self.changed = self.viewers.changed
        self.assignments = PolicyAssignments(PolicyMapping.of(request.agents))
        self.pace = Pace(request.pace, request.rate_hz, clock, request.clock)
        self.episode = CurrentEpisode(fresh_seed() if request.seed is None else request.seed)
        self.players = HumanPlayers(self.episode, self.assignments, self.viewers, self.pace)
        self.access = Access()
        self.players.held = self.access.held
        self.restart_request: Restart | None = None
        self.ending = ""  # why it is to end
        self.note = ""
        self.kept = KeptSoFar(request.record)
        self.thinking = False
        self.advice: Advice | None = None

    def join(self, viewer: Viewer) -> None:
        with self.changed:
            self.check_alive()
            self.viewers.join(viewer, self.access.held)
            if self.hides:
                self.access.hold(viewer, filter(self.assignments.is_human, viewer.claims))

    @property
    def hides(self) -> bool:
        """Return whether the game hides information from its players."""
        return self.episode.spec is not None and self.episode.spec.facts.hidden_information

    def sight_of(self, viewer: Viewer) -> Sight:
        """Return what a viewer may see. The lock is held by the caller."""
        return self.episode.sight_of(self.players.mine(viewer))

    def free_agent(self) -> set[AgentID]:
        """Return the first human agent that no viewer has claimed or holds; empty if there is none."""
        with self.changed:
            claimed = {agent for viewer in self.viewers.all for agent in viewer.claims} | self.access.held
            free = (a for a in self.episode.agents if self.assignments.is_human(a) and a not in claimed)
            return set(islice(free, 1))

    def leave(self, viewer: Viewer) -> None:
        with self.changed:
            self.viewers.leave(viewer)

    def act(self, viewer: Viewer, agent: AgentID | None, action: Json) -> None:
        with self.changed:
            self.check_alive()
            self.players.act(viewer, agent, action)

    def type_move(self, viewer: Viewer, agent: AgentID | None, text: str) -> None:
        with self.changed:
            self.check_alive()
            self.players.type_move(viewer, agent, text)

    def press(self, viewer: Viewer, agent: AgentID | None, spot: str) -> None:
        with self.changed:
            self.check_alive()
            self.players.press(viewer, agent, spot)

    def click(self, viewer: Viewer, agent: AgentID | None, x: float, y: float) -> None:
        with self.changed:
            self.check_alive()
            self.players.click(viewer, agent, x, y)

    def key(self, viewer: Viewer, code: str, key: str, down: bool) -> None:
        with self.changed:
            self.check_alive()
            if down and self.players.mine(viewer):
                self.pace.start.press(viewer)
            self.players.key(viewer, code, key, down)
            if self.pace.start.waiting:
                self.viewers.tell()

    def axes(self, viewer: Viewer, values: tuple[float, ...]) -> None:
        viewer.axes = values  # one assignment: the next step reads the old or the new

    def bind(self, viewer: Viewer, bindings: list[KeyBinding] | None) -> None:
        with self.changed:
            self.players.bind(viewer, bindings)

    def identify(self, viewer: Viewer, key: str) -> None:
        with self.changed:
            self.access.identify(viewer, key)
            self.viewers.tell()

    def ready(self, viewer: Viewer) -> None:
        with self.changed:
            if self.players.mine(viewer):
                self.pace.start.press(viewer)
            self.viewers.tell()

    def pause(self, on: bool) -> None:
        with self.changed:
            self.pace.pause(on)
            if self.pace.clocks is not None:
                self.pace.clocks.stop(on)
            self.viewers.tell()

    def step_once(self) -> None:
        with self.changed:
            self.pace.step_once()
            self.pace.start.begin(waiting=False)
            self.viewers.tell()

    def set_rate(self, viewer: Viewer, hz: float) -> None:
        with self.changed:
            self.access.check_owner(viewer, "change the speed")
            self.pace.set_rate(hz)
            self.viewers.tell()

    def restart(self, request: Restart) -> None:
        with self.changed:
            self.check_alive()
            self.restart_request = request
            self.viewers.tell()

    def undo(self, record: Episode, viewer: Viewer) -> None:
        """Let the episode continue before the viewer's last move."""
        with self.changed:
            if self.pace.real_time:
                raise InputError("Moves of a game in real time cannot be taken back.")
            if self.hides:
                raise InputError("Moves of a game with hidden information cannot be taken back.")
            late = None if self.pace.clocks is None else self.pace.clocks.flag()
            if late is not None:
                raise InputError(f"{self.episode.side_of(late)} has lost on time: no move can be taken back.")
            self.episode.opening = take_back(record, self.players.mine(viewer))
            if self.pace.clocks is not None:
                self.pace.clocks.carry_over(self.pace.clocks.left_s())

    def record(self, on: bool) -> None:
        with self.changed:
            self.kept.recording = on
            self.viewers.tell()

    def begin_episode(self) -> None:
        with self.changed:
            self.episode.begin()
            self.players.begin()
            self.pace.begin()
            self.note, self.advice, self.kept.in_demo = "", None, False

    def continue_from(self, number: int, policies: Mapping[AgentID, PolicyID], left_s: Mapping[AgentID, float]) -> None:
        """Take the episode's number, policies and times of a match that is continued, before it starts."""
        self.episode.number = number
        if self.pace.clocks is not None:
            self.pace.clocks.carry_over(left_s)
        for agent, policy in policies.items():
            if policy != self.assignments.policy_of(agent):
                self.assignments.put(agent, policy)

    def begin_play(self, agents: Collection[AgentID], record: Episode) -> None:
        """Begin with the agents of the first position. The lock is held by the caller, as for the next methods."""
        acted = {*record.policies.values(), *(change.policy for change in record.changes)}
        people = any(map(self.assignments.is_human, agents))
        self.episode.start(agents, people=HUMAN in acted or people)
        self.pace.begin_time()
        self.pace.start.begin(self.pace.real_time and self.request.ready_screen and people)
        if self.pace.clocks is not None:
            self.pace.clocks.begin(agents)

    def note_step(self, turn: Turn, record: Episode) -> None:
        """Let people act in a position, and their clocks run."""
        self.episode.phase = MatchPhase.PLAYING
        if self.pace.clocks is not None:
            moved = record.actions[-1] if record.actions else ()
            self.pace.clocks.move(moved, turn.observations, first=not record.actions)

    def until_step_s(self, watched_elsewhere: bool) -> float:
        """Return seconds until the next step; 0: now, inf: not before something changes."""
        acting, is_human = self.episode.acting, self.assignments.is_human
        until_start_s = self.pace.start.wait_s(self.players.people()) if acting else 0.0
        until_pace_s = self.pace.wait_s(
            over=not acting,
            watched=bool(self.viewers.all) or watched_elsewhere,
            people_play=any(is_human(agent) for agent in self.episode.agents),
            people_wait=any(is_human(agent) and agent not in self.players.chosen for agent in acting),
        )
        return max(until_start_s, until_pace_s)

    def until_flag_s(self) -> float:
        """Return seconds until a side has no time left."""
        return self.pace.clocks.until_flag_s() if self.pace.clocks is not None and self.episode.acting else math.inf

    def late(self) -> AgentID:
        """Return the side whose time is over."""
        return (self.pace.clocks.flag() if self.pace.clocks is not None else None) or self.episode.acting[0]

    def check_player(self, viewer: Viewer) -> None:
        """Raise if people play this match and the viewer is neither one of them nor its owner."""
        with self.changed:
            people = any(map(self.assignments.is_human, self.episode.agents))
            if people and not viewer.owner and not self.players.mine(viewer):
                raise InputError("You watch this match: its players and its owner control it.")

    def check_alive(self) -> None:
        """Raise if the match has ended. The lock is held by the caller."""
        if self.episode.phase is MatchPhase.ENDED:
            raise MatchEndedError(f"This match has ended: {self.ending or self.episode.error}")


def view_of(state: MatchState, viewer: Viewer | None = None) -> JsonObject:
    """Return the state for a viewer; without one, as for a spectator."""
    with state.changed:
        return _view(state, viewer)


def _view(state: MatchState, viewer: Viewer | None) -> JsonObject:
    episode, pace = state.episode, state.pace
    mine = [] if viewer is None else state.players.mine(viewer)
    chooser = next((agent for agent in episode.acting if agent in mine and agent not in state.players.chosen), None)
    path = () if viewer is None or chooser is None else viewer.path
    choices = () if chooser is None else episode.choices.get(chooser, ())
    others = next_spots(choices, ()) if path else []
    first, changes = mine[0] if mine else None, state.access.changes
    sight = episode.sight_of(mine)
    table = episode.view.tables.get(sight)
    advised = state.advice is not None and (sight.everything or state.advice.agent == sight.agent)
    return {
        "type": "state",
        "match_id": state.id,
        "env": state.request.environment.id if episode.spec is None else episode.spec.env_id,
        "phase": episode.phase,
        "paused": pace.paused,
        "real_time": pace.real_time,
        "rate_hz": pace.rate_hz,
        "episode": episode.number,
        "seed": episode.seed if episode.is_revealed else None,  # it would tell what is hidden
        "revealed": episode.is_revealed,
        "claims": [] if viewer is None else sorted(viewer.claims),
        "step": episode.step,
        "viewers": len(state.viewers.all),
        "owner": viewer is not None and viewer.owner,
        "ready": pace.start.view(viewer, state.players.people()),
        "clocks": None if pace.clocks is None else pace.clocks.view(),
        "news": [{"number": state.access.number - place, "text": text} for place, text in enumerate(reversed(changes))],
        "recording": state.kept.recording,
        "kept": list[Json](state.kept.files),
        "demo": state.kept.demo,
        "demo_episodes": state.kept.demo_episodes,
        "in_demo": state.kept.in_demo,
        "error": episode.error,
        "note": state.note,
        "result": episode.result,
        "verdict": episode.verdict(mine),
        "reason": episode.ending.reason,
        "layout": _layout(episode),
        "last": [list[Json](rect) for rect in episode.last],
        "undo": not pace.real_time
        and not state.hides
        and any(m.policy == HUMAN and m.agent in mine for m in episode.moves),
        "board": [list[Json](row) for row in episode.view.cells],
        "text": _text(episode.view, sight),
        "table": None if table is None else table_json(table),
        "pictures": episode.is_drawn_for(sight) and not (sight.everything and episode.view.text),
        "agents": [_agent(state, agent, mine, viewer) for agent in episode.agents],
        "chooser": chooser,
        "path": list[Json](path),
        "spots": [as_json(spot) for spot in next_spots(choices, path)],
        "others": [as_json(spot) for spot in others if spot.id not in path],  # would start another choice
        "selected": [as_json(spot) for spot in _pressed(state, chooser, path)],
        "keys": [] if viewer is None or first is None else _keys(state, viewer, mine),
        "own_keys": viewer is not None and viewer.bindings is not None,
        "axes": episode.axes_of(first) if first is not None else 0,
        "moves": [_move(move) for move in episode.moves_for(mine)[-SHOWN_MOVES:]],
        "thinking": state.thinking,
        "advice": _advice(episode, state.advice) if state.advice is not None and advised else None,
    }


def _text(view: PositionText, sight: Sight) -> str:
    if sight in view.tables:
        return table_text(view.tables[sight], sight.agent)
    return view.text if sight.everything else view.observed.get(sight.agent or "", "")


def _move(move: Move) -> Json:
    return {"step": move.step, "agent": move.agent, "policy": move.policy, "text": move.text, "san": move.san}


def _layout(episode: CurrentEpisode) -> Json:
    """Return the board for a screen that draws marks over its picture; None where there is none."""
    board = episode.view.board
    if board is None or not board.cells:
        return None
    return layout_json(board) if episode.phase is MatchPhase.OVER else {**layout_json(board), "line": []}


def _agent(state: MatchState, agent: AgentID, mine: list[AgentID], viewer: Viewer | None) -> Json:
    owner, places = viewer is not None and viewer.owner, state.episode.view.places
    seen = agent in places and (agent in mine or state.episode.is_revealed)
    return {
        "agent": agent,
        "side": state.episode.side_of(agent),
        "policy": state.assignments.policy_of(agent),
        "human": state.assignments.is_human(agent),
        "mine": agent in mine,
        "place": list[Json](places[agent]) if seen else None,
        "held": agent in state.access.held,
        "may_assign": owner or (viewer is not None and agent in viewer.holds),
        "key": state.access.key_of(agent) if owner or (viewer is not None and agent in viewer.holds) else "",
        "acting": agent in state.episode.acting and agent not in state.players.chosen,
        "back": state.assignments.back_of(agent),
        "return": state.episode.returns.get(agent, 0.0),
    }


def _pressed(state: MatchState, chooser: AgentID | None, path: tuple[str, ...]) -> tuple[Spot, ...]:
    if chooser is None or not path:
        return ()
    for choice in state.episode.choices.get(chooser, ()):
        if tuple(spot.id for spot in choice.spots[: len(path)]) == path:
            return choice.spots[: len(path)]
    return ()


def _keys(state: MatchState, viewer: Viewer, mine: list[AgentID]) -> list[Json]:
    rows: list[Json] = []
    for agent in mine[:2]:
        for binding in state.players.bindings_of(viewer, agent):
            rows.append({**binding.model_dump(mode="json"), "agent": agent if len(mine) > 1 else binding.agent})
    return rows[:SHOWN_BINDINGS]


def _advice(episode: CurrentEpisode, advice: Advice) -> Json:
    """Return the advice with the regions of its actions, and without an infinite value, which JSON does not have."""
    value = advice.value
    places = {choice.text: choice.places for choice in episode.choices.get(advice.agent, ())}
    thoughts: list[Json] = [
        {**asdict(each), "places": [list[Json](rect) for rect in places.get(each.label, ())]}
        for each in advice.thoughts
    ]
    return {
        **asdict(advice),
        "value": value if value is None or math.isfinite(value) else None,
        "thoughts": thoughts,
    }
