"""Local and remote backends for runs, exports and live sessions: this machine's store, or a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mosaic.config.export import ExportRequest
    from mosaic.runs.exporting.record import ExportRow
    from mosaic.runs.run import Run
    from mosaic.runs.trainer import Trainer
    from mosaic.store.labels import LabelChange
    from mosaic.store.live_sessions import LiveSession
    from mosaic.store.logs import Stream
    from mosaic.store.state import State
    from mosaic.store.store import Store
    from mosaic.store.views import CurvePoints, LiveRow, LogPart, RunDetails, RunRow, UnreadableRun
    from mosaic.telemetry.events.event import MetricEvent
    from mosaic.telemetry.frames.reader import Pictures
    from mosaic.telemetry.frames.requests import FrameRequest
    from mosaic.workers.resolution import ResolvedConfig


class BackendRun(Protocol):
    """A run, local or on a server."""

    id: str

    def show(self) -> RunDetails: ...

    def stop(self, patience_s: float | None = None, *, wait: bool = True) -> None: ...

    def pause(self) -> object: ...

    def resume(self, *, resources: Mapping[str, object] | None = None, settings: Sequence[str] = ()) -> object: ...

    def checkpoint(self) -> object: ...

    def label(self, change: LabelChange) -> object: ...

    def delete(self) -> None: ...

    def events(self, after_seq: int = 0) -> Iterator[MetricEvent]: ...

    def wait(self) -> State: ...

    def curve(self, metric: str, *, buckets: int) -> CurvePoints: ...

    def log(self, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart: ...

    def pictures(self, request: FrameRequest, source: str | None = None) -> Pictures: ...


class BackendSession(Protocol):
    """A live session that is not a run (a game, match or evaluation), local or on a server."""

    id: str

    def pictures(self, request: FrameRequest) -> Pictures: ...


class Backend(Protocol):
    def submit(self, config: ResolvedConfig) -> BackendRun: ...

    def submit_group(self, config: ResolvedConfig, seeds: int) -> Sequence[BackendRun]: ...

    def runs(self, *, project: str | None = None, hidden: bool = False) -> list[RunRow]: ...

    def unreadable_runs(self) -> list[UnreadableRun]: ...

    def run(self, ref: str) -> BackendRun: ...

    def sessions(self) -> list[LiveRow]: ...

    def session(self, session_id: str) -> BackendSession: ...


class _LocalBackend:
    @cached_property
    def _store(self) -> Store:  # listing does not need a trainer, whose import takes longer than the list
        from mosaic.store.store import Store

        return Store()

    @cached_property
    def _trainer(self) -> Trainer:
        from mosaic.runs.trainer import Trainer

        return Trainer()

    def submit(self, config: ResolvedConfig) -> BackendRun:
        return LocalRun(self._trainer.submit(config))

    def submit_group(self, config: ResolvedConfig, seeds: int) -> list[BackendRun]:
        return [LocalRun(run) for run in self._trainer.submit_group(config, seeds)]

    def runs(self, *, project: str | None = None, hidden: bool = False) -> list[RunRow]:
        from mosaic.store.views import row_of
        from mosaic.ui.cli.output import note

        index = self._store.index
        found = index.list(projects=self._store.project_names(project))
        rows = [row_of(summary) for summary in found if hidden or not summary.hidden]
        for text in index.notes:
            note(text)
        return rows

    def unreadable_runs(self) -> list[UnreadableRun]:
        from mosaic.store.views import unreadable_runs

        return unreadable_runs(self._store)

    def run(self, ref: str) -> BackendRun:
        return LocalRun(self._trainer.run(ref))

    def sessions(self) -> list[LiveRow]:
        from mosaic.store.store import home
        from mosaic.store.views import live_rows

        return live_rows(home())

    def session(self, session_id: str) -> BackendSession:
        from mosaic.store.live_sessions import find_session
        from mosaic.store.store import home

        return _LocalSession(find_session(home(), session_id))


class LocalRun:
    """A run of this machine's store."""

    def __init__(self, run: Run) -> None:
        self._run, self.id = run, run.id

    def show(self) -> RunDetails:
        from mosaic.store.views import details_of

        return details_of(self._run.folder)

    def stop(self, patience_s: float | None = None, *, wait: bool = True) -> None:
        self._run.stop(patience_s, wait=wait)

    def pause(self) -> None:
        self._run.pause()

    def resume(self, *, resources: Mapping[str, object] | None = None, settings: Sequence[str] = ()) -> None:
        self._run.resume(resources=resources, settings=settings)

    def checkpoint(self) -> None:
        self._run.checkpoint()

    def label(self, change: LabelChange) -> None:
        self._run.label(change)

    def delete(self) -> None:
        self._run.delete()

    def events(self, after_seq: int = 0) -> Iterator[MetricEvent]:
        return self._run.events(after_seq, follow=True)

    def wait(self) -> State:
        return self._run.wait()

    def curve(self, metric: str, *, buckets: int) -> CurvePoints:
        from mosaic.store.views import curve_of

        return curve_of(self._run.folder, metric, buckets=buckets)

    def log(self, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart:
        from mosaic.store.views import log_part

        return log_part(self._run.folder, stream, after, size)

    def pictures(self, request: FrameRequest, source: str | None = None) -> Pictures:
        from mosaic.telemetry.frames.run_pictures import RunPictures

        return RunPictures(self._run.folder.path, request, source)


class _LocalSession:
    def __init__(self, session: LiveSession) -> None:
        self._session, self.id = session, session.id

    def pictures(self, request: FrameRequest) -> Pictures:
        from mosaic.store.live_sessions import SessionPictures

        return SessionPictures(self._session, request)


@contextmanager
def open_backend(server: str | None) -> Iterator[Backend]:
    if server is None:
        yield _LocalBackend()
        return
    from mosaic.server.client.client import Client

    with Client(server) as client:
        yield client


class BackendExports(Protocol):
    """Exports; `ExportJobs` and `RemoteExports` have these verbs."""

    def start(self, request: ExportRequest) -> ExportRow: ...

    def rows(self, run: str | None = None) -> list[ExportRow]: ...

    def row(self, reference: str) -> ExportRow: ...

    def follow(self, reference: str) -> Iterator[ExportRow]: ...

    def cancel(self, reference: str) -> ExportRow: ...

    def delete(self, reference: str) -> str: ...

    def log(
        self, reference: str, after: int | None = None, size: int = 65_536, stream: Stream = "stdout"
    ) -> LogPart: ...

    def download(self, reference: str, name: str, to: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class BackendExport:
    """An export, whose log is printed like that of a run."""

    exports: BackendExports
    id: str

    def show(self) -> ExportRow:
        return self.exports.row(self.id)

    def log(self, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart:
        return self.exports.log(self.id, after, size, stream)


@contextmanager
def open_exports(server: str | None) -> Iterator[BackendExports]:
    if server is None:
        from mosaic.runs.exporting.jobs import ExportJobs

        yield ExportJobs()
        return
    from mosaic.server.client.client import Client
    from mosaic.server.client.exports import RemoteExports

    with Client(server) as client:
        yield RemoteExports(client)
