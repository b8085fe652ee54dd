"""Inbox of a worker: requests to stop, pause, or save a checkpoint while it trains."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Inbox:
    """Requests from the host's thread, read by the worker between iterations."""

    def __init__(self, tell: Callable[[str], None] = lambda progress: None) -> None:
        self._tell = tell
        self._changed = threading.Condition()
        self._stop: str | None = None
        self._pause = self._checkpoint = False
        self.paused = False  # whether the worker is waiting
        self.reporting = threading.Lock()  # held to report, and to begin a pause: no report comes after "paused"

    def stop_asked(self) -> str | None:
        """Return why the worker should stop, or None."""
        return self._stop

    def wait_for_stop(self, timeout_s: float) -> bool:
        """Return whether a stop is requested within the time; for a thread that forwards it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stop is not None, timeout_s)

    def checkpoint_asked(self) -> bool:
        """Return whether a checkpoint is requested now, and clear the request."""
        with self._changed:
            asked, self._checkpoint = self._checkpoint, False
        return asked

    def pause_asked(self) -> bool:
        return self._pause and not self._stop

    def wait_while_paused(self, save: Callable[[], object] | None = None) -> None:
        """Wait until a pause is over or a stop is requested; return at once if there is no pause.

        `save` is called if a checkpoint is requested meanwhile; without it, the request is served after the pause.
        """
        if not self.pause_asked():
            return
        with self.reporting:
            self.paused = True
        self._tell("paused")
        while self.pause_asked():
            with self._changed:
                self._changed.wait_for(lambda: not self.pause_asked() or (save and self._checkpoint))
            if save and self.checkpoint_asked():
                save()
        self.paused = False
        self._tell("resumed")

    def put(self, command: str, reason: str = "asked to") -> None:
        with self._changed:
            match command:
                case "stop":
                    self._stop = self._stop or reason
                case "pause":
                    self._pause = True
                case "resume":
                    self._pause = False
                case "checkpoint":
                    self._checkpoint = True
                case _:
                    raise ValueError(f"'{command}' is not a command: stop, pause, resume, checkpoint.")
            self._changed.notify_all()
