"""Tests that a file of unknown origin is refused with a clear message, and that nothing outside of it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from onnx import StringStringEntryProto, TensorProto, helper, numpy_helper

from mosaic.core.errors import FormatError, InputError
from mosaic.policies.onnx import file as onnx_file
from mosaic.policies.onnx.controller import load_onnx_policy
from tests.policies.onnx.graphs import linear, request, write

REQUEST = request(spaces.Box(-9, 9, (2,)), spaces.Discrete(2))


def fresh() -> Any:
    return linear(np.eye(2, dtype=np.float32))


def stored_at(location: str, place: Callable[[Any], Any], *, mark: bool = True) -> Any:
    """A model of which one tensor is said to be in another file."""
    model = fresh()
    tensor = place(model)
    tensor.ClearField("raw_data")
    tensor.external_data.append(StringStringEntryProto(key="location", value=location))
    if mark:
        tensor.data_location = TensorProto.EXTERNAL
    return model


def weights(model: Any) -> Any:
    return model.graph.initializer[0]


def constant(model: Any) -> Any:
    """The tensor of a node's attribute."""
    node = helper.make_node("Constant", [], ["unused"], value=numpy_helper.from_array(np.zeros(2, np.float32), "c"))
    model.graph.node.insert(0, node)
    return model.graph.node[0].attribute[0].t


def sparse(model: Any) -> Any:
    values, places = (
        numpy_helper.from_array(np.ones(1, np.float32), "s"),
        numpy_helper.from_array(np.zeros(1, np.int64)),
    )
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2]))
    return model.graph.sparse_initializer[0].values


def inner_graph(model: Any) -> Any:
    """A tensor of a graph inside a node."""
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "inner")
    out = helper.make_tensor_value_info("inner", TensorProto.FLOAT, [2])
    branch = helper.make_graph([], "branch", [], [out], [tensor])
    model.graph.node.append(helper.make_node("If", ["obs"], ["chosen"], then_branch=branch, else_branch=branch))
    return model.graph.node[-1].attribute[0].g.initializer[0]


def function(model: Any) -> Any:
    """A tensor in a function of the model."""
    node = helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(np.zeros(2, np.float32), "f"))
    made = helper.make_function("mine", "f", [], ["y"], [node], [helper.make_opsetid("", 17)])
    model.functions.append(made)
    return model.functions[0].node[0].attribute[0].t


@pytest.mark.parametrize("place", [weights, constant, sparse, inner_graph, function])
@pytest.mark.parametrize("location", ["weights.bin", "../secret", "/etc/passwd", "a/../../secret", "link"])
def test_weights_in_other_files_are_never_read(tmp_path: Path, place: Callable[[Any], Any], location: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(16))
    (folder / "link").symlink_to(tmp_path / "secret")
    path = write(folder / "p.onnx", stored_at(location, place))
    with pytest.raises(FormatError, match="keeps weights in other files, which are never read"):
        load_onnx_policy(path, REQUEST)
    path = write(folder / "p.onnx", stored_at(location, place, mark=False))
    with pytest.raises(FormatError, match="keeps weights in other files"):
        load_onnx_policy(path, REQUEST)


def claims(*dims: int) -> Any:
    model = fresh()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)
    return model


def bloats() -> Any:
    """A graph of a few bytes that makes a tensor of a trillion numbers."""
    model = fresh()
    shape = helper.make_node("Constant", [], ["n"], value=numpy_helper.from_array(np.array([10**12], np.int64)))
    model.graph.node.extend([shape, helper.make_node("ConstantOfShape", ["n"], ["giant"])])
    model.graph.output.append(helper.make_tensor_value_info("giant", TensorProto.FLOAT, [10**12]))
    return model


def with_props(text: str) -> Any:
    model = fresh()
    helper.set_model_props(model, {"mosaic": text})
    return model


