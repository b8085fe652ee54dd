"""Connection of the app to a match: a thread that receives, the newest state and picture, and messages to it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from mosaic.core.errors import MosaicError
from mosaic.core.ids import Json
from mosaic.ui.tui.play.view import MatchView

if TYPE_CHECKING:
    from mosaic.server.client.matches import MatchLink
    from mosaic.telemetry.frames.reader import Frame

MOST_PICTURES_HZ = 12.0  # that a terminal is sent
_MOST_REFUSALS = 20


class MatchUpdate(NamedTuple):
    """Messages received since the last update; None or empty where there are none."""

    view: MatchView | None
    frame: Frame | None
    refusals: tuple[str, ...]
    over: str  # why no more will come


class MatchConnection:
    """Connection to one match. `notify` is called in another thread when there is an update, once until it is taken."""

    def __init__(self, link: MatchLink, notify: Callable[[], object]) -> None:
        self._link, self._notify = link, notify
        self._lock = Lock()
        self._view: MatchView | None = None
        self._frame: Frame | None = None
        self._refusals: deque[str] = deque(maxlen=_MOST_REFUSALS)
        self._over, self._told, self._closed = "", False, False
        self._seen_s = 0.0

    def start(self) -> None:
        Thread(target=self._receive, name="mosaic-match", daemon=True).start()

    def take(self) -> MatchUpdate:
        with self._lock:
            update = MatchUpdate(self._view, self._frame, tuple(self._refusals), self._over)
            self._view = self._frame = None
            self._refusals.clear()
            self._told = False
        return update

    def send(self, kind: str, **parts: Json) -> None:
        self._link.send({"type": kind, **parts})

    def until_next_picture_s(self) -> float:
        """Return when the next picture may be asked for, so that a slow terminal is not flooded; count from now."""
        now = monotonic()
        wait = max(0.0, self._seen_s + 1 / MOST_PICTURES_HZ - now)
        self._seen_s = now + wait
        return wait

    def leave(self, *, end: bool) -> None:
        """Close the connection; with `end`, end the match for everyone."""
        self._closed = True
        if end:
            self._link.end()
        else:
            self._link.close()

    def _receive(self) -> None:
        while not self._closed:
            try:
                self._take_in(self._link.receive())
            except (MosaicError, OSError, ValueError) as error:  # the last: the link is closed while it waits
                self._tell(over=str(error) or type(error).__name__)
                return

    def _take_in(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            from mosaic.telemetry.pictures.message import unpack

            self._tell(frame=unpack(message).frame())
            return
        document = json.loads(message)
        if document["type"] == "refused":
            self._tell(refusal=str(document["text"]))
        else:
            self._tell(view=MatchView.model_validate(document))

    def _tell(
        self, *, view: MatchView | None = None, frame: Frame | None = None, refusal: str = "", over: str = ""
    ) -> None:
        with self._lock:
            self._view, self._frame = view or self._view, frame or self._frame
            self._over = self._over or over
            if refusal:
                self._refusals.append(refusal)
            told, self._told = self._told, True
        if not told and not self._closed:
            self._notify()
