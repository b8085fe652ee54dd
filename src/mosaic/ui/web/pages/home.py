"""Home page: where to start, running and recent runs, what is installed."""

from __future__ import annotations

import time
from html import escape
from urllib.parse import quote, urlencode

from nicegui import run, ui

from mosaic.server.schemas import FindingRow
from mosaic.store.index.summary import RunSummary
from mosaic.store.projects.registry import ProjectRow
from mosaic.store.state import LIVE
from mosaic.ui.health import not_installed
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import (
    ago,
    clipped,
    count,
    duration,
    env_title,
    method,
    spark,
    spark_kind,
    title,
)
from mosaic.ui.web.components.widgets import box, button, command, empty, panel, picture, pill, raw, set_html
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.progress import RunProgress, progress_of
from mosaic.ui.web.data.run_list import score_text

_REFRESH_S = 3.0
_RECENT = 8
_START = (
    ("/train", "Train", "Pick an environment, press start, watch the curve.", "sisl/multiwalker_v9"),
    ("/play", "Play", "Play against any policy, or let two policies play.", "classic/connect_four_v3"),
    ("/evaluate", "Evaluate", "Compare policies, with confidence intervals.", "classic/chess_v6"),
)


def page(frame: PageLayout) -> None:
    frame.title("Home")
    with box("m-page"):
        with box("h-start"):
            for href, name, text, env in _START:
                card = f'{picture(env)}<div class="t"><b>{name}{icon("arrow")}</b><span>{text}</span></div>'
                raw(card, "h-card", "a").props(f'href="{href}"')
        with box("m-cols").style("grid-template-columns:minmax(0,1fr) 332px"):
            with box("stack gap-4"):
                _runs(frame.facts)
            with box("stack gap-4"):
                _doctor(frame.facts)
                with panel("From a terminal"):
                    raw("Commands that do the same as these pages.", "m-note")
                    command("mosaic demo")
                    command("mosaic train gym/CartPole-v1")
                    command("mosaic play classic/chess_v6 --agent player_0=human")
                    command("mosaic projects create my-game --env gym/CartPole-v1")


def _runs(facts: Facts) -> None:
    with panel("Running now", body="m-body tight"):
        live = raw('<div class="m-note m-empty">…</div>')
    projects = box()
    with panel("Recent runs", body="m-body tight") as end:
        with end:
            raw("All runs", "m-link small", "a").props('href="/runs"')
        recent = raw("", "m-scroll")

    shown: list[ProjectRow] = []

    async def refresh() -> None:
        drawn = await run.io_bound(_draw, facts)
        if drawn is not None and not live.is_deleted:
            set_html(live, drawn[0])
            set_html(recent, drawn[1])
            if drawn[2] != shown:
                shown[:] = drawn[2]
                _show_projects(projects, drawn[2])

    ui.timer(_REFRESH_S, refresh)


def _draw(facts: Facts) -> tuple[str, str, list[ProjectRow]]:
    """Return the HTML of running and recent runs, and the projects; as this reads many files, it must not run in the
    event loop.
    """
    rows = facts.rows()
    running = [_live(facts, row) for row in rows if row.state in LIVE]
    ended = [row for row in rows if row.state not in LIVE][:_RECENT]
    recent = _table(facts, ended, time.time()) if ended else '<div class="m-note m-empty">No run has ended yet.</div>'
    return "".join(running) or _nothing_runs(bool(rows)), recent, facts.projects()


def _show_projects(place: ui.element, rows: list[ProjectRow]) -> None:
    """List the known projects; the panel is left out where there are none."""
    place.clear()
    if rows:
        with place, panel("Projects", body="m-body tight"):
            raw("".join(map(_project, rows)), "h-projects")


def _project(row: ProjectRow) -> str:
    address = urlencode({"project": row.name})
    about = f"{env_title(row.env)} · {', '.join(row.presets) or 'no presets'}" if row.env else "no environment yet"
    if row.state != "ok":
        words = f'<span class="warn small">{escape(row.problem)}</span>'
    else:
        words = f'<span class="faint small clip" title="{escape(row.folder)}">{escape(about)}</span>'
    train = f'<a class="m-btn small" href="/train?{address}">Train</a>' if row.state == "ok" else pill(row.state)
    return (
        f'<div class="h-project">{icon("folder")}<span class="stack grow" style="gap:0">'
        f'<b class="strong clip">{escape(row.name)}</b>{words}</span>'
        f'<a class="m-link small" href="/runs?{address}">Runs</a>{train}</div>'
    )


def _nothing_runs(any_runs: bool) -> str:
    first = "Nothing is running." if any_runs else "There are no runs yet."
    return (
        f'<div class="m-note m-empty">{first} <a class="m-link" href="/train">Train a policy</a>: tic-tac-toe is '
        "learned in seconds.</div>"
    )


