"""Registry of a server's matches and replays: opened, found, ended."""

from __future__ import annotations

import logging
import secrets
import threading
from pathlib import Path

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import Episode, EpisodeNote, first_steps
from mosaic.core.errors import InputError, MosaicError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.record import environment_of, load_episode
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.env_trial import check_environment
from mosaic.server.play.keeping import KeptEpisodes
from mosaic.server.play.match import IDLE_S, Match
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.replays import Replay
from mosaic.server.play.saved import STOPPED, CannotRestoreError, SavedMatch
from mosaic.store.demos.summary import demo_record
from mosaic.store.errors import StorageError
from mosaic.store.live_sessions import begin_session, end_session, sweep_sessions

MOST_MATCHES, MOST_REPLAYS = 32, 16
_log = logging.getLogger(__name__)
_PATIENCE_S = 5.0  # for a match that is in the middle of a step when the server ends


class TooManyError(MosaicError):
    """Error for a request beyond the number that the server handles at a time."""


class Matches:
    def __init__(self, home: Path, *, programs: ProgramRule | None = None, idle_s: float = IDLE_S) -> None:
        self._home, self._programs, self._idle_s = home, programs or ProgramRule(home), idle_s
        self.kept = KeptEpisodes(home)
        self._lock = threading.Lock()
        self._matches: dict[str, Match] = {}
        self._replays: dict[str, Replay] = {}
        sweep_sessions(home)  # a killed server leaves those of its matches
        self.kept.saved.sweep()

    def open(self, request: MatchRequest, opening: Episode | None = None, saved: SavedMatch | None = None) -> Match:
        """Start a match, with the steps of `opening`; raise if the env or a policy cannot be created or must not be
        named. `saved` is the one that is continued.
        """
        self._programs.check_match(request.environment, request.agents)
        check_environment(request.environment)
        with self._lock:
            if len(self._matches) >= MOST_MATCHES:
                raise TooManyError(f"{MOST_MATCHES} matches are being played; end one first.")
            match_id = secrets.token_hex(4) if saved is None else saved.match_id
            if match_id in self._matches:
                raise TooManyError(f"Match {match_id} is being restored. Try again.")
            screen = self._screen(match_id, request)
            match = Match(
                match_id,
                request,
                idle_s=self._idle_s,
                opening=opening,
                kept=self.kept,
                ended=self._forget,
                screen=screen,
            )
            if saved is not None:
                match.state.continue_from(saved.number, saved.policies, saved.left_s)
                match.state.access.restore(saved.keys)
            self._matches[match_id] = match
        match.open()  # on failure it removes itself
        if request.demo is not None:
            self._begin_demo(match, request.demo)
        return match

    def find(self, match_id: str) -> Match:
        with self._lock:
            found, known = self._matches.get(match_id), list(self._matches)
        if found is not None:
            found.wait_until_open()  # it may be one that another request restores
            return found
        saved = self.kept.saved.find(match_id)
        if saved is not None:
            return self._restore(saved)
        raise unknown("match", match_id, known, "A match without viewers ends after a while; open a new one.")

    def _restore(self, saved: SavedMatch) -> Match:
        """Continue a match that another server has saved; raise with the reason if it cannot be continued."""
        request, opening = saved.request, saved.opening()
        where = f"Match {saved.match_id} ({request.environment.id}) was saved at step {opening.env_steps}"
        if not saved.reproducible and opening.env_steps:
            raise CannotRestoreError(
                f"{where} when the server stopped, but cannot be restored: the seed of this environment does not bring "
                "the same position again."
            )
        try:
            return self.open(request, opening, saved)
        except MosaicError as error:
            raise CannotRestoreError(f"{where} when the server stopped, but cannot be restored: {error}") from error

    def all(self) -> list[Match]:
        with self._lock:
            return sorted(self._matches.values(), key=lambda match: -match.started)

    def check_policy(self, policy: PolicyID) -> None:
        """Raise if a message from outside must not name this policy."""
        self._programs.check_policy(policy)

    def replay(self, episode: Episode) -> Replay:
        """Start drawing a recorded episode."""
        environment = self.replayable(episode)
        with self._lock:
            while len(self._replays) >= MOST_REPLAYS:
                self._replays.pop(next(iter(self._replays))).end()
            replay_id = secrets.token_hex(4)
            self._replays[replay_id] = replay = Replay(replay_id, environment, episode)
        replay.start()
        return replay

    def replayable(self, episode: Episode) -> EnvironmentConfig:
        """Return the env of a recorded episode; raise where this server may not run it."""
        environment = environment_of(episode)
        self._programs.check_match(environment, {})
        check_environment(environment)
        return environment

    def replay_kept(self, name: str) -> Replay:
        return self.replay(load_episode(self.kept.file(name)))

    def replay_demo(self, name: str, number: int | None) -> Replay:
        """Replay an episode of a demonstration."""
        return self.replay(demo_record(self.kept.demos, name, number))

    def play_on(self, replay: Replay, env_steps: int, agents: dict[AgentID, PolicyID]) -> Match:
        """Start a match from a position of a recorded episode."""
        episode = replay.episode
        if env_steps > episode.env_steps:
            raise InputError(f"There is no step {env_steps}; the episode has steps 0 to {episode.env_steps}.")
        opening = first_steps(episode, env_steps)
        if opening.ends.keys() >= opening.policies.keys():
            raise InputError(f"The game is over at step {env_steps}: choose an earlier position.")
        opening.notes.append(EpisodeNote(env_steps, "", "continued"))
        return self.open(MatchRequest(environment=replay.environment, agents=agents), opening)

    def find_replay(self, replay_id: str) -> Replay:
        with self._lock:
            if replay_id in self._replays:
                self._replays[replay_id] = found = self._replays.pop(replay_id)  # most recently used last
                return found
            known = list(self._replays)
        raise unknown("replay", replay_id, known, "Replays are not kept; open the episode again.")

    def close(self) -> None:
        """End every match when the server ends; wait only a limited time for one whose policy is thinking."""
        matches = self.all()
        with self._lock:
            replays = list(self._replays.values())
            self._replays.clear()
        threads: list[Match | Replay] = [*matches, *replays]
        for thread in threads:
            thread.end(STOPPED)
        for thread in threads:
            thread.join_thread(_PATIENCE_S)

    def _begin_demo(self, match: Match, name: str) -> None:
        try:
            match.record_demo(name).result()
        except MosaicError:
            match.end("its demonstration cannot be recorded.")
            raise

    def _screen(self, match_id: str, request: MatchRequest) -> LiveScreen | None:
        """Make a screen for viewers in a terminal. A full disk does not prevent playing."""
        try:
            session = begin_session(self._home, "match", request.environment.id, request.agents, match_id)
        except StorageError as error:
            _log.warning("%s", error)
            return None
        return LiveScreen(session.path)

    def _forget(self, match_id: str) -> None:
        with self._lock:
            self._matches.pop(match_id, None)
        end_session(self._home, match_id)
