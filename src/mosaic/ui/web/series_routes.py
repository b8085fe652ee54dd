"""Many curves in one answer: what the charts of a page draw, thinned on the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from mosaic.telemetry.buckets import Curve
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
        start: Annotated[float | None, Query(allow_inf_nan=False)] = None,
        stop: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    ) -> ManySeries:
        """Every metric of every run, or of every seed group (`group:NAME`), that has it, where start ≤ x ≤ stop."""
        asked = _Asked(metric, x, points, start, stop)
        found = [each for one in ref for each in _series(desk, one, asked)]
        runs = {one: desk.folder(one) for one in ref if not one.startswith(GROUP)}
        return ManySeries(
            series=found,
            last_seq={one: last_seq(folder) for one, folder in runs.items()},
            started={one: _started(folder) for one, folder in runs.items()},
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    metrics: list[str]
    x: Axis
    points: int
    start: float | None
    stop: float | None


class _Member:
    """The curves of one run; x counts from its own beginning where it is time."""

    def __init__(self, folder: RunFolder, asked: _Asked) -> None:
        self._asked = asked
        self._curves = Curves(folder.path)
        self._zero = _started(folder) if asked.x == "timestamp" else 0.0
        self.known = set(self._curves.names())

    def curve(self, metric: str) -> Curve:
        asked = self._asked
        start, stop = (None if edge is None else edge + self._zero for edge in (asked.start, asked.stop))
        found = self._curves.query(metric, asked.x, asked.points, start, stop)
        return found._replace(x=found.x - self._zero)


def _series(desk: Desk, ref: str, asked: _Asked) -> Iterator[Series]:
    if ref.startswith(GROUP):
        members = desk.store.index.list(group=ref.removeprefix(GROUP))
        yield from _of_group(ref, [_Member(desk.store.folder(member.run_id), asked) for member in members], asked)
        return
    run = _Member(desk.folder(ref), asked)
    for metric in asked.metrics:
        if metric in run.known:
            yield _answer(ref, metric, *run.curve(metric))


def _of_group(ref: str, members: list[_Member], asked: _Asked) -> Iterator[Series]:
    for metric in asked.metrics:
        single = [member.curve(metric) for member in members if metric in member.known]
        if single:
            group = group_curves([(curve.x, curve.mean) for curve in single], asked.points)
            yield _answer(ref, metric, group.x, group.low, group.high, group.mean)


def _started(folder: RunFolder) -> float:
    return read_state(folder).started or 0.0


def _answer(ref: str, metric: str, x: NDArray[Any], *values: NDArray[Any]) -> Series:
    low, high, mean = map(_numbers, values)
    return Series(ref=ref, metric=metric, x=np.asarray(x, float).tolist(), low=low, high=high, mean=mean)


def _numbers(values: NDArray[Any]) -> list[float | None]:
    """Six digits are more than a chart shows, and JSON has no NaN."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
