"""The command `mosaic export`, which writes trained policies as files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mosaic.ui.cli.options import ExportTarget, JsonOption, NoProjectOption, PresetOption, ProjectOption, TrustOption
from mosaic.ui.cli.setting_help import setting


def export(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Run id, a unique prefix of one, a run name, or latest; or checkpoint:PATH.",
            show_default="in a project its newest",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="A file (.onnx, .pt) for one policy, or a folder for all with policies.json.",
            show_default="in a project its preset's",
        ),
    ] = None,
    policy: Annotated[list[str], typer.Option("--policy", metavar="NAME", help=setting("request.policies"))] = [],  # noqa: B006 - Typer copies it
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", help=setting("request.checkpoint")),
    ] = None,
    target: Annotated[
        ExportTarget | None,
        typer.Option("--target", case_sensitive=False, help=setting("request.target")),
    ] = None,
    opset: Annotated[int | None, typer.Option("--opset", min=1, help=setting("request.opset"))] = None,
    ir_version: Annotated[int | None, typer.Option("--ir-version", min=1, help=setting("request.ir_version"))] = None,
    tolerance: Annotated[float | None, typer.Option("--tolerance", help=setting("request.tolerance"))] = None,
    observations: Annotated[
        int | None, typer.Option("--observations", min=1000, help=setting("request.observations"))
    ] = None,
    env: Annotated[str | None, typer.Option("--env", metavar="ENV", help=setting("request.environment"))] = None,
    algo: Annotated[
        str | None, typer.Option("--algo", help="Algorithm of a checkpoint:PATH.", show_default="read from the file")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=setting("request.overwrite"))] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Export in the background and return.")] = False,
    project: ProjectOption = None,
    preset: PresetOption = None,
    no_project: NoProjectOption = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Write trained policies as ONNX or TorchScript files, each compared with its policy.

    In a project, omitted options come from its export preset, and RUN defaults to its newest run. Ctrl-C cancels the
    export and leaves no file.
    """
    from mosaic.config.export import parse_export
    from mosaic.core.errors import InputError
    from mosaic.runs.exporting.jobs import ExportJobs
    from mosaic.store.policies.run_policy import parse_run_reference
    from mosaic.ui.cli.export_request import TypedExport, with_export_preset
    from mosaic.ui.cli.export_view import export_here, say_detached
    from mosaic.ui.cli.options import give_trust
    from mosaic.ui.cli.setting_layers import ProjectOptions

    give_trust(trust)
    if target == "torchscript" and (opset is not None or ir_version is not None):
        raise InputError("--opset and --ir-version belong to ONNX: leave them out with --target torchscript.")
    typed = TypedExport(run, to, tuple(policy), checkpoint, target, opset, ir_version)
    asked = with_export_preset(typed, ProjectOptions(project, preset, no_project))
    assert asked.run is not None
    assert asked.out is not None
    if asked.run.startswith("checkpoint:"):
        name = asked.run if algo is None else f"{asked.run},algo={algo}"
        which: str | int = asked.checkpoint or "latest"
    elif env is not None or algo is not None:
        raise InputError("--env and --algo apply only to checkpoint:PATH of another program: a run names its own.")
    else:
        name, which, named = parse_run_reference(f"{asked.run.removeprefix('run:')}@{asked.checkpoint or 'latest'}")
        assert named is None
    comparison = {"tolerance": tolerance, "observations": observations}
    request = parse_export(
        {
            "run": name,
            "environment": env,
            "checkpoint": which,
            "policies": asked.policies,
            "out": str(asked.out),
            "overwrite": overwrite,
            "target": asked.target or "onnx",
            "opset": asked.opset,
            "ir_version": asked.ir_version,
            **{key: value for key, value in comparison.items() if value is not None},
        }
    )
    jobs = ExportJobs()
    if detach:
        say_detached(jobs.start(request), json)
    else:
        export_here(jobs, request, json)
