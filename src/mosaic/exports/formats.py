"""Files of traced policies: ONNX and TorchScript."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from gymnasium.spaces import Space

from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.envs.vector.encoding import leaves
from mosaic.policies.onnx.file import METADATA, Port
from mosaic.policies.onnx.interface import (
    MASK_INPUT,
    OUTPUT,
    STATE_IN,
    STATE_OUT,
    Array,
    GraphFacts,
    leaf_names,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

Target: TypeAlias = Literal["onnx", "godot", "torchscript"]
SUFFIXES: dict[Target, str] = {"onnx": ".onnx", "godot": ".onnx", "torchscript": ".pt"}
OPSETS = (9, 20)  # that torch writes
OPSET, IR_VERSION = 17, 8  # of onnxruntime 1.13 and later, as in Godot RL Agents' plug-in


class OnnxVersions(NamedTuple):
    """Versions of an ONNX file."""

    opset: int = OPSET
    ir_version: int = IR_VERSION


DEFAULT_VERSIONS = OnnxVersions()


class GraphPorts(NamedTuple):
    """Inputs and outputs of a policy's graph; the first dimension is the batch."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def graph_ports(observation: Space[object], width: int, *, mask: int, memory: int, plug_in: bool) -> GraphPorts:
    """Return the ports; leaves keep their shape, except that Godot RL Agents' plug-in gives flat rows."""
    number = np.dtype(np.float32)
    ports = []
    for name, leaf in zip(leaf_names(observation), leaves(observation), strict=True):
        shape = leaf.space.shape or (1,)
        ports.append(Port(name, (None, int(np.prod(shape))) if plug_in else (None, *shape), number))
    taken = {MASK_INPUT, STATE_IN, OUTPUT, STATE_OUT} & {port.name for port in ports}
    if taken:
        raise InputError(f"The observation has a key {taken.pop()!r}, a name that the file needs itself. Rename it.")
    outputs = [Port(OUTPUT, (None, width), number)]
    if mask:
        ports.append(Port(MASK_INPUT, (None, mask), number))
    if memory or plug_in:
        shape = (memory,) if memory else ()
        ports.append(Port(STATE_IN, (None, *shape), number))
        outputs.append(Port(STATE_OUT, (None, *shape), number))
    return GraphPorts(tuple(ports), tuple(outputs))


def versions_for(opset: int | None, ir_version: int | None) -> OnnxVersions:
    """Return the versions asked for; a newer opset than the default's brings the file format that it needs."""
    if opset is None or ir_version is not None or not OPSETS[0] <= opset <= OPSETS[1]:
        return OnnxVersions(opset or OPSET, ir_version or IR_VERSION)
    onnx = _onnx()
    return OnnxVersions(
        opset, max(IR_VERSION, onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]))
    )


def check_versions(versions: OnnxVersions) -> None:
    """Raise InputError for versions that cannot be written, or that do not go together."""
    onnx = _onnx()
    low, high = OPSETS
    if not low <= versions.opset <= high:
        raise InputError(f"opset {versions.opset} cannot be written. Possible: {low} to {high}.")
    least = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", versions.opset)])
    most = onnx.IR_VERSION - 1
    if not least <= versions.ir_version <= most:
        raise InputError(
            f"IR version {versions.ir_version} does not go with opset {versions.opset}. Possible: {least} to {most}."
        )


def write_onnx(module: nn.Module, ports: GraphPorts, facts: GraphFacts, versions: OnnxVersions) -> bytes:
    """Return a checked ONNX file without external data."""
    import torch

    onnx = _onnx()
    buffer: Any = io.BytesIO()  # torch's annotations know names of files only
    names = [port.name for side in ports for port in side]
    _traced(
        lambda: torch.onnx.export(
            module,
            examples(ports),
            buffer,
            input_names=[port.name for port in ports.inputs],
            output_names=[port.name for port in ports.outputs],
            dynamic_axes={name: {0: "batch_size"} for name in names},
            opset_version=versions.opset,
            dynamo=False,
        ),
        versions.opset,
    )
    model = onnx.load_model_from_string(buffer.getvalue())
    model.ir_version = versions.ir_version
    onnx.helper.set_model_props(model, {METADATA: facts.model_dump_json()})
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise _not_in_opset(str(error), versions.opset) from error
    data: bytes = model.SerializeToString()
    return data


