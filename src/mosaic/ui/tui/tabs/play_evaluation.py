"""Evaluations and tournaments from the Play tab: what is asked for, the progress, and the results as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from mosaic.core.ids import Json
from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.widgets.dialogs import Choose, Prompt
from mosaic.ui.web.components.theme import ago, number

if TYPE_CHECKING:
    from mosaic.server.evaluations.job import ExaminationRow
    from mosaic.server.evaluations.request import Kind
    from mosaic.ui.tui.tabs.play import PlayTab
    from mosaic.ui.web.data.results import EvaluationDocument, ReturnDocument, TournamentDocument

_PLAYERS, _TOURNAMENT = "Evaluate these players …", "Hold a tournament …"
_EPISODES, _SEED = "Episodes", "Seed"
_POLICIES, _GAMES = "Policies, separated by spaces", "Games per pair and side"
_FOLLOW_S = 0.5
_BAR = 30


def ask_for_evaluation(tab: PlayTab) -> None:
    """Ask what to evaluate, or which earlier result to show."""

    def choose(rows: list[ExaminationRow]) -> None:
        earlier = {f"{_title(row)} · {row.state} · {ago(row.started, tab.shell.clock())}": row for row in rows}

        def chosen(label: str | None) -> None:
            if label == _PLAYERS:
                _evaluate(tab)
            elif label == _TOURNAMENT:
                _hold_tournament(tab)
            elif label is not None:
                _follow(tab, earlier[label])

        tab.app.push_screen(Choose("Evaluate", [_PLAYERS, _TOURNAMENT, *earlier]), chosen)

    tab.shell.prepare(lambda: tab.backend.evaluations.rows(), choose)


def _evaluate(tab: PlayTab) -> None:
    form = tab.form
    if form is None or "human" in form.policies.values():
        tab.shell.say("Only policies play evaluations: give every agent a policy first.", "warning")
        return
    agents: dict[str, Json] = dict(form.policies)

    def begin(said: dict[str, str] | None) -> None:
        if said is not None:
            asked: dict[str, Json] = {"agents": agents, "episodes": said[_EPISODES], "seed": said[_SEED]}
            _begin(tab, "evaluate", form.env, asked)

    tab.app.push_screen(Prompt(f"Evaluate {form.env}", {_EPISODES: "100", _SEED: "0"}), begin)


def _hold_tournament(tab: PlayTab) -> None:
    form = tab.form
    if form is None:
        tab.shell.say("The form is not ready yet.", "warning")
        return
    first = " ".join(dict.fromkeys(policy for policy in [*form.policies.values(), *form.offers] if policy != "human"))

    def begin(said: dict[str, str] | None) -> None:
        if said is not None:
            policies: list[Json] = list(said[_POLICIES].split())
            _begin(tab, "tournament", form.env, {"policies": policies, "games": said[_GAMES], "seed": said[_SEED]})

    tab.app.push_screen(Prompt(f"Tournament in {form.env}", {_POLICIES: first, _GAMES: "10", _SEED: "0"}), begin)


def _begin(tab: PlayTab, kind: Kind, env: str, asked: Mapping[str, Json]) -> None:
    request: dict[str, Json] = {"environment": {"env_id": env}, **asked}
    tab.shell.aside(lambda: tab.backend.evaluations.begin(kind, request), lambda row: _follow(tab, row))


def _follow(tab: AppTab, row: ExaminationRow) -> None:
    tab.app.push_screen(EvaluationScreen(tab, row))


class EvaluationScreen(ModalScreen[None]):
    """One evaluation: its progress, then its result. It continues when the screen is left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "Back"), Binding("s", "stop", "Stop")]

    def __init__(self, tab: AppTab, row: ExaminationRow) -> None:
        super().__init__()
        self._tab, self._row, self._asking = tab, row, False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(_title(self._row), classes="title", markup=False)
            with VerticalScroll():
                yield Static(evaluation_text(self._row), id="evaluation")
            yield Static("[b]s[/b] stop   [b]esc[/b] back", classes="keys")

    def on_mount(self) -> None:
        self._ask()  # a list has no results
        self.set_interval(_FOLLOW_S, self._refresh)

    def _refresh(self) -> None:
        if self._row.state == "running" and not self._asking:
            self._ask()

    def _ask(self) -> None:
        self._asking, row, source = True, self._row, self._tab.backend.evaluations
        self._tab.shell.aside(lambda: source.row(row.kind, row.examination_id), self._show)

    def _show(self, row: ExaminationRow) -> None:
        self._asking, self._row = False, row
        if self.is_mounted:
            self.query_one("#evaluation", Static).update(evaluation_text(row))

    def action_stop(self) -> None:
        row, source = self._row, self._tab.backend.evaluations
        if row.state == "running":
            self._tab.shell.aside(lambda: source.stop(row.kind, row.examination_id), self._show)

    def action_leave(self) -> None:
        self.dismiss(None)


def evaluation_text(row: ExaminationRow) -> RenderableType:
    """Return the progress of an evaluation, why it has no result, or its result."""
    if row.state == "running":
        full = round(_BAR * row.done / max(1, row.total))
        return Text(f"{'█' * full}{'░' * (_BAR - full)} {row.done:,} of {row.total:,} games")
    if row.state == "failed":
        return Text(row.error, "#ef6f6c")
    if row.state == "stopped":
        return Text(f"It was stopped after {row.done:,} of {row.total:,} games and has no result.")
    if row.result is None:
        return Text("Reading the result …", "#7d8794")
    if row.kind == "tournament":
        return _ratings(cast("TournamentDocument", row.result))
    return _returns(cast("EvaluationDocument", row.result))


def _ratings(result: TournamentDocument) -> Table:
    table = _table("policy", "rating", "±", "score", "95 % interval")
    for each in result["policies"]:
        low, high = each["score_ci95"]
        cells = f"{each['rating']:.0f}", f"{each['rating_sd']:.0f}", f"{each['score_mean']:.3f}"
        table.add_row(Text(each["policy"]), *cells, f"{low:.3f} to {high:.3f}")
    return table


def _returns(result: EvaluationDocument) -> RenderableType:
    table = _table("agent", "policy", "return", "95 % interval", "won", "drawn", "lost")
    for agent, each in result["agents"].items():
        low, high = each["return_ci95"]
        counts = (("—" if value is None else str(value)) for value in _counts(each))
        interval = f"{number(low)} to {number(high)}"
        table.add_row(Text(agent), Text(each["policy"]), number(each["return_mean"]), interval, *counts)
    words = f"{result['episodes']:,} episodes, {result['distinct_games']:,} of them distinct"
    return Group(table, Text(f"\n{words}, {number(result['length_mean'])} env steps on average", "#7d8794"))


def _counts(row: ReturnDocument) -> tuple[int | None, int | None, int | None]:
    return row["wins"], row["draws"], row["losses"]


def _table(*heads: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(*(Text(head, "#7d8794") for head in heads))
    return table


def _title(row: ExaminationRow) -> str:
    from mosaic.config.sections import EnvironmentConfig

    env = EnvironmentConfig.model_validate(row.request["environment"]).id
    names = row.request.get("policies") or row.request.get("agents", {}).values()
    kind = "Tournament" if row.kind == "tournament" else "Evaluation"
    return f"{kind} in {env}: {', '.join(dict.fromkeys(names))}"
