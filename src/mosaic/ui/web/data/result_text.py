"""Results of an evaluation or a tournament as sentences, tables, CSV and a command."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

from mosaic.config.sections import join_id
from mosaic.core.ids import PolicyID
from mosaic.ui.web.components.theme import duration, number
from mosaic.ui.web.data.results import (
    EvaluationDocument,
    Interval,
    PairScore,
    Reports,
    ReturnDocument,
    TournamentDocument,
    score_of,
)

_Z = 1.96  # rating ± this many standard deviations holds 95 %


def tournament_verdict(result: TournamentDocument, seconds: float) -> str:
    """Return one sentence that states the outcome."""
    best, second = (row["policy"] for row in result["policies"][:2])
    score = score_of(result, best, second)
    low, high = score.interval
    said = f"{result['games_total']:,} games in {duration(seconds)}. "
    names = f'<b class="strong">{escape(short(best))}</b> and <b class="strong">{escape(short(second))}</b>'
    if low <= 0.5 <= high:
        said += f"{names} are not clearly apart: {score.words}."
    else:
        said += f'<b class="strong">{escape(short(best))}</b> beats {escape(short(second))}: {score.words}.'
    return said + _repeated(result["distinct_games"], result["games_total"])


def evaluation_verdict(result: EvaluationDocument, seconds: float) -> str:
    rows = list(result["agents"].items())
    agent, row = rows[0]
    said = f"{result['episodes']:,} episodes in {duration(seconds)}. "
    if len(rows) == 1:
        said += f'<b class="strong">{escape(short(row["policy"]))}</b> returns {interval(row)}.'
    elif row["wins"] is not None:
        said += (
            f'<b class="strong">{escape(agent)}</b> ({escape(short(row["policy"]))}) won {row["wins"]}, '
            f"drew {row['draws']} and lost {row['losses']}."
        )
    else:
        said += _best_return(result["policies"])
    if result["cut"]:
        said += f" {result['cut']} were cut at {result['max_steps']:,} env steps."
    return said + _repeated(result["distinct_games"], result["episodes"])


def _best_return(policies: Mapping[PolicyID, ReturnDocument]) -> str:
    rows = sorted(policies.items(), key=lambda item: -(item[1]["return_mean"] or 0.0))
    name, best = rows[0]
    said = f'<b class="strong">{escape(short(name))}</b> returns {interval(best)}.'
    if len(rows) == 1:
        return said
    low, high = best["return_ci95"][0], rows[1][1]["return_ci95"][1]
    if low is not None and high is not None and low > high:
        return f"{said} The others return clearly less."
    return f"{said} It is not clearly ahead of {escape(short(rows[1][0]))}: {interval(rows[1][1])}."


def _repeated(distinct: int, played: int) -> str:
    if distinct == played:
        return ""
    return f" Only {distinct:,} of the games differ: a game played again says nothing new and narrows no interval."


def interval(row: ReturnDocument) -> str:
    """Format a mean as 6.84 (6.43 to 7.25): an interval is not symmetric near the end of the possible range."""
    mean, (low, high) = row["return_mean"], row["return_ci95"]
    if mean is None or low is None or high is None:
        return number(mean)
    return f'{number(mean)} <span class="faint">({number(low)} to {number(high)})</span>'


def short(policy: PolicyID) -> str:
    """Return a reference short enough for a column: a run's name without the prefix."""
    return model_alone(policy).removeprefix("run:").replace(":depth=", " ").replace(":elo=", " ")


def model_alone(policy: PolicyID) -> str:
    """Return a language model's reference without its address and options; others as they are."""
    return policy.partition(",")[0] if policy.startswith("llm:") else policy


