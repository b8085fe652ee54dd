"""Local and remote backends for runs and live sessions: this machine's store, or a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig
    from mosaic.runs.run import Run
    from mosaic.runs.trainer import Trainer
    from mosaic.server.schemas import CurvePoints, LiveRow, LogPart, RunDetails, RunRow
    from mosaic.store.live_sessions import Show
    from mosaic.store.logs import Stream
    from mosaic.store.state import State
    from mosaic.telemetry.frames.requests import Wish
    from mosaic.telemetry.pictures.live import Pictures


class PlacedRun(Protocol):
    """A run, local or on a server."""

    id: str

    def show(self) -> RunDetails: ...

    def stop(self, patience_s: float | None = None, *, wait: bool = True) -> None: ...

    def pause(self) -> object: ...

    def resume(self, *, resources: Mapping[str, Any] | None = None, settings: Sequence[str] = ()) -> object: ...

    def checkpoint(self) -> object: ...

    def delete(self) -> None: ...

    def events(self, after_seq: int = 0) -> Iterator[Mapping[str, Any]]: ...

    def wait(self) -> State: ...

    def curve(self, metric: str, *, buckets: int) -> CurvePoints: ...

    def log(self, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart: ...

    def pictures(self, wish: Wish) -> Pictures: ...


class PlacedShow(Protocol):
    """A live session that is not a run (a game, match or evaluation), local or on a server."""

    id: str

    def pictures(self, wish: Wish) -> Pictures: ...


class Backend(Protocol):
    def submit(self, config: RunConfig, *, group: str = "") -> PlacedRun: ...

    def runs(self) -> list[RunRow]: ...

    def run(self, ref: str) -> PlacedRun: ...

    def shows(self) -> list[LiveRow]: ...

    def show(self, show_id: str) -> PlacedShow: ...


class _Here:
    @cached_property
    def _trainer(self) -> Trainer:
        from mosaic.runs.trainer import Trainer

        return Trainer()

    def submit(self, config: RunConfig, *, group: str = "") -> PlacedRun:
        return _RunHere(self._trainer.submit(config, group=group or None))

    def runs(self) -> list[RunRow]:
        from mosaic.server.views import row_of
        from mosaic.store.store import Store
        from mosaic.ui.cli.output import note

        index = Store().index  # listing does not need a trainer, whose import takes longer than the list
        rows = [row_of(summary) for summary in index.list()]
        for text in index.notes:
            note(text)
        return rows

    def run(self, ref: str) -> PlacedRun:
        return _RunHere(self._trainer.run(ref))

    def shows(self) -> list[LiveRow]:
        from mosaic.server.views import live_rows
        from mosaic.store.store import home

        return live_rows(home())

    def show(self, show_id: str) -> PlacedShow:
        from mosaic.store.live_sessions import find_show
        from mosaic.store.store import home

        return _ShowHere(find_show(home(), show_id))


class _RunHere:
    def __init__(self, run: Run) -> None:
        self._run, self.id = run, run.id

    def show(self) -> RunDetails:
        from mosaic.server.views import details_of

        return details_of(self._run.folder)

    def stop(self, patience_s: float | None = None, *, wait: bool = True) -> None:
        self._run.stop(patience_s, wait=wait)

    def pause(self) -> None:
        self._run.pause()

    def resume(self, *, resources: Mapping[str, Any] | None = None, settings: Sequence[str] = ()) -> None:
        self._run.resume(resources=resources, settings=settings)

    def checkpoint(self) -> None:
        self._run.checkpoint()

    def delete(self) -> None:
        self._run.delete()

    def events(self, after_seq: int = 0) -> Iterator[Mapping[str, Any]]:
        return self._run.events(after_seq, follow=True)

    def wait(self) -> State:
        return self._run.wait()

    def curve(self, metric: str, *, buckets: int) -> CurvePoints:
        from mosaic.server.curve_points import curve_of

        return curve_of(self._run.folder, metric, buckets=buckets)

    def log(self, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart:
        from mosaic.server.views import log_part

        return log_part(self._run.folder, stream, after, size)

    def pictures(self, wish: Wish) -> Pictures:
        from mosaic.telemetry.pictures.live import LivePictures

        return LivePictures(self._run.folder.path, wish)


class _ShowHere:
    def __init__(self, show: Show) -> None:
        self._show, self.id = show, show.id

    def pictures(self, wish: Wish) -> Pictures:
        from mosaic.store.live_sessions import ShowPictures

        return ShowPictures(self._show, wish)


@contextmanager
def place(server: str | None) -> Iterator[Backend]:
    if server is None:
        yield _Here()
        return
    from mosaic.server.client.client import Client

    with Client(server) as client:
        yield client
