"""Run page: status and actions, with panels for curves, evaluation, log, picture, alerts and configuration."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlencode

from nicegui import PageArguments, run, ui

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.store.state import LIVE, State
from mosaic.store.views import LabelledRun, RunDetails
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.run_actions import ActionableRun, Done, RunMenu
from mosaic.ui.web.components.theme import count, duration, env_title, number, title
from mosaic.ui.web.components.widgets import box, button, complain, link_button, raw, say, set_html
from mosaic.ui.web.data.chart_groups import RETURN, measure_title
from mosaic.ui.web.data.env_info import catalog
from mosaic.ui.web.data.facts import REWARD, Facts
from mosaic.ui.web.data.progress import Iteration, progress_of, queue_words, time_shares, wall_s
from mosaic.ui.web.pages.checkpoint_gallery import GalleryPanel
from mosaic.ui.web.pages.run.curves import CurvesPanel
from mosaic.ui.web.pages.run.panels import AboutPanel, AlertsPanel, EvaluationPanel, LogPanel
from mosaic.ui.web.pages.run.picture import GridPanel, PicturePanel
from mosaic.ui.web.pages.run.usage import UsagePanel

_UNKNOWN = '<span class="small faint">Known after the first iteration.</span>'


class StatusStrip:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        with box("r-strip") as self.element:
            with box():
                self._far = raw('<span class="v">…</span>')
                self._bar = raw("")
                self._stage = raw("", "small muted r-stage")
                self._stage.props('role="status"')
            self._time_name, self._time = _tile("Time left")
            _, self._speed = _tile("Env steps/s")
            self._score_name, self._reward = _tile("Return")
            with box():
                raw("Where the time goes", "l", "span")
                self._split = raw("", "stack").style("gap:5px")

    async def update(self, details: RunDetails) -> None:
        iteration = self._facts.iteration(details.run_id)
        progress = progress_of(details, iteration)
        share = progress.share
        target = f"of {count(progress.target)} " if progress.target else ""
        percent = f" · {share:.0%}" if share is not None else ""
        set_html(self._far, f'<span class="v">{progress.done:,} <small>{target}{progress.unit}{percent}</small></span>')
        set_html(
            self._bar,
            f'<div class="m-bar {details.state}" role="progressbar" aria-label="Progress" '
            f'aria-valuenow="{100 * (share or 0):.0f}">'
            f'<i style="width:{share or 0:.2%}"></i></div>',
        )
        set_html(self._stage, escape(self._stage_words(details)))
        name, value = _time(details, progress.left_s)
        set_html(self._time_name, name)
        set_html(self._time, value)
        set_html(self._speed, f"{progress.steps_per_s:,.0f}" if progress.steps_per_s else "—")
        name, score = self._score(details, iteration)
        set_html(self._score_name, escape(name))
        set_html(self._reward, score)
        set_html(self._split, _split(iteration))

    def _score(self, details: RunDetails, iteration: Iteration) -> tuple[str, str]:
        """Return the name and value of the metric that measures the policies; in self-play not the return."""
        row = next((row for row in self._facts.rows(hidden=True) if row.run_id == details.run_id), None)
        if row is None or row.measure == REWARD:
            return RETURN, _reward(iteration)
        return measure_title(row.measure), number(row.score, 0 if row.measure.endswith("rating") else 2)

    def _stage_words(self, details: RunDetails) -> str:
        """Return why the run waits, or what its start is doing."""
        if details.state is State.QUEUED:
            return queue_words(details.run_id, self._facts.queue())
        return "" if details.start is None else details.start.text(time.time())


def _tile(name: str) -> tuple[ui.html, ui.html]:
    with box():
        return raw(name, "l"), raw("—", "v")


def _time(details: RunDetails, left_s: float | None) -> tuple[str, str]:
    """Return the time left while the run runs; how long it took once it has ended."""
    if details.state is State.RUNNING and left_s is not None:
        return "Time left", _unbroken(duration(left_s))
    spent = wall_s(details, time.time())
    return ("Took" if details.exit is not None else "Runs for"), _unbroken(duration(spent)) if spent else "—"


def _unbroken(text: str) -> str:
    """Return `2 min 05 s` in a form in which a line is broken between the two units only."""
    return re.sub(r"(\d) (?=\D)", "\\1\N{NO-BREAK SPACE}", text)


def _reward(iteration: Iteration) -> str:
    """Return the mean, and the range of single episodes."""
    mean = iteration.get("episode_reward_mean")
    low, high = iteration.get("episode_reward_min"), iteration.get("episode_reward_max")
    if low is None or high is None or low == high:
        return number(mean)
    return f"{number(mean)} <small>{number(low, 0)} … {number(high, 0)}</small>"


def _split(iteration: Iteration) -> str:
    if "time_split" not in iteration:
        return _UNKNOWN
    shares = time_shares(iteration)
    if not shares:
        return '<span class="small faint">This worker does not report it.</span>'
    kinds = {"env": "a", "inference": "b", "learning": "c"}
    bar = "".join(f'<i class="{kinds[name]}" style="width:{share:.1f}%"></i>' for name, share in shares.items())
    key = "".join(f'<span><i class="{kinds[name]}"></i>{name} {share:.0f}%</span>' for name, share in shares.items())
    return f'<div class="m-bar">{bar}</div><div class="r-split">{key}</div>'


_DONE = {
    "stop": "The run saves and stops.",
    "cancel": "The run leaves the queue.",
    "pause": "The run pauses at the end of its iteration.",
    "resume": "The run continues.",
    "checkpoint": "A checkpoint was saved.",
}


_REQUESTS = {"cancel": "stop"}  # where a button has another name than the request that it sends


def verbs(state: State) -> tuple[str, ...]:
    match state:
        case State.RUNNING:
            return ("checkpoint", "pause", "stop")
        case State.PAUSED:
            return ("resume", "stop")
        case State.QUEUED:
            return ("cancel",)
        case State.STARTING:
            return ("stop",)
        case State.STOPPED | State.FAILED | State.LOST:
            return ("resume",)
        case State.STOPPING | State.FINISHED:
            return ()


class Actions:
    def __init__(self, details: RunDetails, on_change: Done) -> None:
        run_id = details.run_id
        training = details.config.get("training") or {}
        env = EnvironmentConfig.model_validate(details.config["environment"]).id
        self._env, self._is_named = env, False
        how = " ".join(filter(None, (training.get("worker"), training.get("algorithm"))))
        self._path = f"/runs/{quote(run_id, safe='')}"
        self._menu = RunMenu(on_change, lambda: ui.navigate.to("/runs"))
        with box("row between r-actions"):
            raw(f'<b class="strong">{escape(env_title(env))}</b> · {escape(how)}', "muted clip hide-phone")
            with box("row"):
                self._plays = box("row")
                with self._plays:
                    query = urlencode({"run": run_id})
                    self._play = link_button("Play against it", f"/play?{query}", glyph="play", kind="primary")
                    link_button("Evaluate", f"/evaluate?{query}", glyph="evaluate")
                self._buttons = {
                    "checkpoint": self._button("Checkpoint now", "checkpoint", "save"),
                    "pause": self._button("Pause", "pause", "pause"),
                    "resume": self._button("Resume", "resume", "play"),
                    "stop": self._button("Stop and save", "stop", "stop", "danger"),
                    "cancel": self._button("Remove from the queue", "cancel", "stop", "danger"),
                }
                more = button("More", glyph="more", label="More actions on this run")
                more.on("click", lambda: self._menu.open(more, _actionable(self._details)), [])
        self._show(details)

    def _button(self, text: str, verb: str, glyph: str, kind: str = "") -> ui.html:
        return button(text, lambda: self._do(verb), glyph=glyph, kind=kind)

    async def _do(self, verb: str) -> None:
        element = self._buttons[verb]
        element.props("disabled")
        done = await ask_or_complain(f"{self._path}/{_REQUESTS.get(verb, verb)}")
        element.props(remove="disabled")
        if done is not None:
            say(_DONE[verb])

    async def update(self, details: RunDetails) -> None:
        self._show(details)
        if not self._is_named:
            self._is_named = True
            known = await run.io_bound(catalog) or ()
            if any((entry.id, entry.incentives) == (self._env, "single") for entry in known):
                set_html(self._play, f"{icon('play')}Watch it play")

    def _show(self, details: RunDetails) -> None:
        self._details = details
        possible = verbs(details.state)
        for verb, element in self._buttons.items():
            element.set_visibility(verb in possible)
        self._plays.set_visibility(bool(details.checkpoints))


def _actionable(details: RunDetails) -> ActionableRun:
    training = details.config.get("training") or {}
    labels = details.model_dump(include=set(LabelledRun.model_fields))
    return ActionableRun(
        **labels,
        state=details.state,
        env_steps=details.env_steps,
        target_steps=training.get("total_timesteps"),
    )


class NoteLine:
    """Note and tags of the run."""

    def __init__(self) -> None:
        self._line = raw("", "r-note")

    async def update(self, details: RunDetails) -> None:
        tags = "".join(f'<span class="m-tag clip">{escape(tag)}</span>' for tag in details.tags)
        hidden = '<span class="m-tag">hidden from lists</span>' if details.hidden else ""
        note = f"<p>{escape(details.note)}</p>" if details.note else ""
        row = f'<div class="row wrap u-tags">{tags}{hidden}</div>' if tags or hidden else ""
        set_html(self._line, note + row)


def _same(one: RunDetails, other: RunDetails) -> bool:
    """Return whether nothing changed that the page shows."""
    seen = {"state", "last_seq", *LabelledRun.model_fields}
    return one.model_dump(include=seen) == other.model_dump(include=seen)


class _Part(Protocol):
    async def update(self, details: RunDetails) -> None: ...


async def update_parts(parts: Iterable[_Part], details: RunDetails, folder: Path) -> bool:
    """Update what the page shows; return False if the run was deleted meanwhile."""
    try:
        for part in parts:
            await part.update(details)
    except MosaicError:
        if folder.exists():
            raise
        return False
    return True


_REFRESH_S = 4.0  # curves and pictures update by themselves


def page(frame: PageLayout, run_id: str, address: PageArguments) -> None:
    """Show a run; `?with=RUN,RUN,group:NAME` adds the curves of others."""
    folder = frame.context.folder(run_id)
    details = frame.facts.details(folder.run_id)
    with box("m-page"):
        actions = Actions(details, lambda: refresh())
        note = NoteLine()
        strip = StatusStrip(frame.facts)
        with box("m-cols r-cols").style("grid-template-columns:minmax(0,1fr) 368px"):
            with box("stack gap-4"):
                curves = CurvesPanel(frame, folder, details, address.query_parameters.get("with", ""))
                evaluation = EvaluationPanel()
                gallery = GalleryPanel(frame, details)
                grid = GridPanel(folder, details)
                log = LogPanel(frame.facts, folder)
            with box("stack gap-4"):
                picture = PicturePanel(details)
                alerts = AlertsPanel(frame, folder)
                usage = UsagePanel(folder)
                about = AboutPanel(frame, folder, details)
    parts = (actions, note, strip, curves, evaluation, gallery, log, picture, grid, alerts, usage, about)
    shown: list[RunDetails] = []

    async def refresh() -> None:
        try:
            now = await frame.facts.aside(frame.facts.details, folder.run_id)
        except MosaicError as error:  # the run was deleted
            clock.deactivate()
            complain(str(error))
            return
        if now is None or strip.element.is_deleted:  # the server is shutting down, or the page was left meanwhile
            return
        if shown and now.state not in LIVE and _same(shown[-1], now):
            await about.update(now)  # how long ago it started
            return
        if not shown or (shown[-1].state, shown[-1].name) != (now.state, now.name):
            frame.title(("Runs", "/runs"), title(now), state=now.state)
        shown[:] = [now]
        if not await update_parts(parts, now, folder.path):
            clock.deactivate()

    frame.title(("Runs", "/runs"), title(details), state=details.state)
    clock = ui.timer(_REFRESH_S, refresh)
