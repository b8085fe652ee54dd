"""Many curves in one answer: what the charts of a page draw, thinned on the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query
from numpy.typing import NDArray

from mosaic.server.answers import Answer
from mosaic.server.complaints import REFUSALS
from mosaic.server.desk import Desk
from mosaic.server.details import last_seq
from mosaic.store.layout import RunFolder
from mosaic.store.state import read_state
from mosaic.telemetry.columns import Axis, Curves
from mosaic.telemetry.groups import group_curves

GROUP = "group:"  # before the name of a seed group where a run may stand
MOST_POINTS = 1000


class Series(Answer):
    """Where the x-axis is `timestamp`, x counts the seconds since the run began."""

    ref: str
    metric: str
    x: list[float]
    low: list[float | None]
    high: list[float | None]
    mean: list[float | None]


class ManySeries(Answer):
    series: list[Series]
    last_seq: dict[str, int]
    started: dict[str, float]


def add_series_routes(app: FastAPI, desk: Desk) -> None:
    @app.get("/series", responses=REFUSALS, tags=["metrics"])
    def series(
        ref: Annotated[list[str], Query(max_length=50)],
        metric: Annotated[list[str], Query(max_length=50)],
        x: Axis = "env_steps",
        points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 500,
    ) -> ManySeries:
        """Every metric of every run, or of every seed group (`group:NAME`), that has it."""
        found = [each for one in ref for each in _series(desk, one, metric, x, points)]
        runs = {one: desk.folder(one) for one in ref if not one.startswith(GROUP)}
        return ManySeries(
            series=found,
            last_seq={one: last_seq(folder) for one, folder in runs.items()},
            started={one: _started(folder) for one, folder in runs.items()},
        )


def _series(desk: Desk, ref: str, metrics: list[str], x: Axis, points: int) -> Iterator[Series]:
    if ref.startswith(GROUP):
        members = desk.store.index.list(group=ref.removeprefix(GROUP))
        yield from _of_group(ref, [desk.store.folder(member.run_id) for member in members], metrics, x, points)
        return
    folder = desk.folder(ref)
    curves = Curves(folder.path)
    known = set(curves.names())
    start = _started(folder) if x == "timestamp" else 0.0
    for metric in metrics:
        if metric in known:
            found = curves.query(metric, x, points)
            yield _answer(ref, metric, found.x - start, found.low, found.high, found.mean)


def _of_group(ref: str, folders: list[RunFolder], metrics: list[str], x: Axis, points: int) -> Iterator[Series]:
    members = [(curves := Curves(folder.path), set(curves.names()), _started(folder)) for folder in folders]
    for metric in metrics:
        single = []
        for curves, known, started in members:
            if metric in known:
                found = curves.query(metric, x, points)
                single.append((found.x - (started if x == "timestamp" else 0.0), found.mean))
        if single:
            group = group_curves(single, points)
            yield _answer(ref, metric, group.x, group.low, group.high, group.mean)


def _started(folder: RunFolder) -> float:
    return read_state(folder).started or 0.0


def _answer(ref: str, metric: str, x: NDArray[Any], *values: NDArray[Any]) -> Series:
    low, high, mean = map(_numbers, values)
    return Series(ref=ref, metric=metric, x=np.asarray(x, float).tolist(), low=low, high=high, mean=mean)


def _numbers(values: NDArray[Any]) -> list[float | None]:
    """Six digits are more than a chart shows, and JSON has no NaN."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
