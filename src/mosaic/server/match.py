"""A match: one env that people and policies play together, in a thread of its own.

Screens call its methods from any thread. They change what is known under one lock; whatever touches the env or a policy
is done by the match's own thread, between two steps.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from time import monotonic, time
from typing import Any, TypeVar

from mosaic.core.episode import Episode, outcomes
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.spaces import objection
from mosaic.policies.mapping import PolicyMapping
from mosaic.policies.registry import parse_policy
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.record import episode_from_json, episode_to_json
from mosaic.server.match_actions import Choice, choices, next_spots, press, spot_at
from mosaic.server.match_advice import Advice, Advisors
from mosaic.server.match_keys import Binding, KeyMap, check_bindings, held_action, key_map
from mosaic.server.match_pace import DEFAULT_TURNS_HZ, Moment, wait_s
from mosaic.server.match_person import Person, plays_in_real_time, rate_of, read_action
from mosaic.server.match_pictures import Picture, encode_picture
from mosaic.server.match_request import MatchRequest
from mosaic.server.match_seats import HUMAN, Seats, Viewer, acts_for, who_acts

T = TypeVar("T")
IDLE_S = 300.0  # a match that nobody watches for this long ends
STATE_EVERY_S = 0.2  # of a game in real time; its pictures tell more often how it stands
MOST_MOVES = 2000  # that are remembered for the list of moves

_log = logging.getLogger(__name__)


class Phase(StrEnum):
    OPENING = auto()
    PLAYING = auto()
    OVER = auto()
    FAILED = auto()
    ENDED = auto()


class MatchEndedError(MosaicError):
    """Nothing can be done to it any more."""


class _Next(Enum):
    STEP = auto()
    RESTART = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Frame:
    """The newest picture. `number` grows with every one."""

    number: int
    header: Mapping[str, Any]
    data: bytes


@dataclass(frozen=True, slots=True)
class Move:
    step: int
    agent: AgentID
    policy: PolicyID
    text: str


class Match:
    def __init__(
        self,
        match_id: str,
        request: MatchRequest,
        *,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = monotonic,
        keep: Callable[[str, Episode], str] | None = None,
        ended: Callable[[str], None] | None = None,
    ) -> None:
        """`keep` stores an episode and answers its name; `ended` hears of the match's end."""
        self.id, self.request, self.started = match_id, request, time()
        self._idle_s, self._clock, self._keep, self._on_end = idle_s, clock, keep, ended
        self._changed = threading.Condition()
        self._opened: Future[None] = Future()
        self._orders: deque[tuple[Callable[[LocalEnvRunner], Any], Future[Any]]] = deque()
        self._thread = threading.Thread(target=self._main, name=f"match-{match_id}", daemon=True)
        self._seats = Seats(PolicyMapping.of(request.agents))
        self._person, self._advisors = Person(), Advisors()
        self._viewers: list[Viewer] = []
        self._unwatched_since = clock()
        self._ending = ""  # why it shall end
        self._restart_seed: int | None = None
        self._restart_asked = False
        self._paused, self._steps_asked = False, 0
        self._real_time, self._rate_hz = False, request.rate_hz or DEFAULT_TURNS_HZ
        self._due_s = 0.0
        self._answers: dict[AgentID, Action] = {}
        self._last_actions: dict[AgentID, Action] = {}
        self._key_maps: dict[AgentID, KeyMap] = {}
        self.recording, self.thinking = request.record, False
        self.kept: list[str] = []
        # how it stands
        self.spec: EnvSpec | None = None
        self.agents: tuple[AgentID, ...] = ()
        self.phase, self.error, self.note, self.result = Phase.OPENING, "", "", ""
        self.episode, self.seed, self.step = 0, request.seed, 0
        self.moves: list[Move] = []
        self.returns: dict[AgentID, float] = {}
        self.advice: Advice | None = None
        self._turn: Turn | None = None
        self._choices: dict[AgentID, tuple[Choice, ...]] = {}
        self._told_at_s = -math.inf
        self._shown = (-1, -1)  # episode and step of the newest picture
        self.frame: Frame | None = None
        self.version = 0

    # ---- what screens call ------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Starts it; raises if the env or a policy cannot be made."""
        self._thread.start()
        self._opened.result()

    def join(self, viewer: Viewer) -> None:
        with self._changed:
            self._check_alive()
            self._viewers.append(viewer)
            self._tell()

    def leave(self, viewer: Viewer) -> None:
        with self._changed:
            if viewer in self._viewers:
                self._viewers.remove(viewer)
            if not self._viewers:
                self._unwatched_since = self._clock()
            self._tell()

    def act(self, viewer: Viewer, agent: AgentID | None, data: Any) -> None:
        with self._changed:
            agent = self._who(viewer, agent)
            self._answer(agent, read_action(self._spec.action_spaces[agent], data))

    def press(self, viewer: Viewer, agent: AgentID | None, spot: str) -> None:
        with self._changed:
            self._press(viewer, self._who(viewer, agent), spot)

    def click(self, viewer: Viewer, agent: AgentID | None, x: float, y: float) -> None:
        with self._changed:
            agent = self._who(viewer, agent)
            self._press(viewer, agent, spot_at(self._choices.get(agent, ()), viewer.path, x, y))

    def key(self, viewer: Viewer, code: str, key: str, down: bool) -> None:
        """In real time keys are held; in games of turns going down chooses."""
        with self._changed:
            self._check_alive()
            if not down:
                viewer.held.pop(code, None)
                return
            viewer.held[code] = viewer.tapped[code] = None
            acting = [a for a in self._acts_for(viewer) if self._turn is not None and a in self._turn.observations]
            if self._real_time or not acting or self.phase is not Phase.PLAYING:
                return
            typed = [s.id for s in next_spots(self._choices.get(acting[0], ()), viewer.path) if s.key and s.key == key]
            if typed:
                self._press(viewer, acting[0], typed[0])
                return
            bindings = self._bindings(viewer, acting[0])
            if any(code in binding.keys for binding in bindings):
                keys = self._key_maps[acting[0]]
                self._answer(acting[0], held_action(keys, bindings, tuple(viewer.held), viewer.axes))

    def axes(self, viewer: Viewer, values: tuple[float, ...]) -> None:
        viewer.axes = values  # one assignment: the next step reads the old or the new

    def bind(self, viewer: Viewer, bindings: list[Binding] | None) -> None:
        with self._changed:
            space = next((self._spec.action_spaces[agent] for agent in self.agents), None)
            viewer.bindings = None if bindings is None or space is None else check_bindings(space, bindings)
            self._tell()

    def pause(self, on: bool) -> None:
        with self._changed:
            self._paused, self._steps_asked = on, 0
            self._tell()

    def step_once(self) -> None:
        """One env step while it is paused; a game that runs is paused by it."""
        with self._changed:
            self._paused = True
            self._steps_asked += 1
            self._tell()

    def restart(self, seed: int | None = None) -> None:
        with self._changed:
            self._check_alive()
            self._restart_asked, self._restart_seed = True, seed
            self._tell()

    def set_rate(self, hz: float) -> None:
        with self._changed:
            self._rate_hz, self._due_s = hz, self._clock()
            self._tell()

    def think(self, on: bool) -> None:
        def change(runner: LocalEnvRunner) -> None:
            self.thinking, self.advice = on, None
            if on and self._turn is not None:
                self._think(runner, self._turn)

        self._order(change)

    def record(self, on: bool) -> None:
        with self._changed:
            self.recording = on
            self._tell()

    def sit(self, agent: AgentID, policy: PolicyID | None, viewer: Viewer | None = None) -> Future[None]:
        """Another policy acts from the next step on; None hands the place back to the one before."""

        def change(runner: LocalEnvRunner) -> None:
            if agent not in self.agents:
                raise InputError(f"There is no agent '{agent}' in this match. Agents: {', '.join(self.agents)}.")
            self._put(runner, {agent: policy or self._seats.back_of(agent)})
            if viewer is not None and viewer.claims:
                (viewer.claims.add if policy == HUMAN else viewer.claims.discard)(agent)

        return self._order(change)

    def swap(self) -> Future[None]:
        """The policies change places; people who claimed an agent move along."""

        def change(runner: LocalEnvRunner) -> None:
            rotated = self._seats.rotated(self.agents)
            follows = dict(zip(self.agents, [*self.agents[1:], *self.agents[:1]], strict=True))
            self._put(runner, {a: policy for a, policy in rotated.items() if policy != self._seats.policy_of(a)})
            for viewer in self._viewers:
                viewer.claims = {follows.get(agent, agent) for agent in viewer.claims}

        return self._order(change)

    def current_episode(self) -> Future[Episode]:
        """A copy of what was played so far in this episode, or of the last one."""

        def copy(runner: LocalEnvRunner) -> Episode:
            return episode_from_json(episode_to_json(runner.record))

        return self._order(copy)

    def end(self, why: str) -> None:
        with self._changed:
            self._ending = self._ending or why
            self._changed.notify_all()

    def join_thread(self, timeout_s: float) -> bool:
        """Whether its thread ended in time; one that waits for a policy goes on until that answers."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def snapshot(self, viewer: Viewer | None = None) -> dict[str, Any]:
        """How it stands, as this viewer sees it."""
        from mosaic.server.match_view import view_of

        with self._changed:
            return view_of(self, viewer)

    # ---- what the view reads ----------------------------------------------------------------------------------------
    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def real_time(self) -> bool:
        return self._real_time

    @property
    def rate_hz(self) -> float:
        return self._rate_hz

    @property
    def viewers(self) -> tuple[Viewer, ...]:
        return tuple(self._viewers)

    @property
    def seats(self) -> Seats:
        return self._seats

    @property
    def acting(self) -> tuple[AgentID, ...]:
        live = self._turn is not None and self.phase is Phase.PLAYING
        return tuple(self._turn.observations) if self._turn is not None and live else ()

    @property
    def answered(self) -> frozenset[AgentID]:
        return frozenset(self._answers)

    def choices_of(self, agent: AgentID) -> tuple[Choice, ...]:
        return self._choices.get(agent, ())

    def mine(self, viewer: Viewer) -> list[AgentID]:
        return self._acts_for(viewer)

    def bindings_of(self, viewer: Viewer, agent: AgentID) -> tuple[Binding, ...]:
        return self._bindings(viewer, agent) if agent in self._key_maps else ()

    def axes_of(self, agent: AgentID) -> int:
        """How many axes a mouse or gamepad can move."""
        space = self._spec.action_spaces[agent]
        return int(space.shape[0]) if space.dtype is not None and space.dtype.kind == "f" and space.shape else 0

    # ---- under the lock ---------------------------------------------------------------------------------------------
    @property
    def _spec(self) -> EnvSpec:
        if self.spec is None:
            raise MatchEndedError("The match has not begun.")
        return self.spec

    def _check_alive(self) -> None:
        if self.phase is Phase.ENDED:
            raise MatchEndedError(f"This match has ended: {self._ending or self.error}")

    def _tell(self) -> None:
        self.version += 1
        self._told_at_s = self._clock()
        self._changed.notify_all()
        for viewer in self._viewers:
            viewer.notify()

    def _acts_for(self, viewer: Viewer) -> list[AgentID]:
        return acts_for(viewer, self._viewers, [agent for agent in self.agents if self._seats.is_human(agent)])

    def _who(self, viewer: Viewer, wanted: AgentID | None) -> AgentID:
        self._check_alive()
        if self.phase is Phase.OVER:
            raise InputError("The episode is over. Restart to play again.")
        if self.phase is Phase.FAILED:
            raise InputError(f"The episode cannot go on: {self.error} Restart to play again.")
        known = wanted is not None and wanted in self.agents
        if wanted is not None and not known:
            raise InputError(f"There is no agent '{wanted}' in this match. Agents: {', '.join(self.agents)}.")
        human = wanted is not None and self._seats.is_human(wanted)
        return who_acts(wanted, self._acts_for(viewer), self.acting, human)

    def _press(self, viewer: Viewer, agent: AgentID, spot: str) -> None:
        pressed = press(self._choices.get(agent, ()), viewer.path, spot)
        viewer.path = pressed.path
        if pressed.action is None:
            self._tell()
        else:
            self._answer(agent, pressed.action)

    def _answer(self, agent: AgentID, action: Action) -> None:
        turn = self._turn
        mask = None if turn is None else turn.action_masks.get(agent)
        problem = objection(self._spec.action_spaces[agent])(action, mask)
        if problem:
            raise InputError(f"'{agent}' may not play {problem}.")
        self._answers[agent] = action
        self._tell()

    def _bindings(self, viewer: Viewer, agent: AgentID) -> tuple[Binding, ...]:
        """Two people at one keyboard have a hand each; one alone has both."""
        if viewer.bindings is not None:
            return viewer.bindings
        keys, mine = self._key_maps[agent], self._acts_for(viewer)
        if len(mine) < 2:
            return keys.both
        return (keys.left, keys.right)[mine.index(agent)] if mine.index(agent) < 2 else ()

    def _held(self, agent: AgentID) -> Action:
        """What the person who plays the agent holds now."""
        keys = self._key_maps[agent]
        for viewer in self._viewers:
            if agent in self._acts_for(viewer):
                held = tuple({**viewer.tapped, **viewer.held})
                found = held_action(keys, self._bindings(viewer, agent), held, viewer.axes)
                if found is not None:
                    return found
        last = self._last_actions.get(agent)
        if last is not None:
            return last
        return keys.rest if keys.rest is not None else self._choices[agent][0].action

    def _take_answers(self, turn: Turn) -> dict[AgentID, Action]:
        taken: dict[AgentID, Action] = {}
        for agent in turn.observations:
            if self._seats.is_human(agent):
                taken[agent] = self._answers[agent] if agent in self._answers else self._held(agent)
        self._answers.clear()
        self._last_actions.update(taken)
        for viewer in self._viewers:
            viewer.tapped.clear()
            viewer.path = ()
        return taken

    # ---- the match's own thread -------------------------------------------------------------------------------------
    def _order(self, do: Callable[[LocalEnvRunner], T]) -> Future[T]:
        """To be done between two steps."""
        answer: Future[T] = Future()
        with self._changed:
            self._check_alive()
            self._orders.append((do, answer))
            self._changed.notify_all()
        return answer

    def _main(self) -> None:
        env: Env | None = None
        try:
            env = make_env(self.request.environment)
            runner = LocalEnvRunner(env, self._seats, seed=self.request.seed, controllers={HUMAN: self._person})
            self.spec = env.spec
            with runner:
                while self._play(runner):
                    pass
        except Exception as error:  # noqa: BLE001 - whoever waits for the match to open gets it, else it is logged
            if env is not None:
                env.close()
            if not self._opened.done():
                self._opened.set_exception(error)
            else:
                self._ending = self._ending or f"it failed: {error}"
                _log.exception("Match %s failed", self.id)
        finally:
            self._advisors.close()
            self._close()

    def _close(self) -> None:
        with self._changed:
            self.phase = Phase.ENDED
            self.error = self.error or self._ending
            for _, answer in self._orders:
                answer.set_exception(MatchEndedError(f"This match has ended: {self._ending}"))
            self._orders.clear()
            self._tell()
        if self._on_end is not None:
            self._on_end(self.id)

    def _play(self, runner: LocalEnvRunner) -> bool:
        """One episode; whether another shall follow."""
        self._begin()
        try:
            asked = self._run(runner)
        except MosaicError as error:
            if not self._opened.done():
                raise
            asked = self._fail(runner, str(error))
        except Exception as error:
            if not self._opened.done():
                raise
            _log.exception("The env of match %s failed", self.id)
            asked = self._fail(
                runner, f"{self._spec.env_id} failed at step {self.step}: {type(error).__name__}: {error}"
            )
        return asked is _Next.RESTART

    def _begin(self) -> None:
        with self._changed:
            self.step, self.moves, self.returns, self.advice = 0, [], {}, None
            self.error = self.note = self.result = ""
            self._answers.clear()
            self._last_actions.clear()
            self._steps_asked = 0

    def _run(self, runner: LocalEnvRunner) -> _Next:
        turns = runner.turns(self.seed, episode=self.episode, max_steps=self.request.max_steps, digests=True)
        try:
            for turn in turns:
                self._saw(runner, turn)
                if turn.over:
                    continue
                asked = self._wait(runner)
                if asked is not _Next.STEP:
                    runner.record.cut = True
                    self._store(runner)
                    return asked
                with self._changed:
                    self._person.answers = self._take_answers(turn)
        finally:
            turns.close()  # type: ignore[attr-defined]
        with self._changed:
            self.phase, self.result = Phase.OVER, _result(runner)
            self._tell()
        self._store(runner)
        return self._wait(runner)

    def _fail(self, runner: LocalEnvRunner, why: str) -> _Next:
        with self._changed:
            self.phase, self.error = Phase.FAILED, why
            self._tell()
        return self._wait(runner)

    def _saw(self, runner: LocalEnvRunner, turn: Turn) -> None:
        """A step was taken: everything that is known of it, before anybody is told."""
        env, first = runner.env, runner.record.env_steps == 0
        if first:
            agents = env.possible_agents or tuple(turn.rewards)
            key_maps = {agent: key_map(env, env.action_spaces[agent]) for agent in agents}
            real_time = plays_in_real_time(env, self.request.pace, agents)
        if self.thinking and turn.observations and (not self._real_time or self._is_due()):
            self._think(runner, turn)
        found = {a: choices(env.spec, turn, a) for a in turn.observations if not self._real_time or first}
        with self._changed:
            if first:
                self.agents, self._key_maps = agents, key_maps
                if self.phase is Phase.OPENING:
                    self._real_time = real_time
                    self._rate_hz = self.request.rate_hz or rate_of(env, real_time)
                self.phase, self._due_s = Phase.PLAYING, self._clock()
                self.returns = dict.fromkeys(agents, 0.0)
            else:
                self._note_moves(runner)
            for agent, reward in turn.rewards.items():
                self.returns[agent] = self.returns.get(agent, 0.0) + reward
            self._turn, self.step = turn, runner.record.env_steps
            if found or not self._real_time:
                self._choices = found
            self._due_s = max(self._due_s + 1 / self._rate_hz, self._clock() - 1 / self._rate_hz)
            if not self._real_time or first or turn.over or self._is_due():
                self._tell()
        if not self._opened.done():
            self._opened.set_result(None)

    def _is_due(self) -> bool:
        return self._clock() - self._told_at_s >= STATE_EVERY_S

    def _note_moves(self, runner: LocalEnvRunner) -> None:
        if self._real_time:
            return
        step, record = runner.record.env_steps, runner.record
        for agent, action in record.actions[-1].items():
            names = {choice.action: choice.label for choice in self._choices.get(agent, ())}
            text = names.get(action, str(action)) if isinstance(action, int) else str(action)
            self.moves.append(Move(step, agent, record.policy_of(agent, step - 1), text))
        del self.moves[:-MOST_MOVES]

    def _think(self, runner: LocalEnvRunner, turn: Turn) -> None:
        people = [agent for agent in turn.observations if self._seats.is_human(agent)]
        agent = next(iter(people or turn.observations), None)
        if agent is None:
            return
        policy = self._seats.back_of(agent) if people else self._seats.policy_of(agent)
        controller = None if people else runner.cast.players[agent].controller
        names = {choice.action: choice.label for choice in choices(runner.env.spec, turn, agent)}
        advice = self._advisors.ask(runner.env.spec, agent, policy, turn, controller, names)
        with self._changed:
            self.advice = advice
            self._tell()

    def _put(self, runner: LocalEnvRunner, policies: Mapping[AgentID, PolicyID]) -> None:
        for agent, policy in policies.items():
            if policy != HUMAN:
                parse_policy(policy)
            if self.phase is Phase.PLAYING:
                runner.set_policy_for_agent(agent, policy)
            with self._changed:
                self._seats.put(agent, policy)
                self._answers.pop(agent, None)
                for viewer in self._viewers:
                    viewer.path = ()
        if self.thinking and self._turn is not None and self._turn.observations:
            self._think(runner, self._turn)

    def _store(self, runner: LocalEnvRunner) -> None:
        if not self.recording or self._keep is None or not runner.record.env_steps:
            return
        try:
            name = self._keep(f"{self.id}-{self.episode}", runner.record)
        except OSError as error:
            with self._changed:
                self.note = f"The episode could not be kept: {error}."
                self._tell()
            return
        with self._changed:
            self.kept.append(name)
            self._tell()

    def _wait(self, runner: LocalEnvRunner) -> _Next:
        """Carries out orders and draws, until a step is due, a restart is asked for, or the match shall end."""
        while True:
            with self._changed:
                order = self._orders.popleft() if self._orders else None
                drawn = self._shown == (self.episode, self.step) or not self._viewers
                if order is None and drawn:
                    asked = self._asked()
                    if asked is not None:
                        return asked
                    self._changed.wait(self._pause_s())
                    continue
            if order is not None:
                self._carry_out(runner, *order)
            else:
                self._draw(runner.env)

    def _asked(self) -> _Next | None:
        if self._ending:
            return _Next.END
        if self._restart_asked:
            self._restart_asked = False
            self.seed = self.seed + 1 if self._restart_seed is None else self._restart_seed
            self.episode += 1
            return _Next.RESTART
        if not self._viewers and self._clock() - self._unwatched_since >= self._idle_s:
            self._ending = f"nobody watched it for {self._idle_s:g} seconds."
            return _Next.END
        if wait_s(self._moment()) > 0:
            return None
        self._steps_asked = max(0, self._steps_asked - 1)
        return _Next.STEP

    def _pause_s(self) -> float | None:
        until_step = wait_s(self._moment())
        until_idle = math.inf if self._viewers else self._unwatched_since + self._idle_s - self._clock()
        shortest = min(until_step, until_idle)
        return None if math.isinf(shortest) else max(shortest, 0.0)

    def _moment(self) -> Moment:
        acting = self.acting
        people = [agent for agent in acting if self._seats.is_human(agent)]
        return Moment(
            over=self.phase is not Phase.PLAYING or not acting,
            watched=bool(self._viewers),
            paused=self._paused,
            steps_asked=self._steps_asked,
            people_wait=any(agent not in self._answers for agent in people),
            people_play=any(self._seats.is_human(agent) for agent in self.agents),
            real_time=self._real_time,
            now_s=self._clock(),
            due_s=self._due_s,
        )

    def _carry_out(self, runner: LocalEnvRunner, do: Callable[[LocalEnvRunner], Any], answer: Future[Any]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            done = do(runner)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever gave the order
            answer.set_exception(error)
        else:
            answer.set_result(done)
        with self._changed:
            self._tell()

    def _draw(self, env: Env) -> None:
        picture, problem = None, ""
        try:
            pixels = env.render()
            picture = None if pixels is None else encode_picture(pixels)
        except Exception as error:  # noqa: BLE001 - a game without a picture can still be played
            problem = f"{self._spec.env_id} cannot be drawn: {type(error).__name__}: {error}"
            _log.exception("Match %s cannot be drawn", self.id)
        with self._changed:
            self._shown = (self.episode, self.step)
            if problem and not self.note:
                self.note = problem
                self._tell()
            if picture is not None:
                self.frame = self._framed(picture)
                for viewer in self._viewers:
                    viewer.notify()

    def _framed(self, picture: Picture) -> Frame:
        header = {
            "type": "frame",
            "episode": self.episode,
            "step": self.step,
            "kind": picture.kind,
            "width": picture.width,
            "height": picture.height,
            "returns": self.returns,
            "time": time(),
        }
        return Frame(self.frame.number + 1 if self.frame else 1, header, picture.data)


def _result(runner: LocalEnvRunner) -> str:
    """Who won, or what everybody got."""
    record, facts = runner.record, runner.env.spec.facts
    if record.cut:
        return f"Cut after {record.env_steps} env steps."
    if facts.competitive and record.returns:
        words = outcomes(record.returns, facts.win_above)
        winners = [agent for agent, word in words.items() if word == "win"]
        return f"{winners[0]} ({record.policy_of(winners[0], record.env_steps)}) wins." if winners else "A draw."
    returns = record.returns
    if len(returns) > 4:
        return f"Over after {record.env_steps} env steps. Mean return {sum(returns.values()) / len(returns):.4g}."
    shown = ", ".join(f"{agent} {value:.4g}" for agent, value in returns.items())
    return f"Over after {record.env_steps} env steps. Return: {shown}."
