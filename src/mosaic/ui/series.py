"""Series for charts: many curves of runs and seed groups at once, downsampled; the web app and the TUI draw them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.machine import available_cores
from mosaic.server.schemas import ResponseModel
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import read_state
from mosaic.store.store import Store
from mosaic.store.views import last_seq
from mosaic.telemetry.curves.curves import Axis, Curve, Curves
from mosaic.telemetry.curves.prefetch import bring_up_to_date
from mosaic.ui.cli.group_results import differences, settings_key

Floats: TypeAlias = NDArray[np.float64]
GROUP = "group:"  # prefix of a seed group's name, where a run is expected
MOST_POINTS = 1000


class Series(ResponseModel):
    """A curve; where the x-axis is `timestamp`, x counts the seconds since the run began."""

    ref: str
    metric: str
    x: list[float]
    low: list[float | None]
    high: list[float | None]
    mean: list[float | None]


class ManySeries(ResponseModel):
    series: list[Series]
    last_seq: dict[str, int]
    started: dict[str, float]


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """Every metric of every run or seed group (`group:NAME`) that has it, where start ≤ x ≤ stop."""

    refs: tuple[str, ...]
    metrics: tuple[str, ...]
    x: Axis = "env_steps"
    points: int = 500
    start: float | None = None
    stop: float | None = None


def read_series(store: Store, asked: SeriesQuery) -> ManySeries:
    folders = {one: folders_of(store, one) for one in dict.fromkeys(asked.refs)}
    catch_up([folder for each in folders.values() for folder in each])
    found = [each for one in asked.refs for each in _series(one, folders[one], asked)]
    runs = {one: folder for one, (folder, *_) in folders.items() if not one.startswith(GROUP)}
    return ManySeries(
        series=found,
        last_seq={one: last_seq(folder) for one, folder in runs.items()},
        started={one: _started(folder) for one, folder in runs.items()},
    )


def catch_up(folders: Sequence[RunFolder]) -> None:
    """Read what was stored since the last query, if that is much."""
    bring_up_to_date([folder.path for folder in folders], available_cores())


def folders_of(store: Store, ref: str) -> list[RunFolder]:
    if ref.startswith(GROUP):
        return seed_group(store, ref.removeprefix(GROUP))
    return [store.resolve(ref)]


def seed_group(store: Store, name: str) -> list[RunFolder]:
    """Return the runs of a group; raise where they differ in more than their seed, as a mean has no meaning then."""
    folders = [store.folder(member.run_id) for member in store.index.list(group=name)]
    if len({_settings(folder.config, folder.config.stat().st_mtime_ns) for folder in folders}) > 1:
        differing = differences([json.loads(folder.config.read_bytes()) for folder in folders])
        named = ", ".join(key for key in differing if key != "seed")
        raise InputError(f"The runs of {name} differ in {named}: they have no common mean. Compare them one by one.")
    return folders


@lru_cache(maxsize=10_000)
def _settings(config: Path, changed_ns: int) -> str:
    """Return the settings of a run; `changed_ns` is part of the cache key, so that a rewritten file is read again."""
    return settings_key(json.loads(config.read_bytes()))


class _Member:
    """Curves of one run; time as x counts from the run's start."""

    def __init__(self, folder: RunFolder, asked: SeriesQuery) -> None:
        self._asked = asked
        self._curves = Curves(folder.path)
        self._zero = _started(folder) if asked.x == "timestamp" else 0.0

    def curve(self, metric: str) -> Curve | None:
        """Return a curve, or None where the run never reported the metric."""
        if not self._curves.has(metric):
            return None
        asked = self._asked
        start, stop = (None if edge is None else edge + self._zero for edge in (asked.start, asked.stop))
        found = self._curves.query(metric, asked.x, asked.points, start, stop)
        return found._replace(x=found.x - self._zero)


def _series(ref: str, folders: Sequence[RunFolder], asked: SeriesQuery) -> Iterator[Series]:
    members = [_Member(folder, asked) for folder in folders]
    for metric in asked.metrics:
        curves = [curve for member in members if (curve := member.curve(metric)) is not None]
        if curves and ref.startswith(GROUP):
            from mosaic.telemetry.curves.seed_groups import group_curves  # imports scipy

            group = group_curves([(curve.x, curve.mean) for curve in curves], asked.points)
            yield _as_series(ref, metric, group.x, group.low, group.high, group.mean)
        elif curves:
            yield _as_series(ref, metric, *curves[0])


def _started(folder: RunFolder) -> float:
    return read_state(folder).started or 0.0


def _as_series(ref: str, metric: str, x: Floats, *values: Floats) -> Series:
    low, high, mean = map(_numbers, values)
    return Series(ref=ref, metric=metric, x=np.asarray(x, float).tolist(), low=low, high=high, mean=mean)


def _numbers(values: Floats) -> list[float | None]:
    """Round to six digits, more than a chart shows, and replace NaN, which JSON does not have."""
    return [float(f"{value:.6g}") if isfinite(value) else None for value in values.tolist()]