def ratings_table(result: TournamentDocument) -> str:
    rows = result["policies"]
    low = min(row["rating"] - _Z * row["rating_sd"] for row in rows) - 20
    high = max(row["rating"] + _Z * row["rating_sd"] for row in rows) + 20

    def at(value: float) -> str:
        return f"{(value - low) / (high - low):.2%}"

    body = ""
    for place, row in enumerate(rows, start=1):
        value, half = row["rating"], _Z * row["rating_sd"]
        forest = (
            f'<div class="e-forest" title="{value - half:.0f} to {value + half:.0f}">'
            '<i style="left:0;right:0;height:1px;background:var(--line)"></i>'
            f'<i class="ci" style="left:{at(value - half)};width:calc({at(value + half)} - {at(value - half)})"></i>'
            f'<b style="left:{at(value)}"></b></div>'
        )
        s_low, s_high = row["score_ci95"]
        body += (
            f'<tr><td><span class="row" style="gap:10px">{rank(place)}<span class="clip wide mono" '
            f'title="{escape(row["policy"])}">{escape(model_alone(row["policy"]))}</span></span></td>'
            f'<td class="hide-phone" style="width:34%">{forest}</td>'
            f'<td class="num"><b class="strong">{value:.0f}</b> <span class="faint">± {half:.0f}</span></td>'
            f'<td class="num muted hide-phone" title="{s_low:.0%} to {s_high:.0%}">{row["score_mean"]:.1%}</td></tr>'
        )
    return (
        '<table class="m-table"><thead><tr><th>Policy</th><th class="hide-phone"><span class="row between">'
        f"<span>{low:.0f}</span><span>{high:.0f}</span></span></th>"
        f'<th class="num">Rating</th><th class="num hide-phone">Score</th></tr></thead><tbody>{body}</tbody></table>'
    )


def rank(place: int) -> str:
    return f'<span class="rank">{place}</span>'


def agents_table(result: EvaluationDocument, what: Literal["agents", "policies"]) -> str:
    """Return the table of `what`: agents or policies."""
    rows = result[what]
    competitive = any(row["wins"] is not None for row in rows.values())
    known = [end for row in rows.values() for end in row["return_ci95"] if end is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    span = (high - low) or 1.0
    body = ""
    for name, row in rows.items():
        mean, (start, end) = row["return_mean"], row["return_ci95"]
        forest = ""
        if mean is not None and start is not None and end is not None:
            left, middle, right = ((value - low) / span for value in (start, mean, end))
            forest = (
                f'<div class="e-forest"><i style="left:0;right:0;height:1px;background:var(--line)"></i>'
                f'<i class="ci" style="left:{left:.2%};width:{max(right - left, 0.004):.2%}"></i>'
                f'<b style="left:{middle:.2%}"></b></div>'
            )
        second = row["policy"] if what == "agents" else ", ".join(row["agents"])
        outcomes = (
            "".join(f'<td class="num">{each}</td>' for each in (row["wins"], row["draws"], row["losses"]))
            if competitive
            else ""
        )
        body += (
            '<tr><td><span class="stack" style="gap:0">'
            f'<b class="strong clip wide" title="{escape(name)}">{escape(name)}</b>'
            f'<span class="faint small clip wide mono" title="{escape(second)}">{escape(second)}</span></span></td>'
            f'<td class="hide-phone e-span">{forest}</td>'
            f'<td class="num strong">{interval(row)}</td>{outcomes}</tr>'
        )
    won = '<th class="num">Won</th><th class="num">Drawn</th><th class="num">Lost</th>' if competitive else ""
    first = "Agent" if what == "agents" else "Policy"
    return (
        f'<table class="m-table e-agents"><thead><tr><th>{first}</th><th class="hide-phone"><span class="row between">'
        f"<span>{number(low)}</span><span>{number(high)}</span></span></th>"
        f'<th class="num">Return</th>{won}</tr></thead><tbody>{body}</tbody></table>'
    )


def reports_table(policies: Mapping[PolicyID, Reports]) -> str:
    """Return the table of what policies reported about their decisions; empty where none did."""
    body = ""
    for policy, reports in policies.items():
        if reports:
            body += f'<tr><th colspan="4" class="mono" title="{escape(policy)}">{escape(short(policy))}</th></tr>'
        for name, row in reports.items():
            scale, unit = (100, " %") if row["share"] else (1, "")
            total = f"{row['total']:g} of {row['count']:,}" if row["share"] else f"{row['total']:,.6g}"
            body += (
                f'<tr><td>{escape(name)}</td><td class="num strong">{_estimate(row["mean"], row["ci95"], scale)}'
                f'{unit}</td><td class="num hide-phone">{_estimate(row["episode_mean"], [None, None])}</td>'
                f'<td class="num">{total}</td></tr>'
            )
    head = (
        '<th>Reported</th><th class="num">Mean</th><th class="num hide-phone">Per episode</th>'
        '<th class="num">Total</th>'
    )
    return f'<table class="m-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>' if body else ""


def _estimate(mean: float | None, ci95: Interval, scale: float = 1) -> str:
    low, high = ci95
    if mean is None:
        return "–"
    if low is None or high is None:
        return f"{scale * mean:.3g}"
    return f'{scale * mean:.3g} <span class="faint">({scale * low:.3g} to {scale * high:.3g})</span>'


def histogram(values: Sequence[float], bins: int = 24) -> str:
    """Return the distribution of returns; one bar where all are equal."""
    low, high = min(values), max(values)
    counts = [0] * (bins if high > low else 1)
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1) if high > low else 0] += 1
    most = max(counts)
    width = (high - low) / len(counts)
    bars = "".join(
        f'<i style="height:{count / most:.1%}" title="{low + place * width:.4g} to {low + (place + 1) * width:.4g}: '
        f'{count} episodes"></i>'
        for place, count in enumerate(counts)
    )
    ends = f"<span>{number(low)}</span><span>{number(high)}</span>"
    return f'<div class="x-hist">{bars}</div><div class="row between small faint">{ends}</div>'


