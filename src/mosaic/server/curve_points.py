"""Metric of a run, downsampled for drawing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.server.schemas import CurvePoints
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.curves.curves import Axis, Curves


def curve_of(
    folder: RunFolder,
    metric: str,
    x: Axis = "env_steps",
    *,
    buckets: int = 500,
    start: float | None = None,
    stop: float | None = None,
) -> CurvePoints:
    found = Curves(folder.path).query(metric, x, buckets, start, stop)
    low, high, mean = map(_numbers, (found.low, found.high, found.mean))
    return CurvePoints(metric=metric, x_name=x, x=found.x.tolist(), low=low, high=high, mean=mean)


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Replace NaN, which JSON does not have, by None."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
