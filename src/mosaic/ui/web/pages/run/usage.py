"""Panel of a run's resource usage over time: a chart each for cores, memory and GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nicegui import run

from mosaic.store.run_folder import RunFolder
from mosaic.store.views import RunDetails, UsagePoints, usage_of
from mosaic.ui.web.components.theme import duration
from mosaic.ui.web.components.widgets import box, panel, raw, set_html

_WIDTH, _HEIGHT = 336, 84  # of a chart, in its own units
_LEFT, _TOP, _BOTTOM = 64, 6, 16  # for the labels of the axes


class _Measure(NamedTuple):
    name: str
    values: Sequence[float | None]
    words: Callable[[float], str]
    limit: float | None = None  # end of the vertical axis; None: that of the values


class UsagePanel:
    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        with box() as self._whole, panel("Machine usage"):
            self._body = raw("", "stack gap-4")
        self._whole.set_visibility(False)

    async def update(self, details: RunDetails) -> None:
        usage = await run.io_bound(usage_of, self._folder)
        if usage is None or self._body.is_deleted or len(usage.timestamp) < 2:
            return
        self._whole.set_visibility(True)
        set_html(self._body, usage_charts(usage))


def usage_charts(usage: UsagePoints) -> str:
    """Return the charts of what was measured."""
    measures = (
        _Measure("CPU", usage.cores, lambda value: f"{value:.1f} cores"),
        _Measure("Memory", usage.memory_mb, _size),
        _Measure("GPUs of this machine", usage.gpu_percent, lambda value: f"{value:.0f} %", 100.0),
        _Measure("Memory of the GPUs", usage.gpu_memory_mb, _size),
    )
    return "".join(_chart(usage.timestamp, measure) for measure in measures)


def _size(value: float) -> str:
    return f"{value / 1000:.2f} GB" if value >= 1000 else f"{value:.0f} MB"


def _chart(times: Sequence[float], measure: _Measure) -> str:
    """Return a chart from 0 to the end of the axis; its words are the last value, the mean and the maximum."""
    points = [(at - times[0], value) for at, value in zip(times, measure.values, strict=True) if value is not None]
    if len(points) < 2:
        return ""
    values = [value for _, value in points]
    top, span = measure.limit or round_up(max(values)), points[-1][0] or 1.0
    wide, high = _WIDTH - _LEFT, _HEIGHT - _BOTTOM
    line = "L".join(f"{_LEFT + wide * x / span:.1f},{high - (high - _TOP) * value / top:.1f}" for x, value in points)
    left = f"{_LEFT + wide * points[0][0] / span:.1f}"
    grid = "".join(
        f'<path class="g" d="M{_LEFT},{y:.1f}H{_WIDTH}"/><text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
        f"{measure.words(share * top)}</text>"
        for share, y in ((1.0, _TOP), (0.0, high))
    )
    mean = sum(values) / len(values)
    said = f"last {measure.words(values[-1])} · mean {measure.words(mean)} · max {measure.words(max(values))}"
    return (
        f'<div class="stack gap-1"><div class="row between wrap"><b class="strong">{measure.name}</b>'
        f'<span class="small muted">{said}</span></div>'
        f'<svg class="r-usage" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{measure.name} over time: {said}">'
        f'{grid}<path class="a" d="M{line}L{_WIDTH},{high}L{left},{high}Z"/><path class="l" d="M{line}"/>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 3}">0 s</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 3}" text-anchor="end">{duration(span)}</text></svg></div>'
    )


def round_up(value: float) -> float:
    """Return the next round number, which is the end of an axis: the curve fills at least two thirds of the chart."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if value <= power * step * (1 + 1e-9))
