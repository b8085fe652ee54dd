"""Results of evaluations and tournaments: tables with intervals, score matrix, ratings, and single episodes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import cast

from nicegui import ui

from mosaic.core.ids import PolicyID
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.theme import number
from mosaic.ui.web.components.widgets import Segmented, box, button, command, empty, panel, raw, select
from mosaic.ui.web.data.result_text import (
    agents_table,
    evaluation_verdict,
    examine_command,
    first_agent_bar,
    histogram,
    rank,
    ratings_table,
    reports_table,
    short,
    tournament_csv,
    tournament_verdict,
)
from mosaic.ui.web.data.results import (
    EpisodeDocument,
    EvaluationDocument,
    GameDocument,
    Reports,
    TournamentDocument,
    chosen_episodes,
    first_agent_score,
    score_of,
)

_PLAYED = {"tournament": "Played", "evaluate": "Winner"}
_PAGE = 10  # episodes shown at first; more on demand


def show_result(row: ExaminationRow) -> None:
    assert row.result is not None
    seconds = (row.ended or row.started) - row.started
    if row.kind == "tournament":
        tournament = cast(TournamentDocument, row.result)
        _show_verdict(tournament_verdict(tournament, seconds))
        _Tournament(row, tournament).build()
    else:
        evaluation = cast(EvaluationDocument, row.result)
        _show_verdict(evaluation_verdict(evaluation, seconds))
        _Evaluation(row, evaluation).build()


def _show_verdict(html: str) -> None:
    raw(f"{icon('check', 'accent')}<span>{html}</span>", "row muted e-verdict").props("role=status")


def _show_reports(policies: Mapping[PolicyID, Reports]) -> None:
    table = reports_table(policies)
    if table:
        with panel("Reported by policies", hint="about their decisions, 95% intervals", body="m-body tight"):
            raw(table, "m-scroll")


class _Tournament:
    def __init__(self, row: ExaminationRow, result: TournamentDocument) -> None:
        self._row, self._result = row, result
        self._names = [each["policy"] for each in result["policies"]]
        self._cells: dict[tuple[int, int], ui.html] = {}

    def build(self) -> None:
        with box("m-cols").style("grid-template-columns:minmax(0,1.12fr) minmax(0,1fr)"):
            with box("stack gap-4"):
                with panel("Ratings", hint="95% interval, every pair as either agent", body="m-body tight") as end:
                    with end:
                        button(glyph="export", kind="ghost small", label="Save as CSV", on_click=self._save)
                    raw(ratings_table(self._result), "m-scroll")
                _show_reports({each["policy"]: each.get("reports", {}) for each in self._result["policies"]})
                self._episodes = Episodes(self._row)
            with box("stack gap-4"):
                self._matrix()
                with panel(
                    "Does the first agent have an advantage?", hint=f"all {self._result['games_total']:,} games"
                ):
                    raw(first_agent_bar(first_agent_score(self._result)), "stack")
                _terminal(self._row)
        self._choose(0, 1)

    def _save(self) -> None:
        ui.download.content(tournament_csv(self._result), "tournament.csv", "text/csv")

    def _matrix(self) -> None:
        names = self._names
        with panel("Who beats whom", hint="score of the row against the column"):
            with (
                box("m-scroll"),
                box("e-matrix").style(
                    f"grid-template-columns:minmax(96px,max-content) repeat({len(names)},minmax(40px,1fr))"
                ),
            ):
                raw("", "h")
                for place in range(len(names)):
                    raw(rank(place + 1), "h")
                for i, name in enumerate(names):
                    raw(f'{rank(i + 1)}<span class="clip" title="{escape(name)}">{escape(short(name))}</span>', "rh")
                    for j, other in enumerate(names):
                        if i == j:
                            raw("·", "self")
                        else:
                            self._cells[i, j] = self._cell(i, j, name, other)
            raw(
                '<span class="k b"></span>loses <span class="k e"></span>even <span class="k a"></span>wins',
                "row small muted e-legend",
            )
            self._note = raw("", "m-note e-note")

    def _cell(self, i: int, j: int, name: str, other: str) -> ui.html:
        score = score_of(self._result, name, other)
        tone, strength = ("--s1" if score.mean > 0.5 else "--s2"), 46 * abs(score.mean - 0.5) * 2
        cell = raw(f"{100 * score.mean:.0f}", "c", "button").props("type=button")
        cell.style(f"--tone:var({tone});--k:{strength:.0f}%")
        cell.props["aria-label"] = f"{name} against {other}: {score.words}"
        cell.on("click", lambda: self._choose(i, j), [])
        return cell

    def _choose(self, i: int, j: int) -> None:
        for place, cell in self._cells.items():
            if place == (i, j):
                cell.classes(add="on").props("aria-pressed=true")
            else:
                cell.classes(remove="on").props("aria-pressed=false")
        name, other = self._names[i], self._names[j]
        score = score_of(self._result, name, other)
        self._note.set_content(
            f'<b class="strong">{escape(short(name))}</b> scores {score.words} against '
            f'<b class="strong">{escape(short(other))}</b>: {score.wins} won, {score.draws} drawn, {score.losses} lost.'
        )
        games = [
            (index, game)
            for index, game in enumerate(self._result["episode_results"])
            if {game["first"], game["second"]} == {name, other}
        ]
        self._episodes.show(
            [_game(index, game, name) for index, game in games], f"{short(name)} against {short(other)}"
        )


class _Evaluation:
    def __init__(self, row: ExaminationRow, result: EvaluationDocument) -> None:
        self._row, self._result = row, result
        self._agent = next(iter(result["agents"]))
        self._which = "all"

    def build(self) -> None:
        result = self._result
        with box("m-cols").style("grid-template-columns:minmax(0,1.2fr) minmax(0,1fr)"):
            with box("stack gap-4"):
                with panel("Agents", hint="mean return with its 95% interval", body="m-body tight"):
                    raw(agents_table(result, "agents"), "m-scroll")
                if len(result["agents"]) > 1:
                    with panel("Policies", hint="over all agents that it played", body="m-body tight"):
                        raw(agents_table(result, "policies"), "m-scroll")
                _show_reports({policy: each.get("reports", {}) for policy, each in result["policies"].items()})
                self._episodes = Episodes(self._row)
            with box("stack gap-4"):
                with panel("Distribution of returns") as end:
                    with end:
                        if len(result["agents"]) > 1:
                            select(list(result["agents"]), self._agent, label="Agent", on_change=self._choose_agent)
                    self._spread = raw("", "stack")
                with panel("Notable episodes"):
                    competitive = any(row["wins"] is not None for row in result["agents"].values())
                    options = {"all": "All", "won": "Won", "drawn": "Drawn", "lost": "Lost"}
                    ranked = {"all": "All", "best": "Best", "worst": "Worst", "longest": "Longest"}
                    Segmented(options if competitive else ranked, "all", self._choose_which, "Which episodes")
                    raw(_facts(result), "m-kv", "dl")
                _terminal(self._row)
        self._show()

    def _choose_agent(self, agent: str) -> None:
        self._agent = agent
        self._show()

    def _choose_which(self, which: str) -> None:
        self._which = which
        self._show()

    def _show(self) -> None:
        episodes = list(enumerate(self._result["episode_results"]))
        returns = [episode["returns"].get(self._agent) for _, episode in episodes]
        known = [value for value in returns if value is not None]
        self._spread.set_content(histogram(known) if known else '<span class="faint">No returns.</span>')
        chosen = chosen_episodes(episodes, self._agent, self._which)
        self._episodes.show(
            [_episode(index, episode, self._agent) for index, episode in chosen], f"{self._agent}, {self._which}"
        )


class Episodes:
    """Episodes behind a number, each with a link to watch it."""

    def __init__(self, row: ExaminationRow) -> None:
        self._row, self._lines, self._shown = row, list[tuple[int, list[str]]](), _PAGE
        with panel("Episodes behind it", body="m-body tight") as end:
            with end:
                self._hint = raw("", "small faint clip", "span")
            self._body = box()

    def show(self, lines: list[tuple[int, list[str]]], words: str) -> None:
        self._lines, self._shown = lines, _PAGE
        self._hint.set_content(escape(words))
        self._draw()

    def _more(self) -> None:
        self._shown += 50
        self._draw()

    def _draw(self) -> None:
        recorded = bool(self._row.request.get("record", True))
        self._body.clear()
        with self._body:
            if not self._lines:
                empty("There are none.")
                return
            with box("m-scroll"), box("m-table dense", "table"):
                raw(
                    f'<tr><th>Episode</th><th class="hide-phone">Seed</th><th>{_PLAYED[self._row.kind]}</th>'
                    '<th class="num">Length</th><th class="num">Result</th>'
                    '<th><span class="sr">Replay</span></th></tr>',
                    "",
                    "thead",
                )
                with box("", "tbody"):
                    for index, cells in self._lines[: self._shown]:
                        self._line(index, cells, recorded)
            if len(self._lines) > self._shown:
                with box("e-more"):
                    button(f"Show more of {len(self._lines):,}", self._more, kind="ghost small")

    def _line(self, index: int, cells: list[str], recorded: bool) -> None:
        seed, played, length, result = cells
        with box("", "tr"):
            raw(f"#{index:04d}", "mono", "td")
            raw(seed, "mono faint hide-phone", "td")
            raw(played, "", "td")
            raw(length, "num", "td")
            raw(result, "num strong", "td")
            with box("num", "td"):
                if recorded:
                    watch = raw("Watch", "m-link", "button").props("type=button")
                    watch.props["aria-label"] = f"Watch episode {index}"
                    watch.on("click", lambda: self._watch(index), [])

    async def _watch(self, index: int) -> None:
        path = f"/{self._row.kind}/{self._row.examination_id}/episodes/{index}/replay"
        reply = await ask_or_complain(path)
        if reply is not None:
            ui.navigate.to(f"/replay?replay={reply.document['replay_id']}")


def _game(index: int, game: GameDocument, name: str) -> tuple[int, list[str]]:
    first = game["first"] == name
    score = game["score"] if first else 1 - game["score"]
    words = {1.0: "won", 0.5: "drew", 0.0: "lost"}[score]
    return index, [str(game["seed"]), "first agent" if first else "second agent", f"{game['length']} env steps", words]


def _episode(index: int, episode: EpisodeDocument, agent: str) -> tuple[int, list[str]]:
    winner = f"{episode['winner']} won" if episode["winner"] else ("cut" if episode["cut"] else "")
    value = number(episode["returns"].get(agent))
    return index, [str(episode["seed"]), escape(winner) or "—", f"{episode['length']} env steps", value]


def _facts(result: EvaluationDocument) -> str:
    low, high = result["length_ci95"]
    interval = "" if low is None or high is None else f" ({number(low, 1)} to {number(high, 1)})"
    rows = {
        "Episode length": f"{number(result['length_mean'], 1)}{interval} env steps",
        "Speed": f"{result['env_steps_per_s']:,.0f} env steps/s",
        "Repeatable": "yes, with the same seed"
        if result["reproducible"]
        else "no: an env or a policy cannot repeat itself",
    }
    pairs = [*rows.items(), *(("Note", escape(note)) for note in result.get("notes", ()))]  # older results have none
    return "".join(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in pairs)


def _terminal(row: ExaminationRow) -> None:
    with panel("Same evaluation from a terminal"):
        command(examine_command(row.kind, row.request), multi=True)
