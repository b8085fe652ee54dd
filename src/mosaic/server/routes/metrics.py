"""Routes for a run's output: events, curves, logs."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from mosaic.server.context import ServerContext
from mosaic.server.schemas import Events
from mosaic.store.logs import Stream
from mosaic.store.views import CurvePoints, LogPart, UsagePoints, curve_of, log_part, usage_of
from mosaic.telemetry.curves.curves import Axis, Curves
from mosaic.telemetry.events.reader import read_events

Seq = Annotated[int, Query(ge=0, lt=2**63, description="Return only events after this one.")]
Bound = Annotated[float | None, Query(allow_inf_nan=False)]


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/runs/{ref}", tags=["metrics"])

    @router.get("/metrics")
    def events(ref: str, after_seq: Seq = 0, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> Events:
        """Return stored events in order, each once."""
        found = list(islice(read_events(context.folder(ref).metrics, after_seq), limit))
        last = found[-1]["seq"] if found else after_seq
        return Events(events=[dict(event) for event in found], last_seq=last)

    @router.get("/metric-names")
    def names(ref: str) -> list[str]:
        """List the names of the curves that the run has."""
        return list(Curves(context.folder(ref).path).names())

    @router.get("/curve")
    def curve(
        ref: str,
        metric: Annotated[str, Query(max_length=1000)],
        x: Axis = "env_steps",
        buckets: Annotated[int, Query(ge=1, le=10_000)] = 500,
        start: Bound = None,
        stop: Bound = None,
    ) -> CurvePoints:
        """Return a metric over an axis, downsampled to this many buckets; their minima and maxima are kept."""
        return curve_of(context.folder(ref), metric, x, buckets=buckets, start=start, stop=stop)

    @router.get("/usage")
    def usage(ref: str) -> UsagePoints:
        """Return the cores and memory that the processes of the run used, as its supervisor sampled them."""
        return usage_of(context.folder(ref))

    @router.get("/log")
    def log(
        ref: str,
        after: Annotated[int | None, Query(ge=0, lt=2**63, description="Byte to begin at; default: the end.")] = None,
        size: Annotated[int, Query(ge=1, le=1_000_000, description="Most bytes.")] = 65_536,
        stream: Annotated[Stream, Query(description="Which output of the worker.")] = "stdout",
    ) -> LogPart:
        """Return what the worker wrote to stdout or stderr. Positions count from its first byte, even if that was
        deleted.
        """
        return log_part(context.folder(ref), stream, after, size)

    return router
