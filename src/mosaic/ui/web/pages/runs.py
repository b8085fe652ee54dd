"""Runs page: one table to filter, sort and group, actions on runs, and a comparison of the selected ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import quote

from nicegui import PageArguments, run, ui

from mosaic.store.index.summary import RunSummary
from mosaic.store.state import ENDED, LIVE, State
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.run_actions import ActionableRun, RunMenu, UnreadableRuns, add_tags, delete, set_hidden
from mosaic.ui.web.components.theme import ago, clipped, env_title, method, spark, spark_kind, title
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
from mosaic.ui.web.data.run_list import (
    GROUPINGS,
    STATES,
    Column,
    Grouping,
    RunGroup,
    RunListView,
    grouped,
    place_words,
    progress_bar,
    score_text,
)
from mosaic.ui.web.pages.comparison import Comparison

_OnTick: TypeAlias = Callable[[str, bool], None]
_OnMenu: TypeAlias = Callable[[ui.element, RunSummary], None]
_REFRESH_S = 2.0
_MOST_TAGS = 12
_MOST_ROW_TAGS = 2
_PAGE = 100  # rows shown at first; more on demand
_COLUMNS: tuple[tuple[Column, str, str], ...] = (
    ("name", "Run", ""),
    ("method", "Method", "hide-phone u-method"),
    ("state", "State", "u-state"),
    ("env_steps", "Env steps", "hide-phone u-far"),
    ("score", "Score", "num u-score"),
)


class _Found(NamedTuple):
    groups: list[RunGroup]
    matching: int
    every: int
    tags: list[str]
    projects: list[str]
    unreadable: dict[str, str]

    @property
    def shown(self) -> list[RunSummary]:
        return [row for group in self.groups for row in group.rows]

    @property
    def order(self) -> list[tuple[str, ...]]:
        """Return what a redraw of the table depends on."""
        return [
            (group.title, *(f"{row.run_id}\n{row.name}\n{row.tags}\n{row.note}" for row in group.rows))
            for group in self.groups
        ]


@dataclass
class _DrawnTable:
    """Parts of the table that are updated in place."""

    order: list[tuple[str, ...]] | None = None  # None: it must be drawn
    rows: dict[str, _Row] = field(default_factory=dict)  # by run id
    heads: dict[str, ui.html] = field(default_factory=dict)  # of groups, by key


def page(frame: PageLayout, address: PageArguments) -> None:
    """Show all runs, or those that the address asks for."""
    frame.title("Runs")
    frame.facts.forget_rows()  # the address may select runs that were just created
    _RunsPage(frame.facts, RunListView.of(address.query_parameters)).build()


class _RunsPage:
    def __init__(self, facts: Facts, view: RunListView) -> None:
        self._facts, self._view = facts, view
        self._shown = _PAGE
        self._drawn = _DrawnTable()
        self._tags_drawn: tuple[str, list[str]] = ("", [])
        self._projects_drawn: list[str] | None = None
        self._comparison: Comparison | None = None

    def build(self) -> None:
        view = self._view
        with box("m-page"):
            with box("row between wrap"):
                with box("row wrap"):
                    field = text_input("Filter by name, environment, tag", self._filter_text, glyph="search")
                    field.style("width:276px").set_value(view.text)
                    Segmented(STATES, view.state, self._filter_state, "State")
                    group = select(GROUPINGS, view.group_by, label="Groups", on_change=self._group)
                    group.style("width:164px")
                    self._projects = box()
                with box("row"):
                    link_button("Searches", "/tune", glyph="search", kind="ghost")
                    link_button("New run", "/train", glyph="plus", kind="primary")
            self._tags = box("row wrap")
            self._bar = box("row wrap u-bar")
            self._compare = box("stack gap-4")
            self._compare.set_visibility(False)
            with panel(body="m-body tight"):
                self._table = box("m-scroll")
            self._unreadable = UnreadableRuns()
            self._menu = RunMenu(self._reload)
        self._draw_selection()
        ui.timer(_REFRESH_S, self._refresh)

    async def _filter_text(self, text: str) -> None:
        self._view.text = text
        await self._changed()

    async def _filter_state(self, state: str) -> None:
        self._view.state = state
        await self._changed()

    async def _filter_tag(self, tag: str) -> None:
        self._view.tag = "" if self._view.tag == tag else tag
        await self._changed()

    async def _filter_project(self, project: str) -> None:
        self._view.project = project or ""
        await self._changed()

    async def _group(self, by: str) -> None:
        self._view.group_by = cast(Grouping, by)
        await self._changed()

    async def _sort(self, column: Column) -> None:
        self._view.flip(column)
        self._drawn.order = None  # the head shows the direction
        await self._changed()

    async def _changed(self) -> None:
        replace_address(self._view.address())
        await self._refresh()

    async def _more(self) -> None:
        self._shown += _PAGE
        await self._refresh()

    async def _reload(self) -> None:
        """Show what an action changed."""
        self._facts.forget_rows()
        await self._refresh()
        self._draw_selection()

    def _load(self) -> _Found:
        """Read what the rows show; this reads many files, so it must not run in the event loop."""
        every, view = self._facts.rows(hidden=True), self._view
        carried = frozenset(self._facts.project_names(view.project))
        found = view.in_order(row for row in every if view.wants(row, carried))
        shown = found[: self._shown]
        for row in shown:
            self._facts.spark(row)
        tags = sorted({tag for row in every for tag in row.tags})[:_MOST_TAGS]
        projects = {row.name for row in self._facts.projects()} | {row.project for row in every if row.project}
        groups = grouped(shown, view.group_by, self._facts.settings) if shown else []
        return _Found(groups, len(found), len(every), tags, sorted(projects), self._facts.unreadable())

    async def _refresh(self) -> None:
        """Update existing rows in place, so that ticks and focus stay."""
        found = await run.io_bound(self._load)
        if found is None or self._table.is_deleted:  # the server is shutting down, or the page was left meanwhile
            return
        self._unreadable.show(found.unreadable)
        if (self._view.tag, found.tags) != self._tags_drawn:
            self._draw_tags(found.tags)
        if found.projects != self._projects_drawn:
            self._draw_projects(found.projects)
        if found.order != self._drawn.order:
            self._draw(found)
            return
        now = time.time()
        for group in found.groups:
            if group.title:
                set_html(self._drawn.heads[group.key], _group_head(group))
        for row in found.shown:
            self._drawn.rows[row.run_id].update(row, self._facts, now)

    def _draw(self, found: _Found) -> None:
        self._table.clear()
        self._drawn = _DrawnTable(found.order)
        now = time.time()
        with self._table:
            with box("m-table u-table", "table"):
                self._draw_head()
                with box("", "tbody"):
                    for group in found.groups:
                        if group.title:
                            self._drawn.heads[group.key] = raw(_group_head(group), "u-group", "tr")
                        for row in group.rows:
                            ticked = row.run_id in self._view.ticked
                            self._drawn.rows[row.run_id] = _Row(
                                row, self._facts, now, ticked, self._tick, self._open_menu
                            )
            if not found.shown:
                empty(
                    'No run matches. Clear the filter, or <a class="m-link" href="/train">start one</a>.'
                    if found.every
                    else 'There are no runs yet. <a class="m-link" href="/train">Start one</a>.'
                )
            if found.matching > len(found.shown):
                with box("m-empty"):
                    button(f"Show more of {found.matching} runs", self._more, kind="ghost")

    def _draw_head(self) -> None:
        with box("", "thead"), box("", "tr"):
            raw('<span class="sr">Select</span>', "u-tick", "th")
            for column, words, classes in _COLUMNS:
                self._head(column, words, classes)
                if column == "env_steps":
                    raw("Curve", "hide-phone u-curve", "th")
            raw("Tags", "hide-phone hide-mid u-tagged", "th")
            self._head("started", "Started", "num hide-phone hide-mid u-when")
            raw('<span class="sr">Actions</span>', "u-more", "th")

    def _head(self, column: Column, words: str, classes: str) -> None:
        chosen = self._view.sort == column
        with box(classes, "th") as head:
            if chosen:
                head.props(f"aria-sort={'descending' if self._view.descending else 'ascending'}")
            mark = (" ↓" if self._view.descending else " ↑") if chosen else ""
            sort = raw(escape(words + mark), "u-sort", "button").props("type=button")
            sort.on("click", lambda: self._sort(column), [])

    def _open_menu(self, at: ui.element, row: RunSummary) -> None:
        self._menu.open(at, _actionable(row))

    def _draw_tags(self, tags: list[str]) -> None:
        self._tags_drawn = (self._view.tag, tags)
        self._tags.clear()
        with self._tags:
            for tag in tags:
                pressed = str(tag == self._view.tag).lower()
                chip = raw(escape(tag), "m-toggle clip u-chip", "button").props(f"type=button aria-pressed={pressed}")
                chip.on("click", lambda tag=tag: self._filter_tag(tag), [])

    def _draw_projects(self, projects: list[str]) -> None:
        self._projects_drawn = projects
        self._projects.clear()
        chosen = self._view.project
        names = {"": "All projects", **{name: name for name in (*projects, *([chosen] if chosen else ()))}}
        if len(names) == 1:
            return
        with self._projects:
            select(names, chosen, label="Project", on_change=self._filter_project).style("width:150px")

    def _tick(self, run_id: str, on: bool) -> None:
        if on and run_id not in self._view.ticked:
            self._view.ticked.append(run_id)
        elif not on and run_id in self._view.ticked:
            self._view.ticked.remove(run_id)
        replace_address(self._view.address())
        self._draw_selection()

    async def _clear(self) -> None:
        self._view.ticked.clear()
        self._drawn.order = None
        self._draw_selection()
        await self._changed()

    def _draw_selection(self) -> None:
        """Show what can be done with the selected runs, and from two on their comparison."""
        rows = {row.run_id: row for row in self._facts.rows(hidden=True)}
        self._view.ticked = [run_id for run_id in self._view.ticked if run_id in rows]
        chosen = [rows[run_id] for run_id in self._view.ticked]
        self._bar.clear()
        self._bar.set_visibility(bool(chosen))
        if chosen:
            with self._bar:
                self._draw_bar(chosen)
        self._compare.set_visibility(len(chosen) > 1)
        if len(chosen) < 2:
            return
        if self._comparison is None:
            with self._compare:
                self._comparison = Comparison(self._facts, self._view, self._keep_address)
        self._comparison.show(chosen)
        with self._compare:
            ui.timer(0.0, self._comparison.load, once=True)

    def _keep_address(self) -> None:
        replace_address(self._view.address())

    def _draw_bar(self, chosen: list[RunSummary]) -> None:
        runs = [_actionable(row) for row in chosen]
        hidden = all(row.hidden for row in chosen)
        raw(f"<b>{len(chosen)} selected</b>", "muted")
        if len(chosen) == 1:
            raw("Select another run to compare them.", "small faint")
        button("Add tags", lambda: add_tags(runs, self._reload), glyph="plus", kind="small")
        hide = lambda: set_hidden([row.run_id for row in chosen], not hidden, self._reload)  # noqa: E731
        button("Show in lists again" if hidden else "Hide from lists", hide, glyph="x", kind="small")
        if all(row.state in {*ENDED, State.QUEUED} for row in chosen):
            button("Delete", lambda: delete(runs, self._reload), glyph="trash", kind="danger small")
        button("Clear the selection", self._clear, kind="ghost small")


def _actionable(row: RunSummary) -> ActionableRun:
    return ActionableRun.model_validate(row, from_attributes=True)


class _Row:
    """One row of the table; what changes while the run is alive is updated in place."""

    def __init__(
        self, row: RunSummary, facts: Facts, now: float, ticked: bool, on_tick: _OnTick, on_menu: _OnMenu
    ) -> None:
        self._row = row
        about = " · ".join(filter(None, (env_title(row.env), row.project, row.note.partition("\n")[0])))
        with box("on" if ticked else "", "tr") as line:
            with box("", "td").style("padding-right:2px"):
                tick = ui.checkbox(value=ticked, on_change=lambda event: self._ticked(on_tick, row.run_id, event.value))
                tick.props("dense size=30px")
                tick.props["aria-label"] = f"Select {title(row)}"
            raw(
                f'<a class="row" style="gap:12px" href="/runs/{quote(row.run_id)}">{picture(row.env, "m-thumb")}'
                f'<span class="stack" style="gap:0">{clipped(title(row))}'
                f'<span class="faint small clip" title="{escape(row.note)}">{escape(about)}</span></span></a>',
                "u-name",
                "td",
            )
            raw(escape(method(row)), "muted hide-phone clip u-method", "td")
            self._state = raw("", "", "td")
            self._far = raw("", "hide-phone u-far", "td")
            self._spark = raw("", "hide-phone", "td")
            self._score = raw("", "num", "td")
            raw(_tags(row.tags), "hide-phone hide-mid", "td")
            self._when = raw("", "num faint hide-phone hide-mid", "td")
            with box("num u-more", "td"):
                more = button(glyph="more", kind="ghost small", label=f"Actions on {title(row)}")
                more.on("click", lambda: on_menu(more, self._row), [])
        self._line = line
        self.update(row, facts, now)

    def _ticked(self, on_tick: _OnTick, run_id: str, on: bool) -> None:
        self._line.classes(add="on") if on else self._line.classes(remove="on")
        on_tick(run_id, on)

    def update(self, row: RunSummary, facts: Facts, now: float) -> None:
        self._row = row
        progress = progress_of(facts.details(row.run_id), facts.iteration(row.run_id)) if row.state in LIVE else None
        queue = facts.queue() if row.state is State.QUEUED else {}
        place = [*queue].index(row.run_id) + 1 if row.run_id in queue else None
        why = queue.get(row.run_id, "")
        short = "next" if place == 1 else place_words(place)  # a phone's column is narrow
        waits = f'<div class="faint small only-phone">{short}</div>' if queue else ""
        far = progress_bar(row, progress, place)
        for element, html in (
            (self._state, pill(row.state) + waits),
            (self._far, f'<div title="{escape(why)}">{far}</div>' if why else far),
            (self._spark, spark(facts.spark(row), 84, 26, spark_kind(row))),
            (self._score, score_text(row)),
            (self._when, ago(row.started or row.queued_at, now)),
        ):
            set_html(element, html)


def _group_head(group: RunGroup) -> str:
    """Return a cell whose words go beyond it: one over all columns would add columns where some are hidden."""
    words = f'<b class="clip">{escape(group.title)}</b><span class="faint">{escape(group.facts)}</span>'
    return f'<th colspan="2" scope="rowgroup"><div>{words}</div></th>'


def _tags(tags: tuple[str, ...]) -> str:
    shown = "".join(
        f'<span class="m-tag clip" title="{escape(tag)}">{escape(tag)}</span>' for tag in tags[:_MOST_ROW_TAGS]
    )
    more = len(tags) - _MOST_ROW_TAGS
    rest = f'<span class="faint small" title="{escape(", ".join(tags))}">+{more}</span>' if more > 0 else ""
    return f'<span class="row u-tags">{shown}{rest}</span>'
