"""Request for an export: typed options, and a project's export preset for those that were left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mosaic.store.projects.project import Project
    from mosaic.ui.cli.setting_layers import ProjectOptions


@dataclass(frozen=True, slots=True)
class TypedExport:
    """Options of `mosaic export`; None and no policies were left out."""

    run: str | None = None
    out: Path | None = None
    policies: tuple[str, ...] = ()
    checkpoint: str | None = None
    target: Literal["onnx", "godot", "torchscript"] | None = None
    opset: int | None = None
    ir_version: int | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether the request names what to export and where to."""
        return self.run is not None and self.out is not None


def with_export_preset(request: TypedExport, options: ProjectOptions) -> TypedExport:
    """Fill in what was left out from an export preset; a complete request needs none unless one is named."""
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.setting_layers import choose_project

    named = options.project is not None or options.preset is not None
    project = choose_project(options) if named or options.ignored or not request.is_complete else None
    if project is None:
        if not request.is_complete:
            raise InputError(
                "Name a run and an output path: mosaic export RUN --out PATH. In a project neither is needed: "
                "mosaic projects create"
            )
        return request
    preset = project.export_preset(options.preset)
    chosen = replace(
        request,
        out=request.out or Path(preset.out),
        policies=request.policies or ((preset.policy,) if preset.policy else ()),
        checkpoint=request.checkpoint or str(preset.checkpoint),
        target=request.target or preset.target,
    )
    if chosen.target != "torchscript":
        opset, ir_version = request.opset or preset.opset, request.ir_version or preset.ir_version
        chosen = replace(chosen, opset=opset, ir_version=ir_version)
    return replace(chosen, run=request.run or preset.run or newest_run(project))


def newest_run(project: Project) -> str:
    """Return the newest run of a project that has a checkpoint."""
    from mosaic.core.errors import InputError
    from mosaic.store.checkpoints import list_checkpoints
    from mosaic.store.store import Store

    store = Store()
    for run in store.index.list(projects=store.projects.names(project.name)):
        if list_checkpoints(store.folder(run.run_id)):
            return run.run_id
    raise InputError(f"The project '{project.name}' has no run with a checkpoint yet. Train it: mosaic train")
