"""Live sessions other than runs: evaluations, tournaments, games on a terminal, matches.

Each has a folder `live/<id>` for as long as it lasts, where other processes find it and request its pictures.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mosaic.core.errors import InputError, unknown
from mosaic.core.machine import is_current
from mosaic.core.proc import started_at
from mosaic.core.system import boot_id
from mosaic.runners.live_screen import LiveScreen
from mosaic.store.atomic import private_folder, remove_folder
from mosaic.store.errors import StorageError, reason
from mosaic.store.store import home as store_home
from mosaic.telemetry.frames.paths import remove_ring, request_pictures
from mosaic.telemetry.frames.reader import Frame, LivePictures, StreamState
from mosaic.telemetry.frames.requests import FrameRequest

_FOLDER, _ABOUT, _PASSING = "live", "about.json", ".passing-"


@dataclass(frozen=True, slots=True)
class About:
    kind: str  # evaluate, tournament, play, match
    env: str
    policies: Mapping[str, str]  # agent or pattern → policy
    began: float  # seconds since 1970
    pid: int  # the session ends with this process
    started: int  # of that process, in ticks since boot: a later one with the same pid is another
    boot: str = ""  # see mosaic.core.machine


@dataclass(frozen=True, slots=True)
class LiveSession:
    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    def about(self) -> About | None:
        """Return the session's description; None where it has ended, or where a power cut left a part of it."""
        try:
            return About(**json.loads((self.path / _ABOUT).read_bytes()))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None

    def is_on(self) -> bool:
        about = self.about()
        return about is not None and is_current(about.boot) and _is_alive(about.pid, about.started)

    def ask(self) -> None:
        """Request pictures; the session notices within a fraction of a second."""
        request_pictures(self.path)

    def end(self) -> None:
        """Remove everything; idempotent, and allowed for other processes if its own has died."""
        remove_ring(self.path)
        trash = self.path.with_name(_passing_name())  # a request for pictures finds no folder from here on
        with suppress(FileNotFoundError):
            os.rename(self.path, trash)
            remove_folder(trash)


def begin_session(
    home: Path, kind: str, env: str, policies: Mapping[str, str], session_id: str | None = None
) -> LiveSession:
    """Create a live session atomically, after removing the remains of dead ones. The caller ends it."""
    folder, pid = home / _FOLDER, os.getpid()
    about = About(kind, env, dict(policies), time.time(), pid, started_at(pid) or 0, boot_id())
    session = LiveSession(folder / (session_id or f"{kind}-{secrets.token_hex(2)}"))
    new = folder / _passing_name()
    try:
        sweep_sessions(home)
        private_folder(home)
        private_folder(folder)
        new.mkdir(mode=0o700)
        (new / _ABOUT).write_text(json.dumps(asdict(about)))
        os.rename(new, session.path)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)  # report the original error; the rest is swept later
        raise StorageError(
            f"This cannot be watched: '{session.path}' could not be created: {reason(error)}."
        ) from error
    return session


def end_session(home: Path, session_id: str) -> None:
    """End a session whose process has died, or will not end it."""
    LiveSession(home / _FOLDER / session_id).end()


@contextmanager
def live_screen(
    kind: str, env: str, policies: Mapping[str, str], *, session_id: str | None = None, home: Path | None = None
) -> Iterator[LiveScreen]:
    """Offer pictures of what is played inside the block to `mosaic watch`, under the id `KIND-…` or `session_id`.

    `kind` is evaluate, tournament or play; `home` is $MOSAIC_HOME unless given.
    """
    session = begin_session(store_home() if home is None else home, kind, env, policies, session_id)
    try:
        with LiveScreen(session.path) as screen:
            yield screen
    finally:
        session.end()


def list_sessions(home: Path) -> list[LiveSession]:
    """Return the sessions in progress, newest first."""
    found = [
        (about.began, session) for session in _all(home) if (about := session.about()) is not None and session.is_on()
    ]
    return [session for _, session in sorted(found, key=lambda each: each[0], reverse=True)]


def find_session(home: Path, reference: str) -> LiveSession:
    """Find a session by its id or a unique prefix of it."""
    known = list_sessions(home)
    for session in known:
        if session.id == reference:
            return session
    begun = [session for session in known if reference and session.id.startswith(reference)]
    if len(begun) > 1:
        names = ", ".join(session.id for session in begun)
        raise InputError(f"{len(begun)} running games begin with '{reference}': {names}. Type more.")
    if not begun:
        raise unknown("running game", reference, [session.id for session in known])
    return begun[0]


def sweep_sessions(home: Path) -> None:
    """Remove what dead processes left."""
    for path in _folders(home):
        if path.name.startswith(_PASSING):
            pid, started = path.name.split("-")[1:3]
            if not _is_alive(int(pid), int(started)):
                remove_folder(path)
        elif not LiveSession(path).is_on():
            LiveSession(path).end()


def _all(home: Path) -> list[LiveSession]:
    return [LiveSession(path) for path in _folders(home) if not path.name.startswith(_PASSING)]


def _folders(home: Path) -> list[Path]:
    try:
        return list((home / _FOLDER).iterdir())
    except FileNotFoundError:
        return []


def _passing_name() -> str:
    """Return a name for a folder being created or removed; it names the process, so that its remains can be swept."""
    pid = os.getpid()
    return f"{_PASSING}{pid}-{started_at(pid) or 0}-{secrets.token_hex(4)}"


def _is_alive(pid: int, started: int) -> bool:
    return started_at(pid) == started


class SessionPictures:
    """Pictures of a session. Its writers may follow one another, in several processes; the session decides the end."""

    def __init__(self, session: LiveSession, request: FrameRequest) -> None:
        self._session = session
        self._pictures = LivePictures(session.path, request)

    def newest(self) -> Frame | None:
        self._session.ask()
        return self._pictures.newest()

    @property
    def state(self) -> StreamState:
        is_on, state = self._session.is_on(), self._pictures.state
        if is_on:
            return "waiting" if state in ("finished", "writer died") else state
        return "writer died" if state == "writer died" else "finished"

    def close(self) -> None:
        self._pictures.close()
