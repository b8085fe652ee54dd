"""ONNX files: read, checked and described before anything computes them.

A file of unknown origin can name other files, claim any size and nest graphs in graphs. All of it is looked at as data,
and onnxruntime is given the bytes that were checked, never a path.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mosaic.core.errors import FormatError, InputError, MissingExtraError

LARGEST = 1 << 29  # bytes of a file, and of any tensor that a graph computes before it has seen an input
METADATA = "mosaic"  # key of our own description among a file's metadata
DOMAINS = ("", "ai.onnx", "ai.onnx.ml")  # of operators; others are native libraries, which are never loaded


class Port(NamedTuple):
    """An input or output of a graph."""

    name: str
    shape: tuple[int | None, ...]  # None: any size
    dtype: np.dtype[Any]


class OnnxFile(NamedTuple):
    """A checked file: its bytes, its interface and its metadata."""

    name: str
    data: bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    metadata: Mapping[str, str]

    def facts(self) -> dict[str, Any] | None:
        """Return what Mosaic wrote about the policy; None for a file of another program."""
        text = self.metadata.get(METADATA)
        if text is None:
            return None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"'{self.name}': its description of the policy is not JSON: {error}.") from error
        if not isinstance(document, dict):
            raise FormatError(f"'{self.name}': its description of the policy is not a JSON object.")
        return document


def read_onnx(path: Path) -> OnnxFile:
    """Read a file that is complete in itself; raise FormatError for any other."""
    return check_onnx(str(path), _read(path))


def check_onnx(path: str, data: bytes) -> OnnxFile:
    """Check the content of a file; `path` names it in messages."""
    onnx: Any = _imported("onnx", path)
    damage = (onnx.checker.ValidationError, ValueError, import_module("google.protobuf.message").DecodeError)
    try:
        model = onnx.load_model_from_string(data)
        tensors = list(_tensors(onnx, model))
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
                raise FormatError(
                    f"'{path}' keeps weights in other files, which are never read. Save it as a single file."
                )
            _check_numbers(onnx, path, tensor)
        _check_operators(path, model)
        onnx.checker.check_model(model)
        _check_sizes(onnx, path, onnx.shape_inference.infer_shapes(model, data_prop=True))
    except (*damage, onnx.shape_inference.InferenceError) as error:
        raise FormatError(f"'{path}' is not a valid ONNX file: {first_line(error)}") from error
    weights = {tensor.name for tensor in model.graph.initializer}
    return OnnxFile(
        path,
        data,
        tuple(_port(onnx, path, each) for each in model.graph.input if each.name not in weights),
        tuple(_port(onnx, path, each) for each in model.graph.output),
        {entry.key: entry.value for entry in model.metadata_props},
    )


def _imported(module: str, path: str) -> Any:
    try:
        return import_module(module)  # not installed by default, and untyped
    except ImportError as error:
        raise MissingExtraError(
            f"'{path}' is an ONNX file, which needs {module}: pip install 'mosaic-rl[onnx]'"
        ) from error


def open_session(file: OnnxFile) -> Any:
    """Return onnxruntime's session of a checked file, on one thread of the CPU."""
    runtime: Any = _imported("onnxruntime", file.name)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(file.data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base
        raise FormatError(f"'{file.name}': onnxruntime cannot load it: {first_line(error)}") from error


def _read(path: Path) -> bytes:
    if not path.exists():
        raise InputError(f"There is no file '{path}'.")
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"'{path}' is not a file. Name the .onnx file itself.")
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise FormatError(f"'{path}' is larger than {LARGEST >> 20} MiB, the most that is read.")
    if not data:
        raise FormatError(f"'{path}' is not a valid ONNX file: it is empty.")
    return data


def _tensors(onnx: Any, message: Any) -> Iterator[Any]:
    """Yield the tensors anywhere in a message: initializers, sparse ones, attributes, functions, inner graphs."""
    for _, value in message.ListFields():
        for item in (value,) if hasattr(value, "ListFields") else value if _holds_messages(value) else ():
            if isinstance(item, onnx.TensorProto):
                yield item
            else:
                yield from _tensors(onnx, item)


def _holds_messages(value: Any) -> bool:
    return not isinstance(value, str | bytes | int | float) and len(value) > 0 and hasattr(value[0], "ListFields")


def _check_numbers(onnx: Any, path: str, tensor: Any) -> None:
    """Raise where a tensor claims more than it holds, or holds NaN."""
    size = 1
    for count in tensor.dims:
        size *= max(int(count), 0)
    if size > LARGEST:
        raise FormatError(f"'{path}': the tensor '{tensor.name}' claims {size:,} numbers.")
    if tensor.data_type == onnx.TensorProto.STRING:
        return
    array = onnx.numpy_helper.to_array(tensor)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise FormatError(f"'{path}': {int(np.isnan(array).sum()):,} numbers of '{tensor.name}' are NaN.")


def _check_operators(path: str, model: Any) -> None:
    strange = sorted({entry.domain for entry in model.opset_import} - set(DOMAINS))
    if strange:
        raise FormatError(
            f"'{path}' uses operators of {', '.join(strange)}, which do not belong to ONNX. Export it with standard "
            "operators only."
        )


def _check_sizes(onnx: Any, path: str, model: Any) -> None:
    """Raise where a graph makes a giant tensor of nothing, for example by ConstantOfShape."""
    for value in (*model.graph.value_info, *model.graph.output):
        size = 1
        for dim in value.type.tensor_type.shape.dim:
            size *= max(int(dim.dim_value), 1)
        if size > LARGEST // 4:
            raise FormatError(f"'{path}': the tensor '{value.name}' would have {size:,} numbers.")


def _port(onnx: Any, path: str, value: Any) -> Port:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise FormatError(f"'{path}': '{value.name}' is not a tensor.")
    shape = tuple(int(dim.dim_value) if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return Port(value.name, shape, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)))


def first_line(error: BaseException) -> str:
    """Return an error's first line, without the place in onnxruntime's sources."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text.rpartition(") ")[2] if text.startswith("[ONNXRuntimeError]") else text
