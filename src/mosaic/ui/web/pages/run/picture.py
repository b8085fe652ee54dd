"""What a table has learned about each cell of its grid world: its value and the best actions."""

from __future__ import annotations

from html import escape

from nicegui import run

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.gridworld import grid_layout
from mosaic.learners.tabular.grid_picture import Cell, read_cells
from mosaic.learners.tabular.saved_values import read_values
from mosaic.server.schemas import RunDetails
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.run_folder import RunFolder
from mosaic.ui.web.components.widgets import box, panel, raw


class GridPanel:
    """Drawn from the newest checkpoint, for runs of the tabular worker in worlds that are grids."""

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
        with self._box, panel("What it learned", hint=f"after {newest:,} env steps"):
            raw(grid_html(cells), "m-scroll")
            raw("Arrows are the best actions, numbers what they are worth.", "m-note")


def read_grid(folder: RunFolder) -> list[list[Cell]]:
    checkpoint = find_checkpoint(folder)
    environment = EnvironmentConfig.model_validate(checkpoint.manifest.environment)
    return read_cells(read_values(checkpoint.path), grid_layout(environment))


def grid_html(cells: list[list[Cell]]) -> str:
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in cells)
    return f'<table class="r-cells" aria-label="Value and best actions of each cell"><tbody>{rows}</tbody></table>'


def _cell(cell: Cell) -> str:
    colours = f"background:rgb{cell.colour};color:rgb{cell.ink}"
    return f'<td style="{colours}"><b>{escape(cell.mark)}</b><span>{cell.number}</span></td>'


def _is_grid(details: RunDetails) -> bool:
    try:
        grid_layout(EnvironmentConfig.model_validate(details.config["environment"]))
    except InputError:  # that is how it says that the world is no grid
        return False
    return True
