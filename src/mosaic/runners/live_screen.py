"""Screen for episodes that do not belong to a run, readable from any process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Self

from mosaic.core.errors import MosaicError
from mosaic.runners.screen import Shot, develop
from mosaic.telemetry.frames.on_demand import OnDemandWriter

_log = logging.getLogger(__name__)


class LiveScreen:
    """Frame ring in a folder, created when a viewer asks for it; until then a step only costs a clock reading.

    It can be sent to another process, which then writes instead of the one that made it.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = monotonic) -> None:
        self.folder, self._writer = folder, OnDemandWriter(folder, clock)
        self.undrawn = False  # whether there was nothing to show to a viewer

    def wanted(self) -> bool:
        try:
            return self._writer.wanted()
        except MosaicError as error:
            self._give_up(str(error))
            return False

    @property
    def is_open(self) -> bool:
        """Return whether a viewer has requested frames and they are being shown."""
        return self._writer.is_open

    def is_watched(self) -> bool:
        """Return whether a viewer was active within the last two seconds, with or without a new frame."""
        try:
            return self._writer.request() is not None
        except MosaicError as error:
            self._give_up(str(error))
            return False

    def show(self, shot: Shot) -> None:
        if not self.is_open:
            return
        try:
            developed = develop([shot])
            self.undrawn = developed is None
            if developed is not None:
                self._writer.publish(developed.rgb, **developed.facts)
        except Exception as error:  # noqa: BLE001 — a third-party render() may raise anything
            self._give_up(f"drawing raised {type(error).__name__}: {error}")

    def close(self, finished: bool = True) -> None:
        """Tell viewers that no more frames will come, or that they were interrupted."""
        self._writer.close(finished)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finished=kind is None)

    def __reduce__(self) -> tuple[type[LiveScreen], tuple[Path]]:
        return LiveScreen, (self.folder,)

    def _give_up(self, why: str) -> None:
        """Stop showing frames and log why; the episodes continue."""
        _log.warning("No more pictures: %s", why)
        self.close(finished=False)
