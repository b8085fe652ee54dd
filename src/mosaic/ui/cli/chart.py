"""Line charts in braille characters, two by four points per cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # column, row from the top


def chart(xs: Sequence[float], ys: Sequence[float | None], width: int, height: int) -> list[str]:
    """Return lines of text with the scale at the left and below; there are gaps where y is unknown."""
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None and math.isfinite(y)]
    if not points:
        return ["(nothing to draw yet)"]
    low, high = min(y for _, y in points), max(y for _, y in points)
    first, last = points[0][0], points[-1][0]
    labels = [f"{value:.4g}" for value in (high, low)]
    margin = max(map(len, labels)) + 1
    columns, rows = max(1, width - margin - 1), max(1, height - 2)
    cells = [[0] * columns for _ in range(rows)]
    earlier: tuple[int, int] | None = None
    for x, y in points:
        place = _place(x, first, last, 2 * columns), 4 * rows - 1 - _place(y, low, high, 4 * rows)
        for column, row in _line(earlier or place, place):
            cells[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
        earlier = place
    lines = []
    for index, row_cells in enumerate(cells):
        label = labels[0] if index == 0 else labels[1] if index == rows - 1 else ""
        lines.append(f"{label:>{margin - 1}} │" + "".join(chr(0x2800 + cell) for cell in row_cells))
    lines.append(" " * margin + "└" + "─" * columns)
    start, end = f"{first:,.0f}", f"{last:,.0f}"
    lines.append(" " * (margin + 1) + start + end.rjust(max(0, columns - len(start))))
    return lines


def _place(value: float, low: float, high: float, count: int) -> int:
    return 0 if high == low else min(count - 1, int((value - low) / (high - low) * count))


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (round(start[0] + (end[0] - start[0]) * i / steps), round(start[1] + (end[1] - start[1]) * i / steps))
        for i in range(steps + 1)
    ]
