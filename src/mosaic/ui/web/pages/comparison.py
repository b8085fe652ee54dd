"""Comparison of runs: their curves in one chart, and only the settings that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from mosaic.store.index.summary import RunSummary
from mosaic.ui.cli.group_results import differences
from mosaic.ui.web.components.live import MOST_SOURCES, ChartLine, LiveFeed, Source, chart, chart_height, way_back
from mosaic.ui.web.components.theme import count, number, series_key, title
from mosaic.ui.web.components.widgets import Segmented, box, button, panel, raw
from mosaic.ui.web.data.compared_runs import sources_of
from mosaic.ui.web.data.facts import REWARD, Facts
from mosaic.ui.web.series_api import GROUP

_AXES = {"env_steps": "Env steps", "timestamp": "Wall time", "episodes_total": "Episodes"}
_MOST_IN_TABLE = 6  # a table with more columns is hard to read
_HEIGHT = 248


class Comparison:
    """A panel that stays while its content changes."""

    def __init__(self, facts: Facts, clear: Callable[[], object]) -> None:
        self._facts = facts
        with panel("Compare", hint="&nbsp;", body="m-body tight") as end:
            with box("m-cols").style("grid-template-columns:minmax(0,1.35fr) minmax(0,1fr);gap:0"):
                with box().style("padding:12px 8px 8px 12px"):
                    self._plot = chart(_HEIGHT)
                self._table = raw("", "m-scroll r-differs")
            feed = self._feed = LiveFeed([])
            self._feed.draw(self._plot, [ChartLine("Return", REWARD)], "Return")
            with end:
                way_back(feed)
                Segmented(_AXES, "env_steps", feed.set_axis, "Horizontal axis").classes("hide-phone")
                button("CSV", lambda: feed.save_csv(self._plot), glyph="export", kind="ghost small")
                button("PNG", lambda: feed.save_png(self._plot), glyph="export", kind="ghost small")
                button("Clear", clear, kind="ghost small")

    def show(self, runs: Sequence[RunSummary]) -> None:
        sources = sources_for(runs, self._facts.rows(), self._facts.is_seed_group)
        self._plot.style(chart_height(_HEIGHT, len(sources)))
        self._feed.compare(sources)
        means = sum(source.ref.startswith(GROUP) for source in sources)
        said = left_out(len(runs), len(sources) - means, len(runs[:_MOST_IN_TABLE]))
        self._table.set_content(self._differing(runs[:_MOST_IN_TABLE], means, said))

    def _differing(self, chosen: Sequence[RunSummary], before: int, said: str) -> str:
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
        caption = f"<caption>{escape(said)}</caption>" if said else ""
        return (
            f'<table class="m-table dense">{caption}<thead><tr><th>Only what differs</th>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )


def sources_for(
    ticked: Sequence[RunSummary], rows: Sequence[RunSummary], is_seed_group: Callable[[str], bool]
) -> list[Source]:
    """Return the runs, preceded by the mean of their seed group where all belong to one and there is room for it."""
    groups = {row.group for row in ticked}
    alone = len(groups) == 1 and len(ticked) < MOST_SOURCES
    mean = [GROUP + group for group in groups if group and alone and is_seed_group(group)]
    return sources_of([*mean, *(row.run_id for row in ticked[:MOST_SOURCES])], rows)


def left_out(ticked: int, drawn: int, listed: int) -> str:
    """Return a note on which selected runs are not shown, and why."""
    chart = f"the chart shows {drawn}, more cannot be told apart" if drawn < ticked else ""
    table = f"this table {listed}, more cannot be read" if listed < ticked else ""
    return f"Of {ticked} runs {'; '.join(filter(None, (chart, table)))}." if chart or table else ""


def short_key(key: str) -> str:
    """Return a setting without the common prefix of its section."""
    return key.removeprefix("training.params.").removeprefix("training.").removeprefix("environment.")


def _says(values: Sequence[Any]) -> bool:
    return any(value not in (None, {}, [], "") for value in values)


def _value(value: Any) -> str:
    if value is None or value == {}:
        return '<span class="faint">—</span>'
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f'<span class="clip">{escape(text)}</span>'
