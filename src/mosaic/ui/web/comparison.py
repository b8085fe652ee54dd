"""Runs beside each other: their curves in one chart, and only the settings that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from mosaic.store.state import LIVE
from mosaic.store.summary import RunSummary
from mosaic.ui.cli.differences import differences
from mosaic.ui.web.facts import REWARD, Facts
from mosaic.ui.web.live import Line, LiveFeed, Source, chart, way_back
from mosaic.ui.web.run_words import title
from mosaic.ui.web.series_routes import GROUP
from mosaic.ui.web.theme import count, number, series_key
from mosaic.ui.web.widgets import Segmented, box, button, panel, raw

_AXES = {"env_steps": "Env steps", "timestamp": "Wall time", "episodes_total": "Episodes"}
_MOST = 6  # as many as there are colours with dashes


class Comparison:
    """A panel that stays while what it shows changes."""

    def __init__(self, facts: Facts, clear: Callable[[], object]) -> None:
        self._facts = facts
        with panel("Compare", hint="&nbsp;", body="m-body tight") as end:
            with box("m-cols").style("grid-template-columns:minmax(0,1.35fr) minmax(0,1fr);gap:0"):
                with box().style("padding:12px 8px 8px 12px"):
                    self._plot = chart(248)
                self._table = raw("", "m-scroll r-differs")
            feed = self._feed = LiveFeed([])
            self._feed.draw(self._plot, [Line("Return", REWARD)], "Return")
            with end:
                way_back(feed)
                Segmented(_AXES, "env_steps", feed.set_axis, "Horizontal axis").classes("hide-phone")
                button("CSV", lambda: feed.save_csv(self._plot), glyph="export", kind="ghost small")
                button("PNG", lambda: feed.save_png(self._plot), glyph="export", kind="ghost small")
                button("Clear", clear, kind="ghost small")

    def show(self, runs: Sequence[RunSummary]) -> None:
        chosen = runs[:_MOST]
        sources = sources_of(chosen)
        self._feed.compare(sources)
        self._table.set_content(self._differing(chosen, len(sources) - len(chosen), len(runs)))

    def _differing(self, chosen: Sequence[RunSummary], before: int, ticked: int) -> str:
        found = differences([self._facts.details(row.run_id).config for row in chosen])
        heads = "".join(
            f'<th><span class="row">{series_key(before + index)}<span class="clip" style="max-width:110px">'
            f"{escape(title(row))}</span></span></th>"
            for index, row in enumerate(chosen)
        )
        lines = [
            ("last return", [number(row.episode_reward_mean) for row in chosen]),
            ("env steps", [count(row.env_steps) for row in chosen]),
            *((short_key(key), [_value(value) for value in values]) for key, values in found.items() if _says(values)),
        ]
        body = "".join(
            f'<tr><td class="muted mono">{escape(key)}</td>'
            + "".join(f"<td>{value}</td>" for value in values)
            + "</tr>"
            for key, values in lines
        )
        left_out = f"<caption>{_MOST} of {ticked} runs: more cannot be told apart.</caption>" if ticked > _MOST else ""
        return (
            f'<table class="m-table dense">{left_out}<thead><tr><th>Only what differs</th>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )


def sources_of(chosen: Sequence[RunSummary]) -> list[Source]:
    """Each run; before them the mean of their seed group where all belong to one."""
    single = [Source(row.run_id, title(row), row.state in LIVE) for row in chosen]
    groups = {row.group for row in chosen}
    if len(groups) == 1 and (group := next(iter(groups))) and len(chosen) < _MOST:
        return [Source(GROUP + group, "mean of the seeds", any(row.state in LIVE for row in chosen)), *single]
    return single


def short_key(key: str) -> str:
    """A setting without the section that most of them stand in."""
    return key.removeprefix("training.params.").removeprefix("training.").removeprefix("environment.")


def _says(values: Sequence[Any]) -> bool:
    return any(value not in (None, {}, [], "") for value in values)


def _value(value: Any) -> str:
    if value is None or value == {}:
        return '<span class="faint">—</span>'
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f'<span class="clip">{escape(text)}</span>'
