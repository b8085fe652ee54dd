"""Views of a hyperparameter search: its trials while it runs, and its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mosaic.runs.tuning.search import TrialStanding, best_of
from mosaic.ui.cli.output import LINE_EVERY_S, Throttle, err, note, out, print_table, short

if TYPE_CHECKING:
    from mosaic.runs.tuning.plan import SearchPlan

_MOST_ROWS = 24
_ORDER = ("running", "paused", "waiting", "done", "stopped", "failed")


class SearchView:
    """Live view of a search, fed with standings and drawn at any time."""

    def __init__(self, plan: SearchPlan) -> None:
        self._plan = plan
        self._standings: Sequence[TrialStanding] = ()
        self.pace: Throttle | None = None  # for plain lines, where no terminal can be redrawn

    def show(self, standings: Sequence[TrialStanding]) -> None:
        self._standings = standings
        if self.pace is not None and self.pace.due():
            note(f"{self._plan.search_id}: {self._facts()}")

    def _facts(self) -> str:
        settings = self._plan.settings
        over = sum(each.state in ("done", "stopped", "failed") for each in self._standings)
        facts = [f"{over} of {settings.trials} trials ended"]
        best = best_of(self._standings, settings.mode)
        if best is not None:
            facts.append(f"best {settings.metric} {best.score:.4g} (trial {best.trial})")
        return "   ".join(facts)

    def render(self) -> RenderableType:
        plan, standings = self._plan, self._standings
        settings, training = plan.settings, plan.config.training
        title = f"{plan.config.environment.id}   {training.worker} {training.algorithm}   {settings.scheduler}"
        parts: list[RenderableType] = [Text.assemble((title, "bold"), "  ", (plan.search_id, "dim"))]
        parts.append(Text(self._facts()))
        if standings:
            parts.append(_table(standings, plan.steps, settings.metric))
        parts.append(Text("Ctrl-C stops and saves.", style="dim"))
        return Group(*parts)


@contextmanager
def shown_live(view: SearchView, *, shown: bool = True) -> Iterator[None]:
    if not shown or not err.is_terminal:
        view.pace = Throttle(LINE_EVERY_S) if shown else None
        yield
        return
    with Live(get_renderable=view.render, console=err, refresh_per_second=4):
        yield


def show_outcome(document: Mapping[str, Any]) -> None:
    metric, best = document["metric"], document["best"]
    names = list(dict.fromkeys(name for trial in document["trials"] for name in trial["options"]))
    rows = [
        [
            trial["trial"],
            *(_shown(trial["options"].get(name, "–")) for name in names),
            "–" if trial[metric] is None else f"{trial[metric]:.4g}",
            short(trial["env_steps"]),
            trial["state"],
            (trial["run_id"] or "–").replace(document["search_id"], "…"),  # the title has the search id
        ]
        for trial in document["trials"]
    ]
    columns = ["trial", *names, metric, "steps", "state", "run"]
    print_table(f"Search {document['search_id']}", columns, rows, ("trial", metric, "steps"), whole=0)
    for trial in document["trials"]:
        if trial["state"] == "failed":
            note(f"Trial {trial['trial']} failed: {trial['reason']}")
    if best is not None:
        out.print(f"Best: trial {best['trial']} with {_options(best['options'])}", soft_wrap=True)
        out.print(f"Train with it: mosaic train --config {quote(best['config'])}", soft_wrap=True)


def _table(standings: Sequence[TrialStanding], steps: int, metric: str) -> Table:
    """Return a table of the trials, active ones first, cut to the lines a screen has."""
    ordered = sorted(standings, key=lambda each: (_ORDER.index(each.state), each.trial))
    table = Table("trial", "state", "", metric, "options", box=None, header_style="dim")
    for each in ordered[:_MOST_ROWS]:
        score = "–" if each.score is None else f"{each.score:.4g}"
        done = f"{min(1.0, each.env_steps / steps):.0%}"
        table.add_row(str(each.trial), each.state, done, score, Text(_options(each.options)))
    if len(ordered) > _MOST_ROWS:
        table.add_row("…", f"{len(ordered) - _MOST_ROWS} more")
    return table


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in options.items())


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
