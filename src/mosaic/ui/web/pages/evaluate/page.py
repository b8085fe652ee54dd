"""Evaluate page: evaluations and tournaments, their progress, and their results with intervals and episodes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import run as threads
from nicegui import ui

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.store.run_folder import RunFolder
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import ago, duration, env_title
from mosaic.ui.web.components.widgets import box, button, complain, empty, panel, raw
from mosaic.ui.web.data.env_info import EnvLook, catalog
from mosaic.ui.web.pages.evaluate.form import EvaluationForm, Kind
from mosaic.ui.web.pages.evaluate.results import show_result
from mosaic.ui.web.pages.play_choices import trained_agents

_FIRST_ENV = "classic/tictactoe_v3"
_REFRESH_S = 0.5
_EARLIER = 8


async def page(frame: PageLayout, examination: str = "", run: str = "", env: str = "") -> None:
    """Show the examination with this id, or a form for a new one about `run` or `env`."""
    frame.title("Evaluate")
    await threads.io_bound(catalog)
    row = await threads.io_bound(frame.context.examinations.row, examination) if examination else None
    if row is not None:
        chosen = EnvironmentConfig.model_validate(row.request["environment"]).id
        await _EvaluatePage(frame, chosen, row.kind, row.request, row).build()
        return
    folder = frame.context.folder(run) if run else None
    if folder is not None:
        details = frame.facts.details(folder.run_id)
        env = EnvironmentConfig.model_validate(details.config["environment"]).id
    chosen = env or _FIRST_ENV
    look = await threads.io_bound(frame.facts.look, chosen)
    if look is None:
        return  # the server is shutting down
    request = {} if folder is None else _about(folder, look)
    ranked = look.holds_tournaments and (folder is None or "policies" in request)
    kind: Kind = "tournament" if ranked else "evaluate"
    await _EvaluatePage(frame, chosen, kind, request, None).build()


def _about(folder: RunFolder, look: EnvLook) -> dict[str, Any]:
    """Return a request about a run: in every agent's place, or only in those that it was trained for."""
    reference = f"run:{folder.run_id}"
    trained = trained_agents(folder, look.agents)
    if trained and len(trained) < len(look.agents):
        return {"agents": {agent: reference if agent in trained else "random" for agent in look.agents}}
    return {"agents": {"*": reference}, "policies": [reference]}


class _EvaluatePage:
    def __init__(
        self, frame: PageLayout, env: str, kind: Kind, request: Mapping[str, Any], row: ExaminationRow | None
    ) -> None:
        self._frame, self._env, self._kind, self._request, self._row = frame, env, kind, request, row

    async def build(self) -> None:
        with box("m-page"):
            self._setup = EvaluationForm(self._frame.facts, self._env, self._kind, self._request, self._begin)
            self._place = box("stack gap-4")
        await self._setup.load()
        if self._row is None:
            rows = await threads.io_bound(self._frame.context.examinations.rows)
            if not self._place.is_deleted:
                self._earlier(rows or [])
        elif self._row.state == "running":
            self._follow(self._row)
        else:
            self._show(self._row)

    async def _begin(self) -> None:
        try:
            request = self._setup.request()
        except MosaicError as error:
            complain(str(error))
            return
        self._setup.busy(True)
        reply = await ask_or_complain(f"/{self._setup.kind}", request)
        self._setup.busy(False)
        if reply is not None:  # keep it in the address: a reload shows the same
            ui.navigate.to(f"/evaluate?{urlencode({'examination': reply.document['examination_id']})}")

    def _follow(self, row: ExaminationRow) -> None:
        self._place.clear()
        with self._place, panel("Playing") as end:
            with end:
                button("Stop", self._stop, glyph="stop", kind="danger small")
            bar = raw("", "m-bar")
            words = raw("", "row between small muted").props("role=status")

        def tell(row: ExaminationRow) -> None:
            share = row.done / max(1, row.total)
            bar.set_content(f'<i style="width:{share:.1%}"></i>')
            passed = time.time() - row.started
            left = f"about {duration(passed / share - passed)} left" if row.done and passed > 1 else ""
            words.set_content(f"<span>{row.done:,} of {row.total:,} games</span><span>{left}</span>")

        async def refresh() -> None:
            now = await threads.io_bound(self._frame.context.examinations.row, row.examination_id)
            if now is None or self._place.is_deleted:
                return
            if now.state == "running":
                tell(now)
                return
            timer.cancel()
            self._show(now)

        tell(row)
        self._setup.busy(True)
        with self._place:
            timer = ui.timer(_REFRESH_S, refresh)

    async def _stop(self) -> None:
        assert self._row is not None
        await ask_or_complain(f"/{self._row.kind}/{self._row.examination_id}/stop")

    def _show(self, row: ExaminationRow) -> None:
        self._setup.busy(False)
        self._place.clear()
        with self._place:
            match row.state:
                case "finished":
                    show_result(row)
                case "stopped":
                    with panel("Stopped"):
                        raw(f"It was stopped after {row.done:,} of {row.total:,} games and has no result.", "m-note")
                case _:
                    with panel("It failed"):
                        raw(f"{icon('alert', 'bad')}<span>{escape(row.error)}</span>", "row top")

    def _earlier(self, rows: list[ExaminationRow]) -> None:
        with self._place, panel("Earlier", hint="kept with their episodes", body="m-body tight"):
            if not rows:
                empty("There are no evaluations yet. Choose policies above and press Run.")
            now = time.time()
            for row in rows[:_EARLIER]:
                link = raw(_earlier_words(row, now), "e-earlier", "a")
                link.props["href"] = f"/evaluate?{urlencode({'examination': row.examination_id})}"


def _earlier_words(row: ExaminationRow, now: float) -> str:
    env = EnvironmentConfig.model_validate(row.request["environment"]).id
    who = row.request.get("policies") or row.request.get("agents", {}).values()
    kind = "Tournament" if row.kind == "tournament" else "Evaluation"
    state = "" if row.state == "finished" else f" · {row.state}"
    names = escape(", ".join(dict.fromkeys(who)))
    end = f"{row.total:,} games{state} · {ago(row.started, now)}"
    return (
        f'<b class="strong">{escape(env_title(env))}</b><span class="clip">{kind}: {names}</span>'
        f'<span class="faint small" style="margin-left:auto">{end}</span>'
    )