def strange_operator() -> Any:
    model = fresh()
    model.graph.node[0].domain = "evil.ops"
    model.opset_import.append(helper.make_opsetid("evil.ops", 1))
    return model


def integers() -> Any:
    model = fresh()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    return model


def wide_batch() -> Any:
    return linear(np.eye(2, dtype=np.float32), batch=7)


def no_input() -> Any:
    node = helper.make_node("Constant", [], ["output"], value=numpy_helper.from_array(np.zeros((1, 2), np.float32)))
    out = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 2])
    return helper.make_model(
        helper.make_graph([node], "g", [], [out]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def flat_output() -> Any:
    model = fresh()
    model.graph.node[0].output[0] = "row"
    axes = numpy_helper.from_array(np.array([0], np.int64), "axes")
    model.graph.initializer.append(axes)
    model.graph.node.append(helper.make_node("ReduceSum", ["row", "axes"], ["output"], keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("output", TensorProto.FLOAT, [2]))
    return model


FACTS = {"format": "mosaic-policy-graph-1", "observation": {}, "action": {}}
HOSTILE: dict[str, tuple[Any, str]] = {
    "empty": (b"", "is not a valid ONNX file: it is empty"),
    "text": (b"not a model", "is not a valid ONNX file"),
    "truncated": (fresh().SerializeToString()[:-9], "is not a valid ONNX file"),
    "pickle": (b"\x80\x04cos\nsystem\n(S'touch touched'\ntR.", "is not a valid ONNX file"),
    "zip": (b"PK\x03\x04" + bytes(40), "is not a valid ONNX file"),
    "newer format": (
        helper.make_model(helper.make_graph([], "g", [], []), ir_version=99),
        "ir_version 99 is higher",
    ),
    "giant claim": (claims(1 << 40, 1 << 20), "claims 1,152,921,504,606,846,976 numbers"),
    "negative size": (claims(-2, 2), "is not a valid ONNX file"),
    "wrong shape": (claims(3, 2), "is not a valid ONNX file"),
    "giant output": (bloats(), "would have 1,000,000,000,000 numbers"),
    "nan weights": (linear([[np.nan, 0], [0, 1]]), "1 numbers of 'weights' are NaN"),
    "strange operator": (strange_operator(), "uses operators of evil.ops, which do not belong to ONNX"),
    "text input": (integers(), "is not a batch of numbers|cannot load it|not a valid"),
    "fixed batch": (wide_batch(), "must be the batch: 1, or of any size"),
    "no input": (no_input(), "is not a policy: its inputs are none"),
    "no rows": (flat_output(), "its output is not one row of numbers"),
    "metadata not JSON": (with_props("{"), "its description of the policy is not JSON"),
    "metadata deep": (with_props("[" * 100_000), "its description of the policy is not JSON"),
    "metadata list": (with_props("[]"), "its description of the policy is not a JSON object"),
    "metadata of the future": (with_props('{"format": "mosaic-policy-graph-9"}'), "in its metadata is damaged"),
    "metadata memory": (with_props(json.dumps({**FACTS, "memory": -1})), "in its metadata is damaged"),
    "memory without state": (with_props(json.dumps({**FACTS, "memory": 4})), "lacks state_ins or state_outs"),
    "spaces of nothing": (with_props(json.dumps(FACTS)), "does not describe the spaces of its policy"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_the_reason(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, reason = HOSTILE[name]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    with pytest.raises(InputError, match=reason) as refused:
        load_onnx_policy(path, REQUEST)
    assert str(path) in str(refused.value)
    assert sorted(os.listdir(tmp_path)) == ["p.onnx"]


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match=r"is not a file\. Name the \.onnx file itself"):
            load_onnx_policy(path, REQUEST)


def test_a_large_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "LARGEST", 1 << 20)
    with (tmp_path / "p.onnx").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(FormatError, match="is larger than 1 MiB, the most that is read"):
        load_onnx_policy(tmp_path / "p.onnx", REQUEST)
