"""The command `mosaic export`, which writes trained policies as files for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mosaic.ui.cli.options import JsonOption, TrustOption


class TargetName(StrEnum):
    onnx = "onnx"
    godot = "godot"
    torchscript = "torchscript"


def export(
    run: Annotated[str, typer.Argument(help="The run: its id, a unique prefix, its name, or latest.")],
    to: Annotated[
        Path,
        typer.Option(
            "--out", metavar="PATH", help="A file (.onnx, .pt) for one policy, or a folder for all with policies.json."
        ),
    ],
    policy: Annotated[
        list[str], typer.Option("--policy", metavar="NAME", help="One of its policies; repeatable. Default: all.")
    ] = [],  # noqa: B006 - Typer copies it
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="latest, best, or a number of env steps.")] = "latest",
    target: Annotated[
        TargetName,
        typer.Option(
            "--target", help="onnx; godot: ONNX as Godot RL Agents' plug-in runs it; torchscript: for torch.jit.load."
        ),
    ] = TargetName.onnx,
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Write trained policies as ONNX or TorchScript files, each compared with its policy."""
    from mosaic.core.errors import InputError
    from mosaic.exports.export import export as run_export
    from mosaic.exports.formats import versions_for
    from mosaic.exports.parity import TOLERANCE
    from mosaic.exports.tracing import OBSERVATIONS, ExportSettings
    from mosaic.store.policies.run_policy import parse_run_reference
    from mosaic.ui.cli.options import give_trust
    from mosaic.ui.cli.output import note, print_json, print_table

    give_trust(trust)
    if target == TargetName.torchscript and (opset is not None or ir_version is not None):
        raise InputError("--opset and --ir-version belong to ONNX: leave them out with --target torchscript.")
    name, which, named = parse_run_reference(f"{run.removeprefix('run:')}@{checkpoint}")
    assert named is None
    settings = ExportSettings(
        target.value,
        versions_for(opset, ir_version),
        TOLERANCE if tolerance is None else tolerance,
        observations or OBSERVATIONS,
    )
    files = run_export(
        name,
        to,
        policies=policy,
        checkpoint=which,
        settings=settings,
        overwrite=overwrite,
        on_policy=lambda each: None if json else note(f"exporting '{each}' …"),
    )
    if json:
        print_json({"files": [each.to_json() for each in files]})
        return
    rows = [
        (
            each.policy,
            str(each.path),
            f"{each.parity.max_abs_diff:.2g}",
            f"{each.parity.action_agreement:.2%}",
            f"{each.parity.recorded} + {each.parity.random}",
        )
        for each in files
    ]
    columns = ("policy", "file", "largest difference", "equal actions", "recorded + random")
    print_table("Exported and compared", columns, rows, numbers=columns[2:])
