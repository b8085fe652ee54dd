"""What several runs say together: mean, interquartile mean and 95 % band of their reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mosaic.ui.cli.place import PlacedRun

METRIC = "episode_reward_mean"
_BUCKETS = 200


def group_curve(runs: Sequence[PlacedRun], metric: str = METRIC) -> dict[str, list[float | None]]:
    """Columns x, mean, iqm, low, high; None where there is nothing to say."""
    import numpy as np

    from mosaic.telemetry.groups import group_curves

    points = [run.curve(metric, buckets=_BUCKETS) for run in runs]
    curves = [(np.array(p.x, float), np.array(p.mean, float)) for p in points]
    found = group_curves(curves)
    return {name: [_number(v) for v in getattr(found, name)] for name in ("x", "mean", "iqm", "low", "high")}


def show_group(curve: dict[str, list[Any]]) -> None:
    from mosaic.ui.cli.chart import chart
    from mosaic.ui.cli.screen import out

    last = next((i for i in reversed(range(len(curve["x"]))) if curve["low"][i] is not None), None)
    if last is None:
        return
    out.print(
        f"At {curve['x'][last]:,.0f} env steps: mean {curve['mean'][last]:.3f} "
        f"[{curve['low'][last]:.3f}, {curve['high'][last]:.3f}] (95 %), interquartile mean {curve['iqm'][last]:.3f}"
    )
    out.print("\n".join(chart(curve["x"], curve["mean"], min(out.width, 100), 12)))


def _number(value: float) -> float | None:
    return float(value) if value == value else None
