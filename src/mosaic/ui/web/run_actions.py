"""What can be done with a run in its state."""

from __future__ import annotations

from html import escape
from urllib.parse import quote, urlencode

from nicegui import ui

from mosaic.config.sections import EnvironmentConfig
from mosaic.server.schemas import RunDetails
from mosaic.store.state import State
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.theme import env_title
from mosaic.ui.web.components.widgets import box, button, link_button, raw, say

_DONE = {
    "stop": "The run saves and stops.",
    "pause": "The run pauses at the end of its iteration.",
    "resume": "The run goes on.",
    "checkpoint": "A checkpoint was saved.",
}


def verbs(state: State) -> tuple[str, ...]:
    match state:
        case State.RUNNING:
            return ("checkpoint", "pause", "stop")
        case State.PAUSED:
            return ("resume", "stop")
        case State.QUEUED | State.STARTING:
            return ("stop",)
        case State.STOPPED | State.FAILED | State.LOST:
            return ("resume",)
        case State.STOPPING | State.FINISHED:
            return ()


class Actions:
    def __init__(self, details: RunDetails) -> None:
        run_id = details.run_id
        training = details.config.get("training") or {}
        env = EnvironmentConfig.model_validate(details.config["environment"]).id
        how = " ".join(filter(None, (training.get("worker"), training.get("algorithm"))))
        self._path = f"/runs/{quote(run_id, safe='')}"
        with box("row between r-actions"):
            raw(f'<b class="strong">{escape(env_title(env))}</b> · {escape(how)}', "muted clip hide-phone")
            with box("row"):
                self._plays = box("row")
                with self._plays:
                    query = urlencode({"run": run_id})
                    link_button("Play against it", f"/play?{query}", glyph="play", kind="primary")
                    link_button("Evaluate", f"/evaluate?{query}", glyph="evaluate")
                self._buttons = {
                    "checkpoint": self._button("Checkpoint now", "checkpoint", "save"),
                    "pause": self._button("Pause", "pause", "pause"),
                    "resume": self._button("Resume", "resume", "play"),
                    "stop": self._button("Stop and save", "stop", "stop", "danger"),
                }
        self._show(details)

    def _button(self, text: str, verb: str, glyph: str, kind: str = "") -> ui.html:
        return button(text, lambda: self._do(verb), glyph=glyph, kind=kind)

    async def _do(self, verb: str) -> None:
        element = self._buttons[verb]
        element.props("disabled")
        done = await ask_or_complain(f"{self._path}/{verb}")
        element.props(remove="disabled")
        if done is not None:
            say(_DONE[verb])

    async def update(self, details: RunDetails) -> None:
        self._show(details)

    def _show(self, details: RunDetails) -> None:
        possible = verbs(details.state)
        for verb, element in self._buttons.items():
            element.set_visibility(verb in possible)
        self._plays.set_visibility(bool(details.checkpoints))
