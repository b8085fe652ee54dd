"""The live picture of a run, and which of its environments it shows."""

from __future__ import annotations

from nicegui import ui

from mosaic.server.schemas import RunDetails
from mosaic.store.state import ENDED, State
from mosaic.ui.web.components.live import FrameCanvas
from mosaic.ui.web.components.widgets import box, button, panel, select

_SLOTS = 8  # offered where nobody said how many environments there are
_MOST_SLOTS = 64


class PicturePanel:
    """There as long as the run lives and offers pictures; after its end only with a last picture."""

    def __init__(self, details: RunDetails) -> None:
        self._offered = (details.config.get("telemetry") or {}).get("frames", True)
        self._run_id = details.run_id
        self._slots = _slots(details)
        self._frozen = False
        self._unseen = False
        self._canvas: FrameCanvas | None = None
        self._freeze: ui.html | None = None
        self._box = box("r-pic")
        self._show(details.state)

    async def update(self, details: RunDetails) -> None:
        self._show(details.state)

    def _show(self, state: State) -> None:
        wanted = self._offered and state not in ENDED and state is not State.QUEUED
        if wanted and (self._canvas is None or self._unseen):  # the first attempt, or one more
            self._draw()
        self._box.set_visibility(self._canvas is not None and not self._unseen)

    def _hide(self) -> None:
        self._unseen = True
        self._box.set_visibility(False)

    def _draw(self) -> None:
        self._unseen = self._frozen = False
        self._box.clear()
        with self._box, panel("Live picture", body="m-body tight") as end:
            canvas = self._canvas = FrameCanvas(self._run_id, label=f"Live picture of {self._run_id}")
            canvas.on("unseen", self._hide, [])
            with end:
                slots = {number: f"env {number}" for number in range(self._slots)}
                select(slots, 0, label="Env slot", on_change=canvas.look_at).style("width:100px")
                label = "Freeze the picture; training goes on"
                self._freeze = button(glyph="pause", kind="ghost small", label=label, on_click=self._flip)

    def _flip(self) -> None:
        self._frozen = not self._frozen
        if self._canvas is not None and self._freeze is not None:
            self._canvas.freeze(self._frozen)
            self._freeze.props(f"aria-pressed={str(self._frozen).lower()}")
            self._freeze.classes(add="on") if self._frozen else self._freeze.classes(remove="on")


def _slots(details: RunDetails) -> int:
    known = (details.config.get("environment") or {}).get("num_envs")
    return max(1, min(_MOST_SLOTS, known if isinstance(known, int) else _SLOTS))
