"""The numbers that everybody asks for: how far, how long still, how fast, how well, where the time goes."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from mosaic.server.schemas import RunDetails
from mosaic.store.state import State
from mosaic.ui.web.components.theme import count, duration, number
from mosaic.ui.web.components.widgets import box, raw
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.progress import progress_of, time_shares, wall_s

_UNKNOWN = '<span class="small faint">Known after the first iteration.</span>'


class StatusStrip:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        with box("r-strip") as self.element:
            with box():
                self._far = raw('<span class="v">…</span>')
                self._bar = raw("")
            self._time_name, self._time = _tile("Time left")
            _, self._speed = _tile("Env steps/s")
            _, self._reward = _tile("Return")
            with box():
                raw("Where the time goes", "l", "span")
                self._split = raw("", "stack").style("gap:5px")

    async def update(self, details: RunDetails) -> None:
        iteration = self._facts.iteration(details.run_id)
        progress = progress_of(details, iteration)
        share = progress.share
        target = f"of {count(progress.target)} " if progress.target else ""
        percent = f" · {share:.0%}" if share is not None else ""
        _set(self._far, f'<span class="v">{progress.done:,} <small>{target}{progress.unit}{percent}</small></span>')
        _set(
            self._bar,
            f'<div class="m-bar" role="progressbar" aria-label="Progress" aria-valuenow="{100 * (share or 0):.0f}">'
            f'<i style="width:{share or 0:.2%}"></i></div>',
        )
        name, value = _time(details, progress.left_s)
        _set(self._time_name, name)
        _set(self._time, value)
        _set(self._speed, f"{progress.steps_per_s:,.0f}" if progress.steps_per_s else "—")
        _set(self._reward, _reward(iteration))
        _set(self._split, _split(time_shares(iteration)) if iteration else _UNKNOWN)


def _tile(name: str) -> tuple[ui.html, ui.html]:
    with box():
        return raw(name, "l"), raw("—", "v")


def _time(details: RunDetails, left_s: float | None) -> tuple[str, str]:
    """What is left while it runs; what it took when it is over."""
    if details.state is State.RUNNING and left_s is not None:
        return "Time left", duration(left_s)
    spent = wall_s(details, time.time())
    return ("Took" if details.exit is not None else "Runs for"), duration(spent) if spent else "—"


def _reward(iteration: dict[str, Any]) -> str:
    """The mean, and between which values single episodes lie."""
    mean, low, high = (iteration.get(f"episode_reward_{name}") for name in ("mean", "min", "max"))
    if low is None or high is None or low == high:
        return number(mean)
    return f"{number(mean)} <small>{number(low, 0)} … {number(high, 0)}</small>"


def _split(shares: dict[str, float]) -> str:
    if not shares:
        return '<span class="small faint">This worker does not say.</span>'
    kinds = {"env": "a", "inference": "b", "learning": "c"}
    bar = "".join(f'<i class="{kinds[name]}" style="width:{share:.1f}%"></i>' for name, share in shares.items())
    key = "".join(f'<span><i class="{kinds[name]}"></i>{name} {share:.0f}%</span>' for name, share in shares.items())
    return f'<div class="m-bar">{bar}</div><div class="r-split">{key}</div>'


def _set(element: ui.html, html: str) -> None:
    if element.content != html:
        element.set_content(html)
