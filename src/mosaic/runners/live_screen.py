"""Screen for episodes that do not belong to a run, readable from any process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

from mosaic.runners.screen import Shot, develop
from mosaic.telemetry.frames.paths import pictures_requested

if TYPE_CHECKING:  # importing it loads numba
    from mosaic.telemetry.frames.writer import FrameWriter

LISTEN_EVERY_S = 0.2
_log = logging.getLogger(__name__)


class LiveScreen:
    """Frame ring in a folder, created when a viewer asks for it; until then a step only costs a clock reading.

    It can be sent to another process, which then writes instead of the one that made it.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = monotonic) -> None:
        self.folder, self._clock = folder, clock
        self._listen_at_s = 0.0
        self._writer: FrameWriter | None = None
        self._off = False

    def wanted(self) -> bool:
        return self._is_open() and self._writer is not None and self._writer.wanted()

    def is_watched(self) -> bool:
        """Return whether a viewer was active within the last two seconds, with or without a new frame."""
        return self._is_open() and self._writer is not None and self._writer.request() is not None

    def show(self, shot: Shot) -> None:
        if self._writer is None:
            return
        try:
            developed = develop([shot])
            if developed is not None:
                self._writer.publish(developed.rgb, **developed.facts)
        except Exception as error:  # noqa: BLE001 — a third-party render() may raise anything
            self._give_up(f"drawing raised {type(error).__name__}: {error}")

    def close(self, finished: bool = True) -> None:
        """Tell viewers that no more frames will come, or that they were interrupted."""
        writer, self._writer, self._off = self._writer, None, True
        if writer is not None:
            writer.close(finished)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finished=kind is None)

    def __reduce__(self) -> tuple[type[LiveScreen], tuple[Path]]:
        return LiveScreen, (self.folder,)

    def _is_open(self) -> bool:
        if self._writer is not None:
            return True
        if self._off:
            return False
        now_s = self._clock()
        if now_s < self._listen_at_s:
            return False
        self._listen_at_s = now_s + LISTEN_EVERY_S
        if pictures_requested(self.folder):
            self._open()
        return self._writer is not None

    def _open(self) -> None:
        from mosaic.core.errors import MosaicError
        from mosaic.telemetry.frames.writer import FrameWriter

        try:
            self._writer = FrameWriter(self.folder)
        except MosaicError as error:
            self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        """Stop showing frames and log why; the episodes continue."""
        _log.warning("No more pictures: %s", why)
        self.close(finished=False)
