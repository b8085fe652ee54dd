"""Runs page: one table, filters, and a comparison of the selected runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from nicegui import run, ui

from mosaic.store.index.summary import RunSummary
from mosaic.store.state import LIVE, State
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import (
    ago,
    count,
    duration,
    env_title,
    method,
    number,
    search_text,
    spark,
    spark_kind,
    title,
)
from mosaic.ui.web.components.widgets import (
    Segmented,
    box,
    button,
    empty,
    link_button,
    panel,
    picture,
    pill,
    raw,
    replace_address,
    select,
    set_html,
    text_input,
)
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.progress import progress_of
from mosaic.ui.web.pages.comparison import Comparison

_OnTick: TypeAlias = Callable[[str, bool], None]
_REFRESH_S = 2.0
_MOST_TAGS = 12
_PAGE = 100  # rows shown at first; more on demand
_FILTERS = {"all": "All", "live": "Running", "finished": "Finished", "ended": "Stopped or failed"}
_STATES = {
    "live": LIVE | {State.QUEUED},
    "finished": frozenset({State.FINISHED}),
    "ended": frozenset({State.STOPPED, State.FAILED, State.LOST}),
}


@dataclass
class _View:
    state: str = "all"
    text: str = ""
    tag: str = ""
    project: str = ""
    projects: frozenset[str] = frozenset()  # names that the chosen project's runs carry
    shown: int = _PAGE
    ticked: list[str] = field(default_factory=list)

    def wants(self, row: RunSummary) -> bool:
        return (
            (self.state == "all" or row.state in _STATES[self.state])
            and (not self.tag or self.tag in row.tags)
            and (not self.project or row.project in self.projects)
            and all(word in search_text(row) for word in self.text.lower().split())
        )


class _Found(NamedTuple):
    shown: list[RunSummary]
    matching: int
    every: int
    tags: list[str]
    projects: list[str]


def page(frame: PageLayout, project: str = "") -> None:
    """Show all runs, or those of `project` at first."""
    frame.title("Runs")
    _RunsPage(frame.facts, frame, project).build()


class _RunsPage:
    def __init__(self, facts: Facts, frame: PageLayout, project: str = "") -> None:
        self._facts, self._frame, self._view = facts, frame, _View(project=project)
        self._rows: dict[str, _Row] = {}
        self._order: list[str] | None = None  # None: nothing is drawn yet
        self._tags_drawn: tuple[str, list[str]] = ("", [])
        self._projects_drawn: list[str] | None = None
        self._comparison: Comparison | None = None

    def build(self) -> None:
        with box("m-page"):
            with box("row between wrap"):
                with box("row wrap"):
                    field = text_input("Filter by name, environment, tag", self._filter_text, glyph="search")
                    field.style("width:264px")
                    Segmented(_FILTERS, "all", self._filter_state, "State")
                    self._projects = box()
                    self._tags = box("row wrap")
                link_button("New run", "/train", glyph="plus", kind="primary")
            self._compare = box()
            self._compare.set_visibility(False)
            with panel(body="m-body tight"):
                self._table = box("m-scroll")
        ui.timer(_REFRESH_S, self._refresh)

    async def _filter_text(self, text: str) -> None:
        self._view.text = text
        await self._refresh()

    async def _filter_state(self, state: str) -> None:
        self._view.state = state
        await self._refresh()

    async def _filter_tag(self, tag: str) -> None:
        self._view.tag = "" if self._view.tag == tag else tag
        await self._refresh()

    async def _filter_project(self, project: str) -> None:
        self._view.project = project or ""
        replace_address(f"/runs?{urlencode({'project': project})}" if project else "/runs")
        await self._refresh()

    async def _more(self) -> None:
        self._view.shown += _PAGE
        await self._refresh()

    def _load(self) -> _Found:
        """Read what the rows show; this reads many files, so it must not run in the event loop."""
        every = self._facts.rows()
        self._view.projects = frozenset(self._facts.project_names(self._view.project))
        found = [row for row in every if self._view.wants(row)]
        shown = found[: self._view.shown]
        for row in shown:
            self._facts.spark(row)
        tags = sorted({tag for row in every for tag in row.tags})[:_MOST_TAGS]
        projects = {row.name for row in self._facts.projects()} | {row.project for row in every if row.project}
        return _Found(shown, len(found), len(every), tags, sorted(projects))

    async def _refresh(self) -> None:
        """Update existing rows in place, so that ticks and focus stay."""
        found = await run.io_bound(self._load)
        if found is None or self._table.is_deleted:  # the server is shutting down, or the page was left meanwhile
            return
        if (self._view.tag, found.tags) != self._tags_drawn:
            self._draw_tags(found.tags)
        if found.projects != self._projects_drawn:
            self._draw_projects(found.projects)
        order = [row.run_id for row in found.shown]
        if order != self._order:
            self._draw(found)
            return
        now = time.time()
        for row in found.shown:
            self._rows[row.run_id].update(row, self._facts, now)

    def _draw(self, found: _Found) -> None:
        self._table.clear()
        self._rows.clear()
        self._order = [row.run_id for row in found.shown]
        now = time.time()
        with self._table:
            with box("m-table", "table"):
                raw(_HEAD, "", "thead")
                with box("", "tbody"):
                    for row in found.shown:
                        ticked = row.run_id in self._view.ticked
                        self._rows[row.run_id] = _Row(row, self._facts, now, ticked, self._tick)
            if not found.shown:
                empty(
                    'No run matches. Clear the filter, or <a class="m-link" href="/train">start one</a>.'
                    if found.every
                    else 'There are no runs yet. <a class="m-link" href="/train">Start one</a>.'
                )
            if found.matching > len(found.shown):
                with box("m-empty"):
                    button(f"Show more of {found.matching} runs", self._more, kind="ghost")

    def _draw_tags(self, tags: list[str]) -> None:
        self._tags_drawn = (self._view.tag, tags)
        self._tags.clear()
        with self._tags:
            for tag in tags:
                pressed = str(tag == self._view.tag).lower()
                chip = raw(escape(tag), "m-toggle", "button").props(f"type=button aria-pressed={pressed}")
                chip.on("click", lambda tag=tag: self._filter_tag(tag), [])

    def _draw_projects(self, projects: list[str]) -> None:
        self._projects_drawn = projects
        self._projects.clear()
        chosen = self._view.project
        names = {"": "All projects", **{name: name for name in (*projects, *([chosen] if chosen else ()))}}
        if len(names) == 1:
            return
        with self._projects:
            select(names, chosen, label="Project", on_change=self._filter_project).style("width:172px")

    def _tick(self, run_id: str, on: bool) -> None:
        if on and run_id not in self._view.ticked:
            self._view.ticked.append(run_id)
        elif not on and run_id in self._view.ticked:
            self._view.ticked.remove(run_id)
        self._draw_comparison()

    async def _clear(self) -> None:
        self._view.ticked.clear()
        self._draw_comparison()
        self._order = None
        await self._refresh()

    def _draw_comparison(self) -> None:
        rows = {row.run_id: row for row in self._facts.rows()}
        chosen = [rows[run_id] for run_id in self._view.ticked if run_id in rows]
        self._compare.set_visibility(len(chosen) > 1)
        if len(chosen) < 2:
            return
        if self._comparison is None:
            with self._compare:
                self._comparison = Comparison(self._facts, self._clear)
        self._comparison.show(chosen)


class _Row:
    """One row of the table; what changes while the run is alive is updated in place."""

    def __init__(self, row: RunSummary, facts: Facts, now: float, ticked: bool, on_tick: _OnTick) -> None:
        about = " · ".join(filter(None, (env_title(row.env), row.project)))
        with box("on" if ticked else "", "tr") as line:
            with box("", "td").style("width:1px;padding-right:2px"):
                tick = ui.checkbox(value=ticked, on_change=lambda event: self._ticked(on_tick, row.run_id, event.value))
                tick.props("dense size=30px")
                tick.props["aria-label"] = f"Compare {title(row)}"
            raw(
                f'<a class="row" style="gap:12px" href="/runs/{quote(row.run_id)}">{picture(row.env, "m-thumb")}'
                f'<span class="stack" style="gap:0"><b class="strong clip">{escape(title(row))}</b>'
                f'<span class="faint small clip">{escape(about)}</span></span></a>',
                "",
                "td",
            )
            raw(escape(method(row)), "muted hide-phone", "td")
            self._state = raw("", "", "td")
            self._far = raw("", "hide-phone", "td")
            self._spark = raw("", "hide-phone", "td")
            self._reward = raw("", "num strong", "td")
            self._speed = raw("", "num muted hide-phone", "td")
            tags = "".join(f'<span class="m-tag">{escape(tag)}</span>' for tag in row.tags)
            raw(f'<span class="row" style="gap:4px">{tags}</span>', "hide-phone hide-mid", "td")
            self._when = raw("", "num faint hide-phone hide-mid", "td")
        self._line = line
        self.update(row, facts, now)

    def _ticked(self, on_tick: _OnTick, run_id: str, on: bool) -> None:
        self._line.classes(add="on") if on else self._line.classes(remove="on")
        on_tick(run_id, on)

    def update(self, row: RunSummary, facts: Facts, now: float) -> None:
        progress = progress_of(facts.details(row.run_id), facts.iteration(row.run_id)) if row.state in LIVE else None
        left = f"{duration(progress.left_s)} left" if progress and progress.left_s is not None else count(row.env_steps)
        share = f"width:{progress.share or 0:.0%}" if progress else "width:100%;background:var(--line-2)"
        bar = f'<div class="m-bar" style="width:96px"><i style="{share}"></i></div>'
        for element, html in (
            (self._state, pill(row.state)),
            (self._far, f'{bar}<div class="faint small">{left}</div>'),
            (self._spark, spark(facts.spark(row), 92, 26, spark_kind(row))),
            (self._reward, number(row.episode_reward_mean)),
            (self._speed, count(progress.steps_per_s) if progress and progress.steps_per_s else "—"),
            (self._when, ago(row.started or row.queued_at, now)),
        ):
            set_html(element, html)


_HEAD = (
    '<tr><th><span class="sr">Compare</span></th><th>Run</th><th class="hide-phone">Method</th><th>State</th>'
    '<th class="hide-phone">Env steps</th><th class="hide-phone">Return</th><th class="num">Last</th>'
    '<th class="num hide-phone">Steps/s</th><th class="hide-phone hide-mid">Tags</th>'
    '<th class="num hide-phone hide-mid">Started</th></tr>'
)
