"""Newest picture of a run from any source, and the state of its writer."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from mosaic.telemetry.frames.reader import Frame, FrameReader, StreamState
from mosaic.telemetry.frames.requests import FrameRequest, checked


class Pictures(Protocol):
    """Source of pictures, polled as often as a screen is drawn. Not polled for two seconds, the run stops rendering."""

    def newest(self) -> Frame | None:
        """Return the newest frame; None where nothing new came since the last call."""
        ...

    @property
    def state(self) -> StreamState: ...

    def close(self) -> None: ...


class LivePictures:
    """Pictures of a run on this machine."""

    def __init__(self, run_folder: Path, request: FrameRequest) -> None:
        self._request = checked(request)
        self._reader = FrameReader(run_folder)

    def newest(self) -> Frame | None:
        self._reader.look(*self._request)
        return self._reader.read()

    @property
    def state(self) -> StreamState:
        return self._reader.state()

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
