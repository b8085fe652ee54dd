"""Export of a checkpoint that is named by its path, in this process: `mosaic export checkpoint:PATH`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.exports.progress import ExportProgress
    from mosaic.ui.cli.export_request import TypedExport


@dataclass(frozen=True, slots=True)
class PathOptions:
    """Options that a run has no use for, and those of the comparison."""

    env: str | None
    algo: str | None
    tolerance: float | None
    observations: int | None
    overwrite: bool


def export_path(asked: TypedExport, options: PathOptions, json: bool) -> None:
    """Write the policies of a checkpoint as files and print the comparison."""
    from mosaic.exports.export import export
    from mosaic.exports.formats import versions_for
    from mosaic.exports.parity import TOLERANCE
    from mosaic.exports.tracing import OBSERVATIONS, ExportSettings
    from mosaic.ui.cli.output import note, print_json, print_table

    assert asked.run is not None
    assert asked.out is not None
    settings = ExportSettings(
        asked.target or "onnx",
        versions_for(asked.opset, asked.ir_version),
        TOLERANCE if options.tolerance is None else options.tolerance,
        options.observations or OBSERVATIONS,
    )
    seen: set[str] = set()

    def report(progress: ExportProgress) -> None:
        if not json and progress.policy not in seen:
            seen.add(progress.policy)
            note(f"exporting '{progress.policy}' …")

    files = export(
        asked.run if options.algo is None else f"{asked.run},algo={options.algo}",
        asked.out,
        policies=asked.policies,
        checkpoint=asked.checkpoint or "latest",  # type: ignore[arg-type]  # refused unless it is left out
        settings=settings,
        overwrite=options.overwrite,
        on_progress=report,
        environment=options.env,
    )
    if json:
        print_json({"files": [each.to_json() for each in files]})
        return
    rows = [
        (each.policy, str(each.path), f"{each.parity.max_abs_diff:.2g}", f"{each.parity.action_agreement:.2%}")
        for each in files
    ]
    columns = ("policy", "file", "largest difference", "equal actions")
    print_table("Exported and compared", columns, rows, numbers=columns[2:])
