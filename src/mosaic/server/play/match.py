"""Match: one env that humans and policies play together, in its own thread.

Only that thread touches the env and the policies, between two steps; the shared state is a MatchState.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from enum import Enum, auto
from time import monotonic, time
from typing import Any, TypeVar

from mosaic.core.episode import Episode, EpisodeNote
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.core.user_code import exits_refused
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.policies.registry import parse_policy
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.local import EnvFailedError, LocalEnvRunner
from mosaic.runners.record import episode_from_json, episode_to_json
from mosaic.server.play.advice import Advisors
from mosaic.server.play.clicks import choices
from mosaic.server.play.episode import HUMAN, MatchEndedError, MatchPhase, PositionText
from mosaic.server.play.keeping import EpisodeRecorder, KeptEpisodes
from mosaic.server.play.keys import key_map
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.participants import HumanController, Viewer
from mosaic.server.play.rendering import MatchScreen, position_of
from mosaic.server.play.state import MatchState

T = TypeVar("T")
IDLE_S = 300.0  # an unwatched match ends after this long
MOST_ORDERS = 100  # waiting for the end of a step

_log = logging.getLogger(__name__)


class _Next(Enum):
    STEP = auto()
    RESTART = auto()
    REWIND = auto()  # to the steps of the next opening
    FLAG = auto()  # a side has no time left
    END = auto()


class Match:
    def __init__(
        self,
        match_id: str,
        request: MatchRequest,
        *,
        idle_s: float = IDLE_S,
        opening: Episode | None = None,
        clock: Callable[[], float] = monotonic,
        kept: KeptEpisodes | None = None,
        ended: Callable[[str], None] | None = None,
        screen: LiveScreen | None = None,
    ) -> None:
        """Create a match, not yet started.

        `opening` holds the steps that its first episode begins with. `kept` stores its episodes; `ended` is called
        when the match ends; `screen` is for viewers outside the web page.
        """
        self.id, self.started = match_id, time()
        self.state = MatchState(match_id, request, clock)
        if opening is not None:
            self.state.episode.seed, self.state.episode.opening = opening.seed, opening
        self._idle_s, self._on_end = idle_s, ended
        self._recorder = EpisodeRecorder(match_id, self.state, kept)
        self._opened: Future[None] = Future()
        self._orders: deque[tuple[Callable[[LocalEnvRunner], Any], Future[Any]]] = deque()
        self._thread = threading.Thread(target=self._main, name=f"match-{match_id}", daemon=True)
        self._human, self._advisors = HumanController(), Advisors()
        self.screen = MatchScreen(self.state, screen)

    def open(self) -> None:
        """Start the match; raise if the env or a policy cannot be created."""
        self._thread.start()
        self.wait_until_open()

    def wait_until_open(self) -> None:
        """Wait until the first position is ready; raise if the env or a policy cannot be created."""
        self._opened.result()

    @property
    def is_open(self) -> bool:
        """Return whether the first position is ready."""
        return self._opened.done() and self._opened.exception() is None

    def think(self, on: bool) -> None:
        state = self.state

        def change(runner: LocalEnvRunner) -> None:
            state.thinking, state.advice = on, None
            if on and state.episode.turn is not None:
                self._think(runner, state.episode.turn)

        self._order(change)

    def assign(self, agent: AgentID, policy: PolicyID | None, viewer: Viewer) -> Future[None]:
        """Let another policy act from the next step on, if the viewer may; None restores the previous one."""
        state = self.state

        def change(runner: LocalEnvRunner) -> None:
            state.episode.check_agent(agent)
            self._put(runner, {agent: policy or state.assignments.back_of(agent)}, [agent], viewer)
            if viewer.claims or not viewer.shares:
                (viewer.claims.add if policy == HUMAN else viewer.claims.discard)(agent)

        return self._order(change)

    def swap(self, viewer: Viewer) -> Future[None]:
        """Rotate the policies among the agents; the viewers' claims move along."""
        state = self.state

        def change(runner: LocalEnvRunner) -> None:
            agents = state.episode.agents
            rotated = state.assignments.rotated(agents)
            changed = {a: policy for a, policy in rotated.items() if policy != state.assignments.policy_of(a)}
            self._put(runner, changed, agents, viewer)
            state.access.swap(state.viewers.all, dict(zip(agents, [*agents[1:], *agents[:1]], strict=True)))

        return self._order(change)

    def undo(self, viewer: Viewer) -> Future[None]:
        """Take back the viewer's last move and what policies replied; the record says so."""
        return self._order(lambda runner: self.state.undo(runner.record, viewer))

    def record_demo(self, name: str | None) -> Future[None]:
        """Add every episode to this demonstration from now on, the current one whole; None: no more."""
        return self._order(lambda runner: self._recorder.record_demo(name, runner.record))

    def current_episode(self) -> Future[Episode]:
        """Return a copy of the current episode so far, or of the last one."""

        def copy(runner: LocalEnvRunner) -> Episode:
            if not self.state.episode.is_revealed:
                raise InputError(
                    "This game hides information from its players: its episode can be read when it is over."
                )
            return episode_from_json(episode_to_json(runner.record))

        return self._order(copy)

    def end(self, why: str) -> None:
        state = self.state
        with state.changed:
            state.ending = state.ending or why
            state.changed.notify_all()

    def join_thread(self, timeout_s: float) -> bool:
        """Return whether its thread ended in time; one that waits for a policy continues until that returns."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _order(self, do: Callable[[LocalEnvRunner], T]) -> Future[T]:
        """Schedule a function to be called between two steps."""
        state = self.state
        answer: Future[T] = Future()
        with state.changed:
            state.check_alive()
            if len(self._orders) >= MOST_ORDERS:
                raise InputError("This match is busy: it has received too many requests at once. Try again.")
            self._orders.append((do, answer))
            state.changed.notify_all()
        return answer

    def _main(self) -> None:
        state = self.state
        env: Env | None = None
        try:
            with exits_refused(state.request.environment.id):
                env = make_env(state.request.environment)
                runner = LocalEnvRunner(
                    env, state.assignments, seed=state.episode.seed, controllers={HUMAN: self._human}
                )
                state.episode.spec = env.spec
                with runner:
                    while self._play(runner):
                        pass
        except Exception as error:  # noqa: BLE001 - raised to the caller that opens the match, else logged
            if env is not None:
                env.close()
            if not self._opened.done():
                self._opened.set_exception(error)
            else:
                state.ending = state.ending or f"it failed: {error}"
                _log.exception("Match %s failed", self.id)
        finally:
            self.screen.close()
            self._advisors.close()
            self._close()

    def _close(self) -> None:
        state = self.state
        if self._opened.exception() is None:  # else a saved match that cannot be restored, for a reason that may pass
            self._recorder.forget()
        with state.changed:
            state.episode.phase = MatchPhase.ENDED
            state.episode.error = state.episode.error or state.ending
            for _, answer in self._orders:
                answer.set_exception(MatchEndedError(f"This match has ended: {state.ending}"))
            self._orders.clear()
            state.viewers.tell()
        if self._on_end is not None:
            self._on_end(self.id)

    def _play(self, runner: LocalEnvRunner) -> bool:
        """Play one episode and return whether another follows."""
        episode = self.state.episode
        self.state.begin_episode()
        self._advisors.begin()
        try:
            asked = self._run(runner)
        except (Exception, SystemExit) as error:
            if not self._opened.done():
                raise
            if isinstance(error, MosaicError) and not isinstance(error, EnvFailedError):
                return self._fail(runner, str(error)) is not _Next.END
            _log.exception("The env of match %s failed", self.id)
            cause = error.__cause__ if isinstance(error, EnvFailedError) else error  # the seed is not for all players
            asked = self._fail(
                runner,
                f"{episode.known_spec.env_id} failed at step {episode.step}: {type(cause).__name__}: {cause}",
            )
        return asked is not _Next.END

    def _run(self, runner: LocalEnvRunner) -> _Next:
        state = self.state
        seed, number, limit = state.episode.seed, state.episode.number, state.request.max_steps
        opening = state.episode.take_opening()
        turns = runner.turns(seed, episode=number, max_steps=limit, digests=True, opening=opening)
        try:
            for turn in turns:
                restoring = opening is not None and runner.record.env_steps < opening.env_steps
                self._saw(runner, turn, restoring)
                if turn.over or restoring:
                    continue
                asked = self._wait(runner)
                if asked is _Next.END:
                    self._recorder.save(runner.env, runner.record, last=True)
                if asked is _Next.REWIND:
                    return asked
                if asked is _Next.FLAG:
                    runner.record.cut = True
                    runner.record.notes.append(EpisodeNote(runner.record.env_steps, state.late(), "lost_on_time"))
                    break
                if asked is not _Next.STEP:
                    runner.record.cut = True
                    self._recorder.store(runner.record)
                    return asked
                with state.changed:
                    self._human.actions = state.players.take(turn)
        finally:
            turns.close()  # type: ignore[attr-defined]
        with state.changed:
            state.episode.finish(runner.record, runner.env.spec.facts)
            state.viewers.tell()
        if opening is None or runner.record.env_steps > opening.env_steps:  # else it was stored before a restart
            self._recorder.store(runner.record)
        return self._wait(runner)

    def _fail(self, runner: LocalEnvRunner, why: str) -> _Next:
        state = self.state
        with state.changed:
            state.episode.phase, state.episode.error = MatchPhase.FAILED, why
            state.viewers.tell()
        return self._wait(runner)

    def _saw(self, runner: LocalEnvRunner, turn: Turn, restoring: bool) -> None:
        """Update the state after a step, before viewers are notified; `restoring`: a step of the opening follows."""
        state, episode, pace = self.state, self.state.episode, self.state.pace
        env, first = runner.env, runner.record.env_steps == 0
        agents = env.possible_agents or tuple(turn.rewards) if first else tuple(turn.observations)
        self._recorder.note(env, turn, runner.record)
        if not restoring:  # before viewers learn of the step: what they have seen is not lost
            self._recorder.save(env, runner.record, last=turn.over)
        born = {a: key_map(env, env.action_spaces[a]) for a in agents if first or a not in episode.key_maps}
        if state.thinking and not restoring and turn.observations and (not pace.real_time or state.viewers.is_due()):
            self._think(runner, turn)
        view = position_of(env, turn, episode.view.observed)
        found = {a: choices(env.spec, turn, a) for a in turn.observations if not pace.real_time or first}
        with state.changed:
            if first:
                if not self._opened.done():
                    pace.fit(env, agents)
                state.begin_play(agents, runner.record)
            elif not pace.real_time:
                episode.note_moves(runner.record, view.board)
            episode.advance(turn, runner.record.env_steps, born)
            episode.view = view if view != PositionText() else episode.view
            if found or not pace.real_time:
                episode.choices = found
            pace.advance()
            if restoring:
                return
            state.note_step(turn, runner.record)
            if not pace.real_time or first or turn.over or state.viewers.is_due():
                state.viewers.tell()
        if not self._opened.done():
            self._opened.set_result(None)

    def _think(self, runner: LocalEnvRunner, turn: Turn) -> None:
        advice = self._advisors.consider(runner, turn, self.state.assignments, self._recorder.seen_before)
        with self.state.changed:
            self.state.advice = advice or self.state.advice
            self.state.viewers.tell()

    def _put(
        self, runner: LocalEnvRunner, policies: Mapping[AgentID, PolicyID], agents: Iterable[AgentID], viewer: Viewer
    ) -> None:
        """Give agents to other policies if the viewer holds all of `agents` or owns the match; notify all viewers."""
        state = self.state
        with state.changed:
            state.access.check_holder(viewer, agents)
            changes = {agent: (state.assignments.policy_of(agent), policy) for agent, policy in policies.items()}
        for agent, policy in policies.items():
            if policy != HUMAN:
                parse_policy(policy)
            if state.episode.phase is MatchPhase.PLAYING:
                runner.set_policy_for_agent(agent, policy)
            with state.changed:
                state.assignments.put(agent, policy)
                state.episode.people |= policy == HUMAN
                state.players.chosen.pop(agent, None)
                for each in state.viewers.all:
                    each.path = ()
        with state.changed:
            state.access.tell(viewer, changes)
        turn = state.episode.turn
        if state.thinking and turn is not None and turn.observations:
            self._think(runner, turn)

    def _wait(self, runner: LocalEnvRunner) -> _Next:
        """Carry out orders and draw, until a step is due, a restart is requested, or the match is to end."""
        state = self.state
        while True:
            with state.changed:
                order = self._orders.popleft() if self._orders else None
                page, live = self.screen.owes()
                if order is None and not page and not live:
                    asked = self._asked()
                    if asked is not None:
                        return asked
                    state.changed.wait(self._pause_s())
                    continue
            if order is not None:
                self._carry_out(runner, *order)
            else:
                self.screen.show(runner.env, page, live)

    def _asked(self) -> _Next | None:
        state = self.state
        if state.ending:
            return _Next.END
        if state.episode.opening is not None:
            return _Next.REWIND
        if state.restart_request is not None:
            state.episode.follow(state.restart_request.seed)
            state.restart_request = None
            return _Next.RESTART
        if not state.viewers.all and self.screen.is_watched_live:
            state.viewers.stay_open()
        if state.viewers.until_idle_s(self._idle_s) <= 0:
            state.ending = f"it had no viewer for {self._idle_s:g} seconds."
            return _Next.END
        if state.until_flag_s() <= 0:
            return _Next.FLAG
        if state.until_step_s(self.screen.is_watched_live) > 0:
            return None
        state.pace.take_step()
        return _Next.STEP

    def _pause_s(self) -> float | None:
        state, screen = self.state, self.screen
        until_idle_s = state.viewers.until_idle_s(self._idle_s)
        until_step_s = state.until_step_s(screen.is_watched_live)
        shortest = min(until_step_s, until_idle_s, state.until_flag_s(), screen.listen_every_s)
        return None if math.isinf(shortest) else max(shortest, 0.0)

    def _carry_out(self, runner: LocalEnvRunner, do: Callable[[LocalEnvRunner], Any], answer: Future[Any]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            done = do(runner)
        except Exception as error:  # noqa: BLE001 - it is passed to the caller that gave the order
            answer.set_exception(error)
        else:
            answer.set_result(done)
        with self.state.changed:
            self.state.viewers.tell()