def write_torchscript(module: nn.Module, ports: GraphPorts, facts: GraphFacts) -> bytes:
    import torch

    buffer = io.BytesIO()
    made: Any = _traced(lambda: torch.jit.trace(module, examples(ports), check_trace=False))  # type: ignore[no-untyped-call]
    _traced(lambda: torch.jit.save(made, buffer, _extra_files={f"{METADATA}.json": facts.model_dump_json()}))
    return buffer.getvalue()


def examples(ports: GraphPorts) -> tuple[Tensor, ...]:
    """Return inputs for two agents, so that nothing in the graph depends on a batch of one."""
    import torch

    return tuple(torch.ones(2, *(size or 1 for size in port.shape[1:])) for port in ports.inputs)


class ModuleGraph:
    """Graph of a torch module, in memory or read from a TorchScript file."""

    def __init__(self, name: str, module: Any, ports: GraphPorts, facts: GraphFacts) -> None:
        self.name, self._module, self.facts = name, module, facts
        self.inputs, self.outputs = ports

    def compute(self, feeds: dict[str, Array]) -> Sequence[Array]:
        import torch

        with torch.no_grad():
            made = self._module(*(torch.from_numpy(feeds[port.name]) for port in self.inputs))
        return [each.numpy() for each in (made if isinstance(made, tuple) else (made,))]


def read_torchscript(name: str, data: bytes, ports: GraphPorts) -> ModuleGraph:
    import torch

    found = {f"{METADATA}.json": ""}
    module = _traced(lambda: torch.jit.load(io.BytesIO(data), _extra_files=found))  # type: ignore[no-untyped-call]
    facts = GraphFacts.model_validate(json.loads(found[f"{METADATA}.json"]))
    return ModuleGraph(name, module, ports, facts)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread: for single decisions, several only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _traced(make: Callable[[], Any], opset: int = OPSETS[1]) -> Any:
    """Call torch's exporter, whose warnings concern branches that do not depend on data."""
    from torch.onnx.errors import UnsupportedOperatorError

    with warnings.catch_warnings(), _graphs_not_printed():
        warnings.simplefilter("ignore")
        try:
            return make()
        except MosaicError:
            raise
        except UnsupportedOperatorError as error:
            raise _not_in_opset(str(error), opset) from error
        except Exception as error:  # torch raises many kinds for what it cannot trace
            raise MosaicError(f"The policy's network cannot be traced: {str(error).strip()[:500]}") from error


@contextmanager
def _graphs_not_printed() -> Iterator[None]:
    """Keep torch from printing the graph of what it cannot write, which it does whether or not it was asked to."""
    import torch

    name = "_jit_onnx_log"
    printing = getattr(torch._C, name, None)
    if printing is None:
        yield
        return
    setattr(torch._C, name, lambda *said: None)
    try:
        yield
    finally:
        setattr(torch._C, name, printing)


def _not_in_opset(reason: str, opset: int) -> MosaicError:
    """Return the error for a network that an opset cannot express; a later one may."""
    said = " ".join(reason.split())[:300]
    if opset < OPSET:
        return InputError(f"The policy's network cannot be written in opset {opset}: {said} Type: --opset {OPSET}")
    return MosaicError(f"The policy's network cannot be written in opset {opset}: {said}")


def _onnx() -> Any:
    try:
        import_module("onnxruntime")
        return import_module("onnx")
    except ImportError as error:
        raise MissingExtraError("ONNX files need onnx and onnxruntime: pip install 'mosaic-rl[onnx]'") from error
