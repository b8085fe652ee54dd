"""List of runs as the Runs page shows it: filtered, sorted and grouped, with all of that in the page's address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import urlencode

from mosaic.core.ids import Json
from mosaic.store.index.summary import RunSummary
from mosaic.store.state import LIVE, State
from mosaic.ui.cli.group_results import differences
from mosaic.ui.web.components.theme import count, duration, env_title, method, number, search_text, title
from mosaic.ui.web.data.chart_groups import EVALUATED, measure_title, natural
from mosaic.ui.web.data.progress import RunProgress

Column: TypeAlias = Literal["name", "method", "state", "env_steps", "score", "started"]
Grouping: TypeAlias = Literal["", "env", "config", "group", "project"]
GROUPINGS: Mapping[str, str] = {
    "": "No groups",
    "env": "By environment",
    "config": "By configuration",
    "group": "By seed group",
    "project": "By project",
}
STATES: Mapping[str, str] = {
    "all": "All",
    "live": "Running",
    "finished": "Finished",
    "ended": "Stopped or failed",
    "hidden": "Hidden",
}
_STATES = {
    "live": LIVE | {State.QUEUED},
    "finished": frozenset({State.FINISHED}),
    "ended": frozenset({State.STOPPED, State.FAILED, State.LOST}),
}
_ORDER = tuple(State)
_MOST_SETTINGS = 3  # named in the title of a group
_IGNORED = ("seed", "name", "tags", "run_id")


@dataclass
class RunListView:
    """Choices of one viewer."""

    state: str = "all"
    text: str = ""
    tag: str = ""
    project: str = ""
    sort: Column | None = None  # None: newest first
    descending: bool = False
    group_by: Grouping = ""
    ticked: list[str] = field(default_factory=list)
    measure: str = ""  # title of the chart that compares the ticked runs; "": their score
    by: str = ""  # what tells their methods apart in statistics; "": the first way that does

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RunListView:
        """Read an address; what it does not know is ignored, so that an old link still opens the list."""
        view = cls(text=query.get("q", ""), tag=query.get("tag", ""), project=query.get("project", ""))
        view.state = query.get("state", "all") if query.get("state") in STATES else "all"
        view.group_by = next((each for each in get_args(Grouping) if each == query.get("group")), "")
        asked = query.get("sort", "")
        view.sort = next((each for each in get_args(Column) if each == asked.removeprefix("-")), None)
        view.descending = asked.startswith("-")
        view.measure, view.by = query.get("measure", ""), query.get("by", "")
        view.ticked = [run_id for run_id in query.get("compare", "").split(",") if run_id]
        return view

    def address(self) -> str:
        said = {
            "state": self.state if self.state != "all" else "",
            "q": self.text,
            "tag": self.tag,
            "project": self.project,
            "group": self.group_by,
            "sort": ("-" if self.descending else "") + self.sort if self.sort else "",
            "compare": ",".join(self.ticked),
            "measure": self.measure if self.ticked else "",
            "by": self.by if self.ticked else "",
        }
        query = urlencode({key: value for key, value in said.items() if value}, safe=",")
        return f"/runs?{query}" if query else "/runs"

    def wants(self, row: RunSummary, projects: frozenset[str]) -> bool:
        """Return whether the row is listed; `projects` are the names that runs of the chosen project carry."""
        return (
            row.hidden == (self.state == "hidden")
            and (self.state not in _STATES or row.state in _STATES[self.state])
            and (not self.tag or self.tag in row.tags)
            and (not self.project or row.project in projects)
            and all(word in search_text(row) for word in self.text.lower().split())
        )

    def in_order(self, rows: Iterable[RunSummary]) -> list[RunSummary]:
        """Sort rows that come newest first; those without a value are last in both directions."""
        column, rows = self.sort, list(rows)
        if column is None:
            return rows
        known = [row for row in rows if _key(row, column) is not None]
        known.sort(key=lambda row: _key(row, column), reverse=self.descending)  # type: ignore[arg-type,return-value]
        return known + [row for row in rows if _key(row, column) is None]

    def flip(self, column: Column) -> None:
        """Sort by a column: numbers from the greatest, words from A; again: the other way round; then not at all."""
        first = column in ("env_steps", "score", "started")
        if self.sort != column:
            self.sort, self.descending = column, first
        elif self.descending == first:
            self.descending = not first
        else:
            self.sort, self.descending = None, False


def _key(row: RunSummary, column: Column) -> object:
    match column:
        case "name":
            return natural(title(row).lower())
        case "method":
            return method(row).lower()
        case "state":
            return _ORDER.index(row.state)
        case "env_steps":
            return row.env_steps
        case "score":
            return row.score
        case "started":
            return row.started or row.queued_at


class RunGroup(NamedTuple):
    key: str
    title: str  # "" where the list has no groups
    rows: list[RunSummary]

    @property
    def facts(self) -> str:
        """Return how many runs it has, and their scores where those are of one kind."""
        number_of = "1 run" if len(self.rows) == 1 else f"{len(self.rows)} runs"
        scores = [row.score for row in self.rows if row.score is not None]
        if len({(row.env, row.measure) for row in self.rows}) > 1 or not scores:
            return number_of
        mean = f" · mean {_score(sum(scores) / len(scores))}" if len(scores) > 1 else ""
        return f"{number_of} · best {_score(max(scores))}{mean}"


def grouped(
    rows: Sequence[RunSummary], by: Grouping, config_of: Callable[[RunSummary], tuple[str, Mapping[str, Json]]]
) -> list[RunGroup]:
    """Return the rows in groups, each where its first row is; `config_of` returns a run's settings and their key."""
    if not by:
        return [RunGroup("", "", list(rows))]
    found: dict[str, list[RunSummary]] = {}
    configs: dict[str, Mapping[str, Json]] = {}
    for row in rows:
        key = {"env": row.env, "group": row.group, "project": row.project, "config": ""}[by]
        if by == "config":
            key, configs[key] = config_of(row)
        found.setdefault(key, []).append(row)
    titles = _config_titles(found, configs) if by == "config" else {key: _title(by, key, found[key]) for key in found}
    return [RunGroup(key, titles[key], found[key]) for key in found]


