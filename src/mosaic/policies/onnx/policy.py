"""The policy `onnx:FILE`."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field

from mosaic.core.files import file_stamp
from mosaic.policies.controller import (
    PolicyController,
    PolicyKind,
    PolicyRequest,
    Sampling,
    TrainedPolicyOptions,
    default_sampling,
    sampling_note,
)
from mosaic.policies.onnx.controller import GraphPolicyController, OnnxGraph
from mosaic.policies.onnx.file import read_onnx


class OnnxPolicyOptions(TrainedPolicyOptions):
    path: str = Field(min_length=1, description="An ONNX file: of `mosaic export`, or of any program whose graph "
                      "has an observation as input and logits or an action as output.")  # fmt: skip


def load_graph_policy(path: Path, options: TrainedPolicyOptions, request: PolicyRequest) -> PolicyController:
    """Return a controller for the policy in an ONNX file, which draws its actions where that is asked or usual."""
    graph = OnnxGraph(read_onnx(path))
    return GraphPolicyController(graph, replace(request, sampling=_sampling(options, graph, request)))


def _sampling(options: TrainedPolicyOptions, graph: OnnxGraph, request: PolicyRequest) -> Sampling | None:
    if options.sample or options.temperature is not None:
        return Sampling(options.temperature)
    if options.sample is False or graph.facts is None:
        return None
    return default_sampling(request.spec, stochastic=graph.facts.stochastic)


def graph_notes(path: Path, options: TrainedPolicyOptions, request: PolicyRequest) -> tuple[str, ...]:
    """Load the file, which refuses an env that it does not fit, and say where it draws its actions."""
    graph = OnnxGraph(read_onnx(path))
    sampling = _sampling(options, graph, request)
    GraphPolicyController(graph, replace(request, sampling=sampling)).close()
    if sampling is not None and options.sample is None and options.temperature is None:
        return (sampling_note(request),)
    return ()


def _missing() -> str | None:
    installed = find_spec("onnx") is not None and find_spec("onnxruntime") is not None
    return None if installed else "pip install 'mosaic-rl[onnx]'"


kind = PolicyKind(
    usage="onnx:FILE[,sample=true][,temperature=T]",
    help="Policy in an ONNX file, written by `mosaic export` or by another program.",
    make=lambda options, request: load_graph_policy(Path(options.path).expanduser(), options, request),
    options=OnnxPolicyOptions,
    first="path",
    missing=_missing,
    notes=lambda options, request: graph_notes(Path(options.path).expanduser(), options, request),
    version=lambda options: file_stamp(Path(options.path).expanduser()),
)
