"""Series API: many curves in one response, downsampled on the server, for the charts of a page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from threading import Thread
from typing import Annotated

from fastapi import FastAPI, Query

from mosaic.server.context import ServerContext
from mosaic.server.errors import REFUSALS
from mosaic.telemetry.curves.curves import Axis
from mosaic.ui.series import GROUP, MOST_POINTS, ManySeries, SeriesQuery, catch_up, folders_of, read_series


def add_series_routes(app: FastAPI, context: ServerContext) -> None:
    @app.get("/series", responses=REFUSALS, tags=["metrics"])
    def series(
        ref: Annotated[list[str], Query(max_length=50)],
        metric: Annotated[list[str], Query(max_length=50)],
        x: Axis = "env_steps",
        points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 500,
        start: Annotated[float | None, Query(allow_inf_nan=False)] = None,
        stop: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    ) -> ManySeries:
        """Return every metric of every run or seed group (`group:NAME`) that has it, where start ≤ x ≤ stop."""
        return read_series(context.store, SeriesQuery(tuple(ref), tuple(metric), x, points, start, stop))


def read_ahead(context: ServerContext, refs: Sequence[str]) -> None:
    """Read in the background what a page will request soon, while its browser still loads it."""
    folders = [folder for ref in refs for folder in folders_of(context.store, ref)]
    Thread(target=catch_up, args=(folders,)).start()
    if any(ref.startswith(GROUP) for ref in refs):
        Thread(target=import_module, args=("scipy.special",)).start()  # a band needs it, and its import takes long
