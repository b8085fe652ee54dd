"""Frame writer whose ring is created when a viewer first asks; until then a step only costs a clock reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from mosaic.telemetry.frames.paths import pictures_requested

if TYPE_CHECKING:  # importing them loads numba
    import numpy as np
    from numpy.typing import NDArray

    from mosaic.telemetry.frames.layout import FrameFacts
    from mosaic.telemetry.frames.requests import FrameRequest
    from mosaic.telemetry.frames.writer import FrameWriter

LISTEN_EVERY_S = 0.2


class OnDemandWriter:
    """Writer of a folder's ring. Creating the ring may raise MosaicError, in any of the methods that ask."""

    def __init__(self, folder: Path, clock: Callable[[], float] = monotonic) -> None:
        self.folder, self._clock = folder, clock
        self._listen_at_s = 0.0
        self._writer: FrameWriter | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    def wanted(self) -> bool:
        """Return whether to draw now; cheap enough to be called at every step."""
        if self._writer is None:
            return self._opened() is not None  # the viewer that asked gets a picture, even if the end is near
        return self._writer.wanted()

    def request(self) -> FrameRequest | None:
        """Return the most recent request of a viewer; None without viewers in the last two seconds."""
        writer = self._writer or self._opened()
        return None if writer is None else writer.request()

    def publish(self, rgb: NDArray[np.uint8], **facts: Unpack[FrameFacts]) -> None:
        """Publish a picture, if the ring is open; see `FrameWriter.publish`."""
        if self._writer is not None:
            self._writer.publish(rgb, **facts)

    def close(self, finished: bool = True) -> None:
        """Tell viewers that no more frames will come, or that they were interrupted."""
        writer, self._writer, self._closed = self._writer, None, True
        if writer is not None:
            writer.close(finished)

    def _opened(self) -> FrameWriter | None:
        if self._closed:
            return None
        now_s = self._clock()
        if now_s < self._listen_at_s:
            return None
        self._listen_at_s = now_s + LISTEN_EVERY_S
        if pictures_requested(self.folder):
            from mosaic.telemetry.frames.writer import FrameWriter

            self._writer = FrameWriter(self.folder)
        return self._writer
