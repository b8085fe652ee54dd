"""Pictures of a run on this machine: of one source, or of whichever is active."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic

from mosaic.telemetry.frames.paths import request_pictures
from mosaic.telemetry.frames.reader import Frame, LivePictures, StreamState
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.sources import EVALUATION, has_sources, source_folder, usual_source, wait_for_source

_CHOOSE_EVERY_S = 0.1


class RunPictures:
    """Pictures of a run. Without `source`: its only one, or of several the evaluation while it lasts, else the first.

    A run with one ring shows its evaluations there, labelled as such, so that they can be a source too. Writers of a
    source may follow one another: the run decides the end.
    """

    def __init__(
        self,
        run_folder: Path,
        request: FrameRequest,
        source: str | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._run_folder, self._request, self._source, self._clock = run_folder, request, source, clock
        self._folder = self._chosen()
        self._pictures = LivePictures(self._folder, request)
        self._choose_at_s = clock() + _CHOOSE_EVERY_S

    def newest(self) -> Frame | None:
        if self._clock() >= self._choose_at_s:
            self._choose_at_s = self._clock() + _CHOOSE_EVERY_S
            self._follow()
        if self._folder != self._run_folder:
            request_pictures(self._folder)
            return self._pictures.newest()
        frame = self._pictures.newest()
        training = frame is not None and not frame.agent.startswith(EVALUATION)
        return None if self._source == EVALUATION and training else frame

    @property
    def state(self) -> StreamState:
        state = self._pictures.state
        over = state in ("finished", "writer died")
        return "waiting" if over and self._folder != self._run_folder and has_sources(self._run_folder) else state

    def close(self) -> None:
        self._pictures.close()

    def _chosen(self) -> Path:
        if self._source == EVALUATION and not has_sources(self._run_folder):
            return self._run_folder
        source = self._source or usual_source(self._run_folder)
        return self._run_folder if source is None else source_folder(self._run_folder, source)

    def _follow(self) -> None:
        folder = self._chosen()
        awaited = self._source or EVALUATION  # which may be over before a viewer and its writer have found each other
        if not source_folder(self._run_folder, awaited).is_dir():
            wait_for_source(self._run_folder, awaited)
        if folder == self._folder or folder == self._run_folder:  # the last source remains open after the end
            return
        self._pictures.close()
        self._folder, self._pictures = folder, LivePictures(folder, self._request)