def _title(by: Grouping, key: str, rows: Sequence[RunSummary]) -> str:
    match by:
        case "env":
            return env_title(key)
        case "group":
            return f"{env_title(rows[0].env)} · {key}" if key else "In no seed group"
        case _:
            return key or "In no project"


def _config_titles(found: Mapping[str, list[RunSummary]], configs: Mapping[str, Mapping[str, Json]]) -> dict[str, str]:
    """Name each configuration by env, method, and what differs from others of the same env and method."""
    alike: dict[str, list[str]] = {}
    for key, rows in found.items():
        alike.setdefault(f"{env_title(rows[0].env)} · {method(rows[0])}", []).append(key)
    titles = {}
    for name, keys in alike.items():
        differing = differences([configs[key] for key in keys]) if len(keys) > 1 else {}
        named = [(setting, values) for setting, values in differing.items() if setting not in _IGNORED]
        for place, key in enumerate(keys):
            parts = [f"{setting.rpartition('.')[2]} {values[place]}" for setting, values in named[:_MOST_SETTINGS]]
            titles[key] = " · ".join([name, *parts])
    return titles


def progress_bar(row: RunSummary, progress: RunProgress | None, place: int | None) -> str:
    """Return a bar and words under it that tell queued, paused, running, stopped and finished runs apart."""
    share = progress.share if progress else _share(row)
    left_s = progress.left_s if progress else None
    steps = count(row.env_steps)
    match row.state:
        case State.QUEUED:
            return _bar(row.state, 0.0, place_words(place))
        case State.FINISHED:
            return _bar(row.state, 1.0, steps)
        case State.RUNNING | State.STARTING | State.STOPPING:
            pace = f" · {count(progress.steps_per_s)}/s" if progress and progress.steps_per_s else ""
            words = (f"{duration(left_s)} left" if left_s is not None else steps) + pace
            return _bar(row.state, share or 0.0, words)
        case State.PAUSED:
            return _bar(row.state, share or 0.0, f"paused at {steps}")
        case State.STOPPED | State.FAILED | State.LOST:
            of = f" of {count(row.target_steps)}" if row.target_steps else ""
            return _bar(row.state, share if share is not None else 1.0, f"{steps}{of}")


def place_words(place: int | None) -> str:
    """Return the place of a run in the queue; None where it is not known yet."""
    return "queued" if place is None else "next in the queue" if place == 1 else f"{place - 1} before it"


def _share(row: RunSummary) -> float | None:
    return min(1.0, row.env_steps / row.target_steps) if row.target_steps else None


def _bar(kind: State, share: float, words: str) -> str:
    return f'<div class="m-bar {kind}"><i style="width:{share:.0%}"></i></div><div class="faint small">{words}</div>'


def score_text(row: RunSummary) -> str:
    """Return the run's score and what it is: a rating is not a return."""
    name = "evaluated" if (words := measure_title(row.measure)) == EVALUATED else words.lower()
    return f'<span class="strong">{_score(row.score)}</span><div class="faint small">{escape(name)}</div>'


def _score(score: float | None) -> str:
    return number(score, 0 if score is not None and abs(score) >= 1000 else 2)