def first_agent_bar(score: PairScore) -> str:
    low, high = score.interval
    won, drawn, lost = (value / score.games for value in (score.wins, score.draws, score.losses))
    if low > 0.5:
        words = "Yes: the first agent scores better."
    elif high < 0.5:
        words = "Yes: the second agent scores better."
    else:
        words = "Not clearly."
    return (
        f'<div class="row between"><span>The first agent scores</span><span><b class="strong">{score.mean:.1%}</b> '
        f'<span class="faint">{low:.0%} to {high:.0%}</span></span></div>'
        f'<div class="m-bar"><i style="width:{won:.2%}"></i><i class="c" style="width:{drawn:.2%}"></i>'
        f'<i class="d" style="width:{lost:.2%}"></i></div>'
        f'<div class="row between small muted"><span>won {won:.1%}</span>'
        f"<span>drawn {drawn:.1%}</span><span>lost {lost:.1%}</span></div>"
        f'<div class="m-note">{words} Every pair plays as either agent equally often, so '
        "ratings are not affected.</div>"
    )


def tournament_csv(result: TournamentDocument) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["first", "second", "games", "wins", "draws", "losses", "score_mean", "score_low", "score_high"])
    for pair in result["pairs"]:
        games = [pair["games"], pair["wins"], pair["draws"], pair["losses"]]
        writer.writerow([pair["first"], pair["second"], *games, pair["score_mean"], *pair["score_ci95"]])
    return text.getvalue()


def examine_command(kind: str, request: Mapping[str, Any]) -> str:
    """Return the equivalent command line."""
    environment = request["environment"]
    env = join_id(environment.get("family") or "", environment["env_id"])
    parts = [f"mosaic {kind} {shlex.quote(env)}"]
    if kind == "tournament":
        parts += [shlex.quote(policy) for policy in request["policies"]]
        parts.append(f"--games {request['games']}")
    else:
        parts += [f"--agent {shlex.quote(f'{agent}={policy}')}" for agent, policy in request["agents"].items()]
        parts.append(f"--episodes {request['episodes']}")
    if request.get("seed"):
        parts.append(f"--seed {request['seed']}")
    return " \\\n  ".join(parts)
