"""Panels of a grid world's learned values and of the live picture."""

from __future__ import annotations

from html import escape

from nicegui import run, ui

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.gridworld import grid_layout
from mosaic.learners.tabular.grid_picture import Cell
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, State
from mosaic.store.views import RunDetails
from mosaic.telemetry.frames.sources import EVALUATION, title
from mosaic.ui.cli.grid_values import cells_of
from mosaic.ui.web.components.live import FrameCanvas
from mosaic.ui.web.components.widgets import box, button, panel, raw, select


class GridPanel:
    """Values and best actions of each cell at the newest checkpoint, for tabular runs in grid worlds."""

    def __init__(self, folder: RunFolder, details: RunDetails) -> None:
        self._folder = folder
        self._shown_at = -1
        self._possible = (details.config.get("training") or {}).get("worker") == "tabular" and _is_grid(details)
        self._box = box("r-grid")
        self._box.set_visibility(False)

    async def update(self, details: RunDetails) -> None:
        newest = max((each.env_steps for each in details.checkpoints), default=-1)
        if not self._possible or newest == self._shown_at or newest < 0:
            return
        self._shown_at = newest
        cells = await run.io_bound(read_grid, self._folder)
        if cells is None or self._box.is_deleted:
            return
        self._box.clear()
        self._box.set_visibility(True)
        with self._box, panel("Learned values", hint=f"after {newest:,} env steps"):
            raw(grid_html(cells), "m-scroll")
            raw("Arrows show the best actions, numbers their values.", "m-note")


def read_grid(folder: RunFolder) -> list[list[Cell]]:
    return cells_of(find_checkpoint(folder))


def grid_html(cells: list[list[Cell]]) -> str:
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in cells)
    return f'<table class="r-cells" aria-label="Value and best actions of each cell"><tbody>{rows}</tbody></table>'


def _cell(cell: Cell) -> str:
    colours = f"background:rgb{cell.colour};color:rgb{cell.ink}"
    return f'<td style="{colours}"><b>{escape(cell.mark)}</b><span>{cell.number}</span></td>'


def _is_grid(details: RunDetails) -> bool:
    try:
        grid_layout(EnvironmentConfig.model_validate(details.config["environment"]))
    except InputError:  # raised where the env is not a grid
        return False
    return True


_SLOTS = 8  # offered where the number of environments is unknown
_MOST_SLOTS = 64


class PicturePanel:
    """Live picture, shown while the run is alive and offers pictures; after its end only with a last picture."""

    def __init__(self, details: RunDetails) -> None:
        self._offered = (details.config.get("telemetry") or {}).get("frames", True)
        self._run_id = details.run_id
        self._slots = _slots(details)
        self._sources: tuple[str, ...] = ()
        self._choice: ui.select | None = None
        self._frozen = False
        self._unseen = False
        self._canvas: FrameCanvas | None = None
        self._freeze: ui.html | None = None
        self._box = box("r-pic")
        self._show(details.state)
        self._offer(details.sources)

    async def update(self, details: RunDetails) -> None:
        self._show(details.state)
        self._offer(details.sources)

    def _offer(self, sources: tuple[str, ...]) -> None:
        """Let the viewer choose between several sources; one that is not there now stays chosen."""
        if self._choice is None or sources == self._sources:
            return
        self._sources, chosen = sources, str(self._choice.value or "")
        offered = dict.fromkeys((*sources, EVALUATION, *([chosen] if chosen else [])))  # evaluations come and go
        self._choice.set_options({"": "active source"} | {source: title(source) for source in offered})
        self._choice.set_visibility(bool(sources))

    def _show(self, state: State) -> None:
        wanted = self._offered and state not in ENDED and state is not State.QUEUED
        if wanted and (self._canvas is None or self._unseen):  # the first attempt, or a new one
            self._draw()
        self._box.set_visibility(self._canvas is not None and not self._unseen)

    def _hide(self) -> None:
        self._unseen = True
        self._box.set_visibility(False)

    def _draw(self) -> None:
        self._unseen = self._frozen = False
        self._box.clear()
        with self._box, panel("Live picture", body="m-body tight", classes="r-live") as end:
            canvas = self._canvas = FrameCanvas(self._run_id, label=f"Live picture of {self._run_id}")
            canvas.on("unseen", self._hide, [])
            with end:
                self._choice = select({"": "active source"}, "", label="Source", on_change=canvas.show_source)
                self._choice.style("width:150px").set_visibility(False)
                self._sources = ()
                slots = {number: f"env {number}" for number in range(self._slots)}
                select(slots, 0, label="Env slot", on_change=canvas.look_at).style("width:100px")
                label = "Freeze the picture; training continues"
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
