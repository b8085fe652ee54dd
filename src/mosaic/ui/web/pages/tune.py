"""Tune page: searches, and of one search its trials, how options and scores belong together, and the best options."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import TypeVar
from urllib.parse import quote, urlencode

from nicegui import run as threads
from nicegui import ui

from mosaic.runs.tuning.results import SearchDetails, SearchTrial, list_searches, read_search
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import count, env_title, number
from mosaic.ui.web.components.widgets import box, command, empty, line_link, link_button, panel, pill, raw, set_html
from mosaic.ui.web.data.chart_groups import measure_title

_REFRESH_S = 4.0
_WIDTH, _HEIGHT, _MARGIN = 960, 300, 70
_NARROW, _ROW = 330, 92  # of the drawing for a phone: its width, and the room of an axis
_ANCHORS = {0.0: "start", 1.0: "end"}  # of marks at the ends of a lying axis
_BESIDE = {0.0: 13, 1.0: -7}  # of marks at the ends of an axis: below and above the lines that end there
_PILLS = {"done": "finished", "waiting": "queued"}
_FEW = 4  # values that an axis names one by one
_DECADES = 30  # ratio from which on an axis is logarithmic
_EXAMPLE = "mosaic tune gym/CartPole-v1 --search learning_rate=log:1e-4..1e-2 --search n_steps='32|64|128'"


async def page(frame: PageLayout, search: str = "") -> None:
    """Show the search with this id, or the list of all."""
    store = frame.context.store
    if search:
        details = await threads.io_bound(read_search, store, search)
        if details is not None:
            _SearchPage(frame, details).build()
        return
    frame.title("Tune")
    found = await threads.io_bound(list_searches, store) or []
    with box("m-page"), panel("Searches", hint="for good options, each trial is a run", body="m-body tight"):
        for each in found:
            best = f"best {number(each.best.score)}" if each.best else "no score yet"
            words = f"{env_title(each.env)} · {each.algorithm} · {len(each.trials)} trials · {best} · {each.state}"
            line_link(each.search_id, words, _address(each.search_id))
        if not found:
            empty("There are no searches yet. Start one in a terminal:")
            with box("m-body"):
                command(_EXAMPLE)


def _address(search_id: str) -> str:
    return f"/tune?{urlencode({'search': search_id})}"


class _SearchPage:
    def __init__(self, frame: PageLayout, details: SearchDetails) -> None:
        self._frame, self._details = frame, details

    def build(self) -> None:
        with box("m-page"):
            with box("row between wrap"):
                self._facts = raw("", "muted")
                self._train = box("row")
            with panel("Options and scores", hint="a line per trial; the best one is bold"):
                self._lines = raw("", "m-scroll")
            with box("m-cols").style("grid-template-columns:minmax(0,1fr) 316px"):
                with panel("Trials", hint="best first", body="m-body tight"):
                    self._table = raw("", "m-scroll")
                with panel("Which options mattered"):
                    self._importance = raw("", "stack")
        self._show()
        if self._details.state == "running":
            self._clock = ui.timer(_REFRESH_S, self._refresh)

    async def _refresh(self) -> None:
        now = await threads.io_bound(read_search, self._frame.context.store, self._details.search_id)
        if now is None or self._table.is_deleted:
            return
        self._details = now
        self._show()
        if now.state != "running":
            self._clock.deactivate()

    def _show(self) -> None:
        found = self._details
        self._frame.title(("Tune", "/tune"), found.search_id, state=_PILLS.get(found.state, found.state))
        aim = (
            f"{'highest' if found.mode == 'max' else 'lowest'} {measure_title(found.metric.replace('.', '/')).lower()}"
        )
        method = " ".join(filter(None, (found.worker, found.algorithm)))
        facts = f"{len(found.trials)} of {found.planned} trials · {method} · {found.scheduler} · {aim}"
        set_html(self._facts, f'<b class="strong">{escape(env_title(found.env))}</b> · {escape(facts)}')
        self._train.clear()
        with self._train:
            if found.best and found.best.run_id:
                address = f"/train?{urlencode({'run': found.best.run_id})}"
                link_button("Train with the best options", address, glyph="train", kind="primary")
            link_button("Its runs", f"/runs?{urlencode({'tag': found.search_id})}", glyph="runs")
        set_html(self._lines, parallel_coordinates(found) + parallel_coordinates(found, upright=False))
        set_html(self._table, trials_table(found))
        set_html(self._importance, importance_bars(found))


def trials_table(found: SearchDetails) -> str:
    heads = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in found.options)
    rows = "".join(_row(place, trial, found.options) for place, trial in enumerate(found.trials))
    return (
        f'<table class="m-table dense"><thead><tr><th>Trial</th><th class="num">Score</th>{heads}'
        f'<th class="num hide-phone">Env steps</th><th>State</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _row(place: int, trial: SearchTrial, options: Sequence[str]) -> str:
    name = f"Trial {trial.trial}"
    linked = f'<a class="m-link" href="/runs/{quote(trial.run_id, safe="")}">{name}</a>' if trial.run_id else name
    cells = "".join(f"<td>{escape(_value(trial.options.get(option)))}</td>" for option in options)
    state = f'<span title="{escape(trial.reason)}">{pill(_PILLS.get(trial.state, trial.state))}</span>'
    best = place == 0 and trial.score is not None
    return (
        f'<tr class="{"on" if best else ""}"><td>{linked}</td><td class="num strong">{number(trial.score)}</td>{cells}'
        f'<td class="num muted hide-phone">{count(trial.env_steps)}</td><td>{state}</td></tr>'
    )


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def importance_bars(found: SearchDetails) -> str:
    """Return a bar for each option: the share of the order of the scores that it explains alone."""
    if not found.importance:
        return '<p class="m-note">Known after four trials with a score.</p>'
    bars = "".join(
        f'<div class="stack gap-1"><div class="row between"><span>{escape(name.replace("_", " "))}</span>'
        f'<span class="muted">{share:.0%}</span></div><div class="m-bar"><i style="width:{share:.0%}"></i></div></div>'
        for name, share in found.importance.items()
    )
    note = "Share of the ranking of scores that this option alone explains. With few trials, much of it is chance."
    return f'{bars}<p class="m-note">{note}</p>'


def parallel_coordinates(found: SearchDetails, *, upright: bool = True) -> str:
    """Return a drawing with an axis for each option and one for the score, and a line for each trial with a score.

    Upright axes are beside each other; a phone has room for lying ones, below each other.
    """
    rated = [trial for trial in found.trials if trial.score is not None]
    if len(rated) < 2:
        return '<p class="m-note">Drawn from two trials with a score on.</p>' if upright else ""
    axes = {name: _places([trial.options.get(name) for trial in rated]) for name in found.options}
    axes["score"] = _places([trial.score for trial in rated])
    step = (_WIDTH - 2 * _MARGIN) / (len(axes) - 1)
    xs = [_MARGIN + step * place if upright else _ROW * (place + 0.5) for place in range(len(axes))]
    drawn = []
    for place in reversed(range(len(rated))):  # the best one last, in front
        ends = [(x, places[0][place]) for x, places in zip(xs, axes.values(), strict=True)]
        points = " ".join(f"{x:.0f},{_y(at):.1f}" if upright else f"{_x(at):.1f},{x:.0f}" for x, at in ends)
        share = axes["score"][0][place]
        title = f"Trial {rated[place].trial}: {number(rated[place].score)}"
        kind = "best" if place == 0 else ""
        drawn.append(
            f'<polyline class="{kind}" points="{points}" style="--k:{20 + 70 * share:.0f}%">'
            f"<title>{escape(title)}</title></polyline>"
        )
    axis = _upright_axis if upright else _lying_axis
    lines = "".join(
        axis(x, name.replace("_", " "), marks) for x, (name, (_, marks)) in zip(xs, axes.items(), strict=True)
    )
    kind, size = ("", (_WIDTH, _HEIGHT)) if upright else ("lying", (_NARROW, _ROW * len(axes)))
    label = f"Options and scores of {len(rated)} trials; the table below has the same numbers"
    return (
        f'<svg class="n-lines {kind}" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label)}">'
        f"{''.join(drawn)}{lines}</svg>"
    )


def _y(share: float) -> float:
    return _HEIGHT - 16 - share * (_HEIGHT - 56)


def _x(share: float) -> float:
    return 8 + share * (_NARROW - 16)


def _upright_axis(x: float, name: str, marks: Sequence[tuple[float, str]]) -> str:
    words = "".join(
        f'<text x="{x + 6:.0f}" y="{_y(at) + _BESIDE.get(at, 4):.0f}" class="v">{escape(mark)}</text>'
        for at, mark in marks
    )
    line = f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{_y(0):.0f}" y2="{_y(1):.0f}"/>'
    return f'{line}<text class="n" x="{x:.0f}" y="16">{escape(name)}</text>{words}'


def _lying_axis(y: float, name: str, marks: Sequence[tuple[float, str]]) -> str:
    words = "".join(
        f'<text x="{_x(at):.0f}" y="{y + 16:.0f}" class="v" text-anchor="{_ANCHORS.get(at, "middle")}">'
        f"{escape(mark)}</text>"
        for at, mark in marks
    )
    line = f'<line x1="{_x(0):.0f}" x2="{_x(1):.0f}" y1="{y:.0f}" y2="{y:.0f}"/>'
    return f'{line}<text class="n v" x="{_x(0):.0f}" y="{y - 7:.0f}">{escape(name)}</text>{words}'


def _places(values: Sequence[object]) -> tuple[list[float], list[tuple[float, str]]]:
    """Return where each value is on its axis, 0 to 1, and the marks of the axis.

    A few different values, or values that are not numbers, have equal distances; others are to scale, in powers of ten
    where they span several.
    """
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    named = len(numbers) < len(values)
    if named:
        words = [_value(value) for value in values]
        return _apart(words, sorted(set(words)))
    if len(set(numbers)) <= _FEW:
        return _apart(numbers, sorted(set(numbers)))
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low > _DECADES:
        at = [math.log(value / low) / math.log(high / low) for value in numbers]
    else:
        at = [(value - low) / (high - low) for value in numbers]
    return at, [(0.0, _value(low)), (1.0, _value(high))]


T = TypeVar("T", str, float)


def _apart(values: Sequence[T], known: Sequence[T]) -> tuple[list[float], list[tuple[float, str]]]:
    """Place values at equal distances, and mark each."""
    last = max(1, len(known) - 1)
    marks = [(place / last, _value(each)) for place, each in enumerate(known)]
    return [known.index(value) / last for value in values], marks
