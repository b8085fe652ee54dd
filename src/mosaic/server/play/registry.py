"""Registry of a server's matches and replays: opened, found, ended, and the stored episodes."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from pathlib import Path

from mosaic.core.episode import Episode
from mosaic.core.errors import MosaicError, unknown
from mosaic.core.ids import PolicyID
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.record import environment_of, load_episode, save_episode
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.env_trial import check_environment
from mosaic.server.play.match import IDLE_S, Match
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.replays import Replay
from mosaic.store.atomic import private_folder
from mosaic.store.errors import StorageError
from mosaic.store.live_sessions import begin_session, end_session, sweep_sessions

MOST_MATCHES, MOST_REPLAYS = 32, 16
_END = ".episode.json"
_log = logging.getLogger(__name__)
_PATIENCE_S = 5.0  # for a match that is in the middle of a step when the server ends


class TooManyError(MosaicError):
    """Error for a request beyond the number that the server handles at a time."""


class Matches:
    def __init__(self, home: Path, *, programs: ProgramRule | None = None, idle_s: float = IDLE_S) -> None:
        self._home, self._programs, self._idle_s = home, programs or ProgramRule(home), idle_s
        self._lock = threading.Lock()
        self._matches: dict[str, Match] = {}
        self._replays: dict[str, Replay] = {}
        sweep_sessions(home)  # a killed server leaves those of its matches

    def open(self, request: MatchRequest) -> Match:
        """Start a match; raise if the env or a policy cannot be created or must not be named."""
        self._programs.check_match(request.environment, request.agents)
        check_environment(request.environment)
        with self._lock:
            if len(self._matches) >= MOST_MATCHES:
                raise TooManyError(f"{MOST_MATCHES} matches are being played; end one first.")
            match_id = secrets.token_hex(4)
            screen = self._screen(match_id, request)
            match = Match(match_id, request, idle_s=self._idle_s, keep=self.keep, ended=self._forget, screen=screen)
            self._matches[match_id] = match
        match.open()  # on failure it removes itself
        return match

    def find(self, match_id: str) -> Match:
        with self._lock:
            if match_id in self._matches:
                return self._matches[match_id]
            known = list(self._matches)
        raise unknown("match", match_id, known, "A match without viewers ends after a while; open a new one.")

    def all(self) -> list[Match]:
        with self._lock:
            return sorted(self._matches.values(), key=lambda match: -match.started)

    def check_policy(self, policy: PolicyID) -> None:
        """Raise if a message from outside must not name this policy."""
        self._programs.check_policy(policy)

    def keep(self, name: str, episode: Episode) -> str:
        """Store an episode and return its name in `episodes`."""
        env = re.sub(r"[^A-Za-z0-9_.-]+", "-", str(episode.environment.get("env_id", "env")))
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        full = f"{env}-{when}-{name}"
        private_folder(self._home)
        private_folder(self._folder)
        save_episode(self._folder / f"{full}{_END}", episode)
        return full

    def kept(self) -> list[Path]:
        """Return the stored episodes, newest first."""
        found = [path for path in self._folder.glob(f"*{_END}") if path.is_file()] if self._folder.is_dir() else []
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)

    def kept_file(self, name: str) -> Path:
        """Look the name up among the files that exist; it is never joined to a path."""
        files = {path.name.removesuffix(_END): path for path in self.kept()}
        if name not in files:
            raise unknown("recorded episode", name, files)
        return files[name]

    def replay(self, episode: Episode) -> Replay:
        """Start drawing a recorded episode."""
        environment = environment_of(episode)
        self._programs.check_match(environment, {})
        check_environment(environment)
        with self._lock:
            while len(self._replays) >= MOST_REPLAYS:
                self._replays.pop(next(iter(self._replays))).end()
            replay_id = secrets.token_hex(4)
            self._replays[replay_id] = replay = Replay(replay_id, environment, episode)
        replay.start()
        return replay

    def replay_kept(self, name: str) -> Replay:
        return self.replay(load_episode(self.kept_file(name)))

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
            thread.end("the server was stopped.")
        for thread in threads:
            thread.join_thread(_PATIENCE_S)

    @property
    def _folder(self) -> Path:
        return self._home / "episodes"

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
