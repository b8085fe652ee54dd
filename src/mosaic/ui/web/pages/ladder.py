"""Ladder page: ratings of runs, engines and people in one env, by all games played on this server."""

from __future__ import annotations

from html import escape
from urllib.parse import quote, urlencode

from nicegui import run as threads
from nicegui import ui

from mosaic.server.evaluations.ratings import EnvRatings, RatingRow
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import clipped, env_title, title
from mosaic.ui.web.components.widgets import box, empty, link_button, panel, raw, select
from mosaic.ui.web.data.env_info import catalog
from mosaic.ui.web.data.result_text import rank

_FIRST_ENV = "classic/tictactoe_v3"
_NO_GAMES = (
    "No games between two policies have been played here yet. Hold a tournament, evaluate one policy against another, "
    "or record a match on the Play page."
)
_KINDS = {"person": "people", "run": "run", "policy": "policy"}


async def page(frame: PageLayout, env: str = "") -> None:
    """Show the ladder of `env`."""
    frame.title(("Evaluate", "/evaluate"), "Ladder")
    chosen = env or _FIRST_ENV
    known = await threads.io_bound(catalog) or ()
    with box("m-page"):
        with box("row between wrap"):
            envs = {entry.id: env_title(entry.id) for entry in known if entry.installed}
            choice = select(envs, chosen, label="Environment", on_change=_open, with_input=True)
            choice.style("width:264px")
            link_button("Hold a tournament", f"/evaluate?{urlencode({'env': chosen})}", glyph="play", kind="primary")
        with panel(f"Ladder of {env_title(chosen)}", body="m-body tight") as end:
            with end:
                games = raw("", "small faint", "span")
            body = box()

    async def load() -> None:
        reply = await ask_or_complain(f"/ladder?{urlencode({'env': chosen})}", method="GET")
        if reply is None or body.is_deleted:
            return
        ladder = EnvRatings.model_validate(reply.document)
        names = {row.run_id: title(row) for row in frame.facts.rows(hidden=True)}
        if ladder.games:
            games.set_content(f"{ladder.games:,} games on this server, those with people included")
        with body:
            if ladder.rows:
                raw(ladder_table(ladder, names), "m-scroll")
            else:
                empty(_NO_GAMES)

    ui.timer(0.0, load, once=True)


def _open(env: str | None) -> None:
    if env:
        ui.navigate.to(f"/ladder?{urlencode({'env': env})}")


def ladder_table(ladder: EnvRatings, names: dict[str, str]) -> str:
    """Return the table; `names` are those of runs by their ids."""
    rows = "".join(_row(place, row, names) for place, row in enumerate(ladder.rows, 1))
    return (
        '<table class="m-table"><thead><tr><th>Policy</th><th class="hide-phone">Kind</th><th class="num">Rating</th>'
        '<th class="num">Games</th><th class="num hide-phone">Won</th><th class="num hide-phone">Drawn</th>'
        f'<th class="num hide-phone">Lost</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _row(place: int, row: RatingRow, names: dict[str, str]) -> str:
    run_id, at, checkpoint = row.policy.removeprefix("run:").partition("@")
    shown = {"person": "people", "run": names.get(run_id, run_id) + at + checkpoint, "policy": row.policy}
    label = clipped(shown[row.kind])
    if row.kind == "run" and run_id in names:
        label = f'<a class="m-link" href="/runs/{quote(run_id, safe="")}">{label}</a>'
    counts = "".join(f'<td class="num hide-phone">{number:,}</td>' for number in (row.wins, row.draws, row.losses))
    return (
        f'<tr><td><span class="row">{rank(place)}<span class="e-name" title="{escape(row.policy)}">{label}</span>'
        f'</span></td><td class="muted hide-phone">{_KINDS[row.kind]}</td>'
        f'<td class="num strong">{row.rating:,.0f} <span class="faint plain">± {1.96 * row.rating_sd:,.0f}</span></td>'
        f'<td class="num muted">{row.games:,}</td>{counts}</tr>'
    )
