"""Match: one env that humans and policies play together, in its own thread.

Only that thread touches the env and the policies, between two steps; the shared state is a MatchState.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum, auto
from time import monotonic, time
from typing import Any, TypeVar

from mosaic.core.episode import Episode
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.core.user_code import exits_refused
from mosaic.envs.board_cells import board_cells
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.policies.registry import parse_policy
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.record import episode_from_json, episode_to_json
from mosaic.server.play.advice import Advisors
from mosaic.server.play.clicks import choices
from mosaic.server.play.episode import MatchEndedError, MatchPhase, PositionText, result_of
from mosaic.server.play.keys import key_map
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.participants import HUMAN, HumanController, Viewer, require_owner
from mosaic.server.play.rendering import MatchScreen, hanabi_text
from mosaic.server.play.state import MatchState

T = TypeVar("T")
IDLE_S = 300.0  # an unwatched match ends after this long
MOST_ORDERS = 100  # waiting for the end of a step

_log = logging.getLogger(__name__)


class _Next(Enum):
    STEP = auto()
    RESTART = auto()
    END = auto()


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
        screen: LiveScreen | None = None,
    ) -> None:
        """Create a match, not yet started.

        `keep` stores an episode and returns its name; `ended` is called when the match ends; `screen` is for viewers
        outside the web page.
        """
        self.id, self.started = match_id, time()
        self.state = MatchState(match_id, request, clock)
        self._idle_s, self._keep, self._on_end = idle_s, keep, ended
        self._opened: Future[None] = Future()
        self._orders: deque[tuple[Callable[[LocalEnvRunner], Any], Future[Any]]] = deque()
        self._thread = threading.Thread(target=self._main, name=f"match-{match_id}", daemon=True)
        self._human, self._advisors = HumanController(), Advisors()
        self.screen = MatchScreen(self.state, screen)

    def open(self) -> None:
        """Start the match; raise if the env or a policy cannot be created."""
        self._thread.start()
        self._opened.result()

    def think(self, on: bool) -> None:
        state = self.state

        def change(runner: LocalEnvRunner) -> None:
            state.thinking, state.advice = on, None
            if on and state.episode.turn is not None:
                self._think(runner, state.episode.turn)

        self._order(change)

    def assign(self, agent: AgentID, policy: PolicyID | None, viewer: Viewer | None = None) -> Future[None]:
        """Let another policy act from the next step on; None restores the previous one."""
        state = self.state

        def change(runner: LocalEnvRunner) -> None:
            state.episode.check_agent(agent)
            if viewer is not None:
                require_owner(viewer, state.viewers.all, [agent])
            self._put(runner, {agent: policy or state.assignments.back_of(agent)})
            if viewer is not None and viewer.claims:
                (viewer.claims.add if policy == HUMAN else viewer.claims.discard)(agent)

        return self._order(change)

    def swap(self, viewer: Viewer | None = None) -> Future[None]:
        """Rotate the policies among the agents; the viewers' claims move along."""
        state = self.state

        def change(runner: LocalEnvRunner) -> None:
            agents = state.episode.agents
            if viewer is not None:
                require_owner(viewer, state.viewers.all, agents)
            rotated = state.assignments.rotated(agents)
            follows = dict(zip(agents, [*agents[1:], *agents[:1]], strict=True))
            self._put(runner, {a: policy for a, policy in rotated.items() if policy != state.assignments.policy_of(a)})
            for each in state.viewers.all:
                each.claims = {follows.get(agent, agent) for agent in each.claims}

        return self._order(change)

    def current_episode(self) -> Future[Episode]:
        """Return a copy of the current episode so far, or of the last one."""

        def copy(runner: LocalEnvRunner) -> Episode:
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
                raise InputError("This match is busy: too much was asked of it at once. Try again.")
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
                    env, state.assignments, seed=state.request.seed, controllers={HUMAN: self._human}
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
        try:
            asked = self._run(runner)
        except MosaicError as error:
            if not self._opened.done():
                raise
            asked = self._fail(runner, str(error))
        except (Exception, SystemExit) as error:
            if not self._opened.done():
                raise
            _log.exception("The env of match %s failed", self.id)
            asked = self._fail(
                runner,
                f"{episode.known_spec.env_id} failed at step {episode.step}: {type(error).__name__}: {error}",
            )
        return asked is _Next.RESTART

    def _run(self, runner: LocalEnvRunner) -> _Next:
        state = self.state
        seed, number = state.episode.seed, state.episode.number
        turns = runner.turns(seed, episode=number, max_steps=state.request.max_steps, digests=True)
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
                with state.changed:
                    self._human.actions = state.players.take(turn)
        finally:
            turns.close()  # type: ignore[attr-defined]
        with state.changed:
            state.episode.phase = MatchPhase.OVER
            state.episode.result = result_of(runner.record, runner.env.spec.facts)
            state.viewers.tell()
        self._store(runner)
        return self._wait(runner)

    def _fail(self, runner: LocalEnvRunner, why: str) -> _Next:
        state = self.state
        with state.changed:
            state.episode.phase, state.episode.error = MatchPhase.FAILED, why
            state.viewers.tell()
        return self._wait(runner)

    def _saw(self, runner: LocalEnvRunner, turn: Turn) -> None:
        """Update the state after a step, before viewers are notified."""
        state, episode, pace = self.state, self.state.episode, self.state.pace
        env, first = runner.env, runner.record.env_steps == 0
        agents = env.possible_agents or tuple(turn.rewards) if first else tuple(turn.observations)
        born = {a: key_map(env, env.action_spaces[a]) for a in agents if first or a not in episode.key_maps}
        if state.thinking and turn.observations and (not pace.real_time or state.viewers.is_due()):
            self._think(runner, turn)
        view = PositionText(board_cells(env), hanabi_text(env))
        found = {a: choices(env.spec, turn, a) for a in turn.observations if not pace.real_time or first}
        with state.changed:
            if first:
                if episode.phase is MatchPhase.OPENING:
                    pace.fit(env, agents)
                episode.start(agents)
                pace.start()
            elif not pace.real_time:
                episode.note_moves(runner.record)
            episode.advance(turn, runner.record.env_steps, born)
            episode.view = view if view.cells or view.text else episode.view
            if found or not pace.real_time:
                episode.choices = found
            pace.advance()
            if not pace.real_time or first or turn.over or state.viewers.is_due():
                state.viewers.tell()
        if not self._opened.done():
            self._opened.set_result(None)

    def _think(self, runner: LocalEnvRunner, turn: Turn) -> None:
        state = self.state
        people = [agent for agent in turn.observations if state.assignments.is_human(agent)]
        agent = next(iter(people or turn.observations), None)
        if agent is None:
            return
        policy = state.assignments.back_of(agent) if people else state.assignments.policy_of(agent)
        controller = None if people else runner.controllers.players[agent].controller
        names = {choice.action: choice.label for choice in choices(runner.env.spec, turn, agent)}
        advice = self._advisors.ask(runner.env.spec, agent, policy, turn, controller, names)
        with state.changed:
            state.advice = advice
            state.viewers.tell()

    def _put(self, runner: LocalEnvRunner, policies: Mapping[AgentID, PolicyID]) -> None:
        state = self.state
        for agent, policy in policies.items():
            if policy != HUMAN:
                parse_policy(policy)
            if state.episode.phase is MatchPhase.PLAYING:
                runner.set_policy_for_agent(agent, policy)
            with state.changed:
                state.assignments.put(agent, policy)
                state.players.chosen.pop(agent, None)
                for viewer in state.viewers.all:
                    viewer.path = ()
        turn = state.episode.turn
        if state.thinking and turn is not None and turn.observations:
            self._think(runner, turn)

    def _store(self, runner: LocalEnvRunner) -> None:
        state = self.state
        if not state.recording or self._keep is None or not runner.record.env_steps:
            return
        try:
            name = self._keep(f"{self.id}-{state.episode.number}", runner.record)
        except OSError as error:
            with state.changed:
                state.note = f"The episode could not be kept: {error}."
                state.viewers.tell()
            return
        with state.changed:
            state.kept.append(name)
            state.viewers.tell()

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
        if state.restart_request is not None:
            state.episode.follow(state.restart_request.seed)
            state.restart_request = None
            return _Next.RESTART
        if not state.viewers.all and self.screen.is_watched_live:
            state.viewers.stay_open()
        if state.viewers.until_idle_s(self._idle_s) <= 0:
            state.ending = f"it had no viewer for {self._idle_s:g} seconds."
            return _Next.END
        if self._until_step_s() > 0:
            return None
        state.pace.take_step()
        return _Next.STEP

    def _pause_s(self) -> float | None:
        until_idle_s = self.state.viewers.until_idle_s(self._idle_s)
        shortest = min(self._until_step_s(), until_idle_s, self.screen.listen_every_s)
        return None if math.isinf(shortest) else max(shortest, 0.0)

    def _until_step_s(self) -> float:
        state = self.state
        acting, is_human = state.episode.acting, state.assignments.is_human
        return state.pace.wait_s(
            over=not acting,
            watched=bool(state.viewers.all) or self.screen.is_watched_live,
            people_play=any(is_human(agent) for agent in state.episode.agents),
            people_wait=any(is_human(agent) and agent not in state.players.chosen for agent in acting),
        )

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
