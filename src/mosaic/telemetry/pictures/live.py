"""The newest picture of a run, wherever it comes from, and how its writer is."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from mosaic.telemetry.frames.reader import Frame, FrameReader, LaneState
from mosaic.telemetry.frames.requests import Wish, checked


class Pictures(Protocol):
    """What a screen asks as often as it is drawn. Not asked for two seconds, the run draws no more."""

    def newest(self) -> Frame | None:
        """None where nothing new came since it was asked last."""
        ...

    @property
    def state(self) -> LaneState: ...

    def close(self) -> None: ...


class LivePictures:
    """Of a run on this machine."""

    def __init__(self, run_folder: Path, wish: Wish) -> None:
        self._wish = checked(wish)
        self._reader = FrameReader(run_folder)

    def newest(self) -> Frame | None:
        self._reader.look(*self._wish)
        return self._reader.read()

    @property
    def state(self) -> LaneState:
        return self._reader.state()

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
