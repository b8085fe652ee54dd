"""Formatting of numbers, times, series and environments; colours are only in static/mosaic.css."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from mosaic.store.index.summary import RunSummary
from mosaic.store.state import LIVE, State
from mosaic.store.views import LabelledRun

SERIES = tuple(f"var(--s{number})" for number in range(1, 7))
DASHES = ("", "6 3", "2 2.5", "8 3 2 3", "4 4", "8 3 2 3 2 3")  # a series is told apart by its dash even without colour
_ENVS = Path(__file__).parent.parent / "static" / "envs"
_MINUS, _THIN = "\u2212", "\u202f"
_TAIL = 6  # characters at the end of a name that are always shown


def series_look(place: int) -> tuple[str, str]:
    """Return colour and dash of a series; when colours repeat, dashes are shifted, so that no pair occurs twice."""
    return SERIES[place % len(SERIES)], DASHES[(place + place // len(SERIES)) % len(DASHES)]


def series_key(place: int) -> str:
    """Return the short line drawn beside a series' name, in its colour and dash."""
    colour, dash = series_look(place)
    return (
        '<svg class="key" viewBox="0 0 20 8" aria-hidden="true"><path d="M0 4h20" fill="none" '
        f'stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/></svg>'
    )


def avatar(name: str, index: int) -> str:
    """Return two letters on a tint of the series' colour."""
    parts = [part for part in re.split(r"[^0-9A-Za-z]+", name) if part] or ["?"]
    letters = (parts[0][0] + (parts[1][0] if len(parts) > 1 else parts[0][1:2])).upper()
    return f'<span class="av" style="--c:{SERIES[index % len(SERIES)]}">{escape(letters)}</span>'


def spark(values: Sequence[float | None], width: int = 96, height: int = 24, kind: str = "") -> str:
    """Return a sparkline with a soft area, scaled to its own range; a dash where there is nothing to draw yet."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return '<span class="faint">—</span>'
    low, span = min(known), (max(known) - min(known)) or 1.0
    step = width / (len(known) - 1)
    points = [
        f"{index * step:.1f},{height - 2 - (value - low) / span * (height - 4):.1f}"
        for index, value in enumerate(known)
    ]
    line = "M" + "L".join(points)
    return (
        f'<svg class="spark {kind}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'preserveAspectRatio="none" aria-hidden="true"><path class="a" d="{line}L{width},{height}L0,{height}Z"/>'
        f'<path d="{line}"/></svg>'
    )


def number(value: float | None, digits: int = 2) -> str:
    """Format a number with a true minus sign."""
    return "—" if value is None else f"{value:,.{digits}f}".replace("-", _MINUS)


def count(value: float | None) -> str:
    """Format a count: 1,234,567 → 1.23 M."""
    if value is None:
        return "—"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{_THIN}{unit}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Format a duration in two units at most: `2 min 05 s`, `3 h 10 min`, `4 d 2 h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def ago(then: float | None, now: float) -> str:
    if then is None:
        return "—"
    passed = max(0.0, now - then)
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if passed < limit:
            return f"{int(passed // size)} {unit} ago"
    return f"{int(passed // 86400)} d ago"


def env_title(env: str) -> str:
    """Return a short name: gym/CartPole-v1 → CartPole, connect_four_v3 → Connect Four; a game's file, an own class."""
    if env.startswith("godot/"):
        return env.rpartition("/")[2]
    if env.startswith("python:"):
        return env.rpartition(":")[2]
    name = re.sub(r"[-_]v\d+$", "", env.partition("/")[2] or env)
    return name.replace("_", " ").title() if "_" in name or name.islower() else name


@cache
def env_picture(env: str) -> str | None:
    """Return the name of the env's picture among the static files, if there is one."""
    name = re.sub(r"[-_]v\d+$", "", env.rpartition("/")[2]).lower().removesuffix("continuous")
    return name if (_ENVS / f"{name}.webp").exists() else None


def title(row: RunSummary | LabelledRun) -> str:
    """Return the run's name, or its id; members of a seed group are numbered by their names."""
    return row.name or row.run_id


def clipped(name: str) -> str:
    """Return a name that is shortened in its middle where there is no room: names of seeds differ at their ends."""
    head, tail = (name[:-_TAIL], name[-_TAIL:]) if len(name) > 2 * _TAIL else (name, "")
    return (
        f'<b class="strong m-name" title="{escape(name)}"><span class="clip">{escape(head)}</span>'
        f"<span>{escape(tail)}</span></b>"
    )


def method(row: RunSummary) -> str:
    return " ".join(filter(None, (row.worker, row.algorithm))) or "not chosen yet"


def spark_kind(row: RunSummary) -> str:
    """Return the sparkline's style: live, failed, or ended."""
    if row.state in LIVE:
        return ""
    return "failed" if row.state in (State.FAILED, State.LOST) else "idle"


def search_text(row: RunSummary) -> str:
    parts = (
        row.run_id,
        row.name,
        row.env,
        env_title(row.env),
        method(row),
        row.group,
        row.project,
        *row.tags,
        row.note,
    )
    return " ".join(parts).lower()
