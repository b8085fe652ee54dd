"""Values that a tabular run has learned for the cells of its grid world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError
from mosaic.core.ids import JsonObject

if TYPE_CHECKING:
    from rich.console import Console

    from mosaic.learners.tabular.grid_picture import Cell
    from mosaic.store.checkpoints import Checkpoint


@dataclass(frozen=True)
class GridValues:
    run_id: str
    env: str
    env_steps: int
    cells: list[list[Cell]]

    def document(self) -> JsonObject:
        return {
            "run_id": self.run_id,
            "env": self.env,
            "env_steps": self.env_steps,
            "map": ["".join(cell.letter for cell in row) for row in self.cells],
            "values": [[cell.value for cell in row] for row in self.cells],
            "arrows": [[cell.arrows for cell in row] for row in self.cells],
        }

    def show(self, console: Console) -> None:
        from mosaic.learners.tabular.grid_picture import grid_text

        console.print(f"{self.run_id}: {self.env} after {self.env_steps:,} env steps", soft_wrap=True)
        console.print(grid_text(self.cells, console.width), soft_wrap=True)


def read_run(reference: str) -> GridValues:
    """Read the values from the run's latest checkpoint."""
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.store.checkpoints import find_checkpoint
    from mosaic.store.store import Store
    from mosaic.ui.cli.output import note

    checkpoint = find_checkpoint(Store().resolve(reference))
    run_id, manifest = checkpoint.run.run_id, checkpoint.manifest
    if manifest.worker != "tabular":
        raise InputError(
            f"Run '{run_id}' was trained by the worker '{manifest.worker}', which keeps no table of values. "
            "Train one: mosaic train gym/CliffWalking-v1 --worker tabular"
        )
    cells = cells_of(checkpoint)
    for message in checkpoint.skipped:
        note(message)
    return GridValues(run_id, EnvironmentConfig.model_validate(manifest.environment).id, manifest.env_steps, cells)


def cells_of(checkpoint: Checkpoint) -> list[list[Cell]]:
    """Return the cells of a checkpoint's grid world; raise InputError where its env is not one."""
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.envs.compiled.mdp.gridworld import grid_layout
    from mosaic.learners.tabular.grid_picture import read_cells
    from mosaic.learners.tabular.training.resumable import read_values

    layout = grid_layout(EnvironmentConfig.model_validate(checkpoint.manifest.environment))
    return read_cells(read_values(checkpoint.path), layout)


def save_image(cells: list[list[Cell]], path: Path) -> None:
    from mosaic.core.files import replace_file
    from mosaic.learners.tabular.grid_picture import grid_image

    if path.suffix.lower() != ".png":
        raise InputError(f"--out {path}: the image is a PNG, so its name should end with .png.")
    try:
        replace_file(path, lambda new: grid_image(cells).save(new, "PNG"))
    except OSError as error:
        raise InputError(f"--out {path} cannot be written: {error.strerror or error}.") from error
