"""Every target and the ends of the range of ONNX's versions, for the policies of all workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import pytest

from mosaic.core.errors import InputError
from mosaic.exports.formats import OPSETS, OnnxVersions, check_versions
from mosaic.exports.observations import draw
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.policies.controller import PolicyRequest

LOWEST, HIGHEST = OnnxVersions(OPSETS[0], 4), OnnxVersions(OPSETS[1], 13)
MEMORY, MASKS, PICTURE, BOUNDS = (
    "it has memory",
    "its actions are masked",
    "is a picture",
    r"the plug-in clamps numbers to -1\.\.1",
)


def check_targets(
    make: Callable[[], Sequence[Any]], asked: PolicyRequest, *, masked: bool = False, godot: str | None = None
) -> None:
    """Export to every target; `godot` is the reason for which the plug-in cannot run the policy, if there is one."""
    for settings in (
        ExportSettings(versions=LOWEST),
        ExportSettings(versions=HIGHEST),
        ExportSettings("torchscript"),
        ExportSettings("godot"),
    ):
        check_versions(settings.versions)
        samples = list(draw(asked.spec, asked.agents, 8, masked=masked))
        controller, exportable = make()
        if settings.target == "godot" and godot is not None:
            with pytest.raises(InputError, match=godot):
                trace(controller, exportable, asked, ([], samples), settings)
            continue
        data, parity = trace(controller, exportable, asked, ([], samples), settings)
        assert parity.passed, (settings, parity)
        if settings.target != "torchscript":
            _check_file(data, settings)


def _check_file(data: bytes, settings: ExportSettings) -> None:
    model = onnx.load_model_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert (model.opset_import[0].version, model.ir_version) == settings.versions
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    if settings.target == "godot":
        ports = {each.name: each.type.tensor_type.shape.dim for each in (*model.graph.input, *model.graph.output)}
        assert {"state_ins", "output", "state_outs"} <= set(ports)
        assert len(ports["output"]) == 2
        assert ports["output"][1].dim_value > 0  # the plug-in reads it