def _live(facts: Facts, row: RunSummary) -> str:
    progress = progress_of(facts.details(row.run_id), facts.iteration(row.run_id))
    share = progress.share or 0.0
    return (
        f'<a class="h-live" href="/runs/{quote(row.run_id)}">{picture(row.env)}<div class="stack"><div class="row">'
        f'<b class="strong clip">{escape(title(row))}</b>{pill(row.state)}</div><div class="muted small clip">'
        f"{escape(env_title(row.env))} · {escape(method(row))}</div>"
        f'<div class="m-bar"><i style="width:{share:.1%}"></i></div>'
        f'<div class="row between small muted">{_how_far(progress)}</div></div>'
        f'<div class="h-spark">{spark(facts.spark(row), 190, 48)}<div class="row between small">'
        f"{score_text(row)}</div></div></a>"
    )


def _how_far(progress: RunProgress) -> str:
    target = f" of {count(progress.target)}" if progress.target else ""
    speed = f" · {progress.steps_per_s:,.0f} env steps/s" if progress.steps_per_s else ""
    left = f"{duration(progress.left_s)} left" if progress.left_s is not None else ""
    return (
        f'<span>{count(progress.done)}{target} {progress.unit}<span class="hide-phone">{speed}</span></span>'
        f"<span>{left}</span>"
    )


def _table(facts: Facts, rows: list[RunSummary], now: float) -> str:
    body = "".join(
        f'<tr><td><a class="row" href="/runs/{quote(row.run_id)}">{picture(row.env, "m-thumb")}'
        f'<span class="stack h-name" style="gap:0">{clipped(title(row))}'
        f'<span class="faint small clip">{escape(env_title(row.env))}</span></span></a></td>'
        f'<td class="muted hide-phone">{escape(method(row))}</td><td>{pill(row.state)}</td>'
        f'<td class="hide-phone">{spark(facts.spark(row), 84, 24, spark_kind(row))}</td>'
        f'<td class="num">{score_text(row)}</td>'
        f'<td class="num muted hide-phone hide-mid">{count(row.env_steps)}</td>'
        f'<td class="num faint hide-phone hide-mid">{ago(row.ended or row.queued_at, now)}</td></tr>'
        for row in rows
    )
    return (
        '<table class="m-table"><thead><tr><th>Run</th><th class="hide-phone">Method</th><th>State</th>'
        '<th class="hide-phone">Curve</th><th class="num">Score</th><th class="num hide-phone hide-mid">Env steps</th>'
        f'<th class="num hide-phone hide-mid">Ended</th></tr></thead><tbody>{body}</tbody></table>'
    )


def _doctor(facts: Facts) -> None:
    with panel("This machine", body="m-body tight") as end:
        with end:
            button("Check again", lambda: look(again=True), glyph="restart", kind="ghost small")
        findings = box()

    async def look(*, again: bool = False) -> None:
        found = await run.io_bound(facts.doctor, again=again)
        if found is None or findings.is_deleted:
            return
        findings.clear()
        with findings:
            _findings(found)

    with findings:
        empty("Looking at what is installed …")
    ui.timer(0.05, look, once=True)


def _findings(found: list[FindingRow]) -> None:
    """List what is broken; fold away what is installed, and what is not installed with the command for it."""
    present = [finding for finding in found if finding.ok]
    options = [finding for finding in found if finding.optional]
    shown = "".join(
        f'<div class="h-doc">{icon("check", "accent")}<span>{escape(finding.id.removeprefix("extra "))}</span>'
        f'<span class="x clip" title="{escape(finding.detail)}">{escape(finding.detail)}</span></div>'
        for finding in present
    )
    for finding in found:
        if not finding.ok and not finding.optional:
            _command_line(finding, icon("alert", "warn"), f" is broken: {escape(finding.detail)}")
    summary = f"{icon('check', 'accent')}<span>{len(present)} parts are installed</span>"
    raw(f"<summary>{summary}</summary>{shown}", "h-found", "details")
    if options:
        with box("h-found", "details"):
            raw(f"{icon('plus')}<span>{not_installed(len(options))}</span>", "", "summary")
            for finding in options:
                _command_line(finding)


def _command_line(finding: FindingRow, sign: str = "", words: str = "") -> None:
    """Show a part, what is said about it, and the command that installs it."""
    with box("h-doc"):
        if sign:
            raw(sign)
        with box("stack gap-1 grow"):
            raw(f"<b>{escape(finding.id.removeprefix('extra '))}</b>{words}")
            if finding.install:
                command(finding.install)
