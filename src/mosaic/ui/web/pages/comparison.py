"""Comparison of runs: those drawn beside a run, and several in one chart with only the settings that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape

from mosaic.core.ids import Json
from mosaic.store.index.summary import RunSummary
from mosaic.store.state import State
from mosaic.ui.cli.group_results import differences
from mosaic.ui.series import GROUP
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.live import MOST_SOURCES, ChartLine, LiveFeed, Source, chart, chart_height, way_back
from mosaic.ui.web.components.theme import count, number, series_key, title
from mosaic.ui.web.components.widgets import Segmented, box, button, panel, raw, replace_address, select, toggle
from mosaic.ui.web.data.compared_runs import address, mean_of, read_compared, sources_of
from mosaic.ui.web.data.facts import REWARD, Facts

_AXES = {"env_steps": "Env steps", "timestamp": "Wall time", "episodes_total": "Episodes"}
_MOST_IN_TABLE = 6  # a table with more columns is hard to read
_HEIGHT = 248


class ComparedRuns:
    """Runs and seed groups whose curves are drawn beside a run's own, and the controls that choose them."""

    def __init__(self, frame: PageLayout, run_id: str, asked: str) -> None:
        self._facts, self._run_id = frame.facts, run_id
        self._summary = next((row for row in frame.facts.rows() if row.run_id == run_id), None)
        self._group = GROUP + self._summary.group if self._summary and self._summary.group else ""
        self.label = title(self._summary) if self._summary else run_id
        self.refs, self.problems = read_compared(frame.context, run_id, asked)

    def sources(self, live: bool) -> list[Source]:
        """Return the run itself, then what it is compared with."""
        return [Source(self._run_id, self.label, live), *sources_of(self.refs, self._facts.rows())]

    def add_controls(self, on_change: Callable[[], None]) -> None:
        def choose(refs: list[str]) -> None:
            self.refs = refs[: MOST_SOURCES - 1]
            replace_address(address(self._run_id, self.refs))
            on_change()

        def choose_seeds(on: bool) -> None:
            others = [ref for ref in self.refs if ref != self._group]
            choose([self._group, *others] if on else others)

        def choose_others(chosen: list[str]) -> None:
            choose([*(ref for ref in self.refs if ref == self._group), *chosen])

        members = self._facts.group(self._group.removeprefix(GROUP))
        if len(members) > 1:
            toggle(mean_of(members), self._group in self.refs, choose_seeds)
        if options := self._offered():
            chosen = [ref for ref in self.refs if ref in options]
            choice = select(options, chosen, label="Other runs", on_change=choose_others, multiple=True)
            choice.props(f'use-chips=false max-values={MOST_SOURCES - 1} display-value="Compare with…"')
            choice.style("width:156px")

    def _offered(self) -> dict[str, str]:
        """Return compared runs first, then runs of the same environment, whose curves are comparable."""
        env = self._summary.env if self._summary else ""
        rows = [row for row in self._facts.rows() if row.run_id != self._run_id]
        rows.sort(key=lambda row: (row.run_id not in self.refs, row.env != env))
        options = {row.run_id: title(row) for row in rows[:200] if row.state is not State.QUEUED}
        means = self._means_of_others(rows)
        return options | {mean.ref: f"{mean.label} of {mean.ref.removeprefix(GROUP)}" for mean in means}

    def _means_of_others(self, rows: Sequence[RunSummary]) -> list[Source]:
        sizes = Counter(row.group for row in rows if row.group)
        others = [name for name, size in sizes.items() if size > 1 and GROUP + name != self._group]
        return sources_of([GROUP + name for name in others if self._facts.is_seed_group(name)], rows)


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


def _says(values: Sequence[Json]) -> bool:
    return any(value not in (None, {}, [], "") for value in values)


def _value(value: Json) -> str:
    if value is None or value == {}:
        return '<span class="faint">—</span>'
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f'<span class="clip">{escape(text)}</span>'
