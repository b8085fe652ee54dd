"""The command `mosaic export`, which writes trained policies as files for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mosaic.ui.cli.options import JsonOption, NoProjectOption, PresetOption, ProjectOption, TrustOption


class TargetName(StrEnum):
    onnx = "onnx"
    godot = "godot"
    torchscript = "torchscript"


def export(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="The run: its id, a unique prefix, its name, or latest; or checkpoint:PATH.",
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
    policy: Annotated[
        list[str], typer.Option("--policy", metavar="NAME", help="One of its policies; repeatable. Default: all.")
    ] = [],  # noqa: B006 - Typer copies it
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", help="latest, best, or a number of env steps.", show_default="latest"),
    ] = None,
    target: Annotated[
        TargetName | None,
        typer.Option(
            "--target",
            help="onnx; godot: ONNX as Godot RL Agents' plug-in runs it; torchscript: for torch.jit.load.",
            show_default="onnx",
        ),
    ] = None,
    opset: Annotated[int | None, typer.Option("--opset", help="Version of ONNX's operators. Default: 17.")] = None,
    ir_version: Annotated[
        int | None, typer.Option("--ir-version", help="Version of ONNX's file format. Default: 8, or what opset needs.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", help="Largest difference of outputs and actions. Default: 1e-4.")
    ] = None,
    observations: Annotated[
        int | None, typer.Option("--observations", min=1000, help="How many to compare on. Default: 1000.")
    ] = None,
    env: Annotated[
        str | None, typer.Option("--env", metavar="ENV", help="Env of a checkpoint:PATH that another program wrote.")
    ] = None,
    algo: Annotated[
        str | None, typer.Option("--algo", help="Algorithm of a checkpoint:PATH. Default: found in the file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Export in the background and return.")] = False,
    project: ProjectOption = None,
    preset: PresetOption = None,
    no_project: NoProjectOption = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Write trained policies as ONNX or TorchScript files, each compared with its policy.

    In a project everything that is left out comes from its export preset, and RUN is its newest run. Ctrl-C cancels
    the export and leaves no file.
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
    if target == TargetName.torchscript and (opset is not None or ir_version is not None):
        raise InputError("--opset and --ir-version belong to ONNX: leave them out with --target torchscript.")
    typed = TypedExport(run, to, tuple(policy), checkpoint, target.value if target else None, opset, ir_version)
    asked = with_export_preset(typed, ProjectOptions(project, preset, no_project))
    assert asked.run is not None
    assert asked.out is not None
    if asked.run.startswith("checkpoint:"):
        name = asked.run if algo is None else f"{asked.run},algo={algo}"
        which: str | int = asked.checkpoint or "latest"
    elif env is not None or algo is not None:
        raise InputError("--env and --algo belong to checkpoint:PATH of another program: a run names its own.")
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
