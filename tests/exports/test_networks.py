"""Tests that exported networks of every form act like the controllers of the policies that they are made from."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.exports.formats import OnnxVersions, check_versions
from mosaic.exports.observations import Sample, draw
from mosaic.exports.parity import Parity
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.models.architecture import Architecture
from mosaic.models.torch_net import flat_weights, make_network, tensor_names
from mosaic.models.weights_file import save_weights
from mosaic.policies.controller import PolicyRequest
from mosaic.policies.onnx.controller import load_onnx_policy
from mosaic.workers.native.checkpoint import FACTS, make_controller, make_exportable
from tests.exports import targets
from tests.policies.onnx.graphs import request

ROW = spaces.Box(-np.inf, np.inf, (5,), np.float32)
SMALL = {
    "numbers": spaces.Box(-1, 1, (2, 3), np.float64),
    "one of": spaces.Discrete(4, start=2),
    "several": spaces.MultiDiscrete([2, 3], start=[1, 0]),
    "flags": spaces.MultiBinary(3),
}
CASES: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], dict[str, Any]]] = {
    "discrete": (ROW, spaces.Discrete(3, start=-1), {}),
    "multi-discrete": (ROW, spaces.MultiDiscrete([2, 4]), {"activation": "relu"}),
    "multi-binary": (ROW, spaces.MultiBinary(3), {"activation": "silu"}),
    "continuous": (ROW, spaces.Box(np.float32([-2, 0]), np.float32([2, 0.1])), {}),
    "integers": (ROW, spaces.Box(-3, 3, (2,), np.int64), {}),
    "unbounded": (ROW, spaces.Box(-np.inf, np.inf, (2,), np.float64), {"shared": True}),
    "mixed observation": (spaces.Dict(SMALL), spaces.Discrete(2), {}),
    "nested observation": (spaces.Tuple((ROW, spaces.Dict(inner=spaces.Discrete(3)))), spaces.Discrete(2), {}),
    "picture": (spaces.Box(0, 255, (12, 10, 3), np.uint8), spaces.Discrete(2), {"pictures": True}),
    "grey picture": (spaces.Box(0, 255, (9, 9), np.uint8), spaces.Discrete(2), {"pictures": True}),
    "channels first": (spaces.Box(0, 255, (3, 10, 12), np.uint8), spaces.Discrete(2), {"pictures": True}),
    "lstm": (ROW, spaces.Discrete(2), {"memory": "lstm", "memory_size": 6}),
    "gru": (ROW, spaces.Discrete(3), {"memory": "gru", "memory_size": 6}),
    "mingru": (ROW, spaces.Box(-1, 1, (2,), np.float32), {"memory": "mingru", "memory_size": 6}),
    "gru with picture": (
        spaces.Dict(eye=spaces.Box(0, 255, (9, 9, 1), np.uint8), pose=ROW),
        spaces.Box(-1, 1, (2,), np.float32),
        {"memory": "gru", "memory_size": 6, "pictures": True},
    ),
}


def saved(folder: Path, seen: spaces.Space[Any], acts: spaces.Space[Any], options: dict[str, Any]) -> None:
    """Write a policy with random weights, and a scaler where there is a plain row."""
    code, chosen = row_code(seen), dict(options)
    parts = code.parts if chosen.pop("pictures", False) else ()
    architecture = Architecture(code.width, action_code(acts).head, hidden=(8, 7), parts=parts, **chosen)
    network = make_network(architecture, 3)
    names = tensor_names(network, architecture)
    flat = flat_weights(network, names) + np.random.default_rng(0).normal(0, 0.3, 1).astype(np.float32)
    random = np.random.default_rng(1)
    scaler = {"shift": random.normal(0, 1, code.width), "scale": random.uniform(0.5, 2, code.width)}
    extra = {} if parts else {name: array.astype(np.float32) for name, array in scaler.items()}
    save_weights(folder / "policy_0.safetensors", architecture, flat, extra)
    (folder / FACTS).write_text(json.dumps({"networks": {}, "epsilon": None}))


def samples(asked: PolicyRequest, *, masked: bool) -> list[Sample]:
    return list(draw(asked.spec, asked.agents, 120, masked=masked))


def traced(folder: Path, asked: PolicyRequest, target: Any = "onnx", *, masked: bool = False) -> tuple[bytes, Parity]:
    controller = make_controller(folder, "policy_0.safetensors", asked)
    exportable = make_exportable(folder, "policy_0.safetensors", asked)
    return trace(controller, exportable, asked, ([], samples(asked, masked=masked)), ExportSettings(target))


@pytest.mark.parametrize("name", CASES)
def test_a_network_acts_alike_as_a_file(name: str, tmp_path: Path) -> None:
    seen, acts, options = CASES[name]
    saved(tmp_path, seen, acts, options)
    asked = request(seen, acts, ("a", "b"))
    data, parity = traced(tmp_path, asked)
    assert parity.passed, parity
    assert parity.random == 120
    (tmp_path / "policy.onnx").write_bytes(data)
    alone, together = (load_onnx_policy(tmp_path / "policy.onnx", asked) for _ in range(2))
    for sample in samples(asked, masked=False)[:5]:
        observation = sample.turn.observations[sample.agent]
        both = together.act(sample.turn._replace(observations={"a": observation, "b": observation}))
        one = alone.act(sample.turn._replace(observations={"a": observation}))
        np.testing.assert_allclose(np.ravel(both["a"]), np.ravel(one["a"]), atol=1e-5)
        np.testing.assert_allclose(np.ravel(both["b"]), np.ravel(one["a"]), atol=1e-5)


GODOT = {
    "discrete": None,
    "multi-discrete": None,
    "multi-binary": None,
    "mixed observation": None,
    "continuous": targets.BOUNDS,
    "nested observation": "is inside another part of the observation",
    "picture": targets.PICTURE,
    "lstm": targets.MEMORY,
    "mingru": targets.MEMORY,
    "gru with picture": targets.MEMORY,
}


@pytest.mark.parametrize("name", GODOT)
def test_every_target(name: str, tmp_path: Path) -> None:
    seen, acts, options = CASES[name]
    saved(tmp_path, seen, acts, options)
    asked = request(seen, acts)
    targets.check_targets(
        lambda: [make(tmp_path, "policy_0.safetensors", asked) for make in (make_controller, make_exportable)],
        asked,
        godot=GODOT[name],
    )


def test_a_network_that_an_opset_cannot_hold_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen, acts, options = CASES["integers"]
    saved(tmp_path, seen, acts, options)
    asked = request(seen, acts)
    made = [make(tmp_path, "policy_0.safetensors", asked) for make in (make_controller, make_exportable)]
    with pytest.raises(InputError, match=r"cannot be written in opset 9: .*aten::round.* Type: --opset 17"):
        trace(made[0], made[1], asked, ([], []), ExportSettings(versions=OnnxVersions(9, 4)))
    assert capfd.readouterr().out == ""  # torch would print its graph


@pytest.mark.parametrize("acts", [spaces.Discrete(4), spaces.MultiDiscrete([2, 3])])
def test_masks_are_an_input(acts: spaces.Space[Any], tmp_path: Path) -> None:
    saved(tmp_path, ROW, acts, {})
    data, parity = traced(tmp_path, request(ROW, acts), masked=True)
    assert parity.passed, parity
    model = onnx.load_model_from_string(data)
    assert [each.name for each in model.graph.input] == ["obs", "action_mask"]
    facts = json.loads({entry.key: entry.value for entry in model.metadata_props}["mosaic"])
    assert facts["masked"]


def test_the_interface_of_the_plug_in(tmp_path: Path) -> None:
    seen = spaces.Dict(obs=spaces.Box(-1, 1, (2, 3), np.float32), wall=spaces.Discrete(3))
    saved(tmp_path, seen, spaces.Discrete(4), {})
    data, parity = traced(tmp_path, request(seen, spaces.Discrete(4)), "godot")
    assert parity.passed
    graph = onnx.load_model_from_string(data).graph
    sizes = {each.name: [d.dim_param or d.dim_value for d in each.type.tensor_type.shape.dim] for each in
             (*graph.input, *graph.output)}  # fmt: skip
    assert sizes == {
        "obs": ["batch_size", 6],
        "wall": ["batch_size", 1],
        "state_ins": ["batch_size"],
        "output": ["batch_size", 4],
        "state_outs": ["batch_size"],
    }


REFUSED: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], dict[str, Any], str]] = {
    "memory": (ROW, spaces.Discrete(2), {"memory": "lstm"}, "it has memory, and the plug-in gives every decision"),
    "masks": (ROW, spaces.Discrete(2), {}, "its actions are masked, and the plug-in gives no masks"),
    "bounds": (ROW, spaces.Box(-2, 2, (1,)), {}, "the plug-in clamps numbers to -1..1"),
    "picture": (
        spaces.Dict(camera_2d=spaces.Box(0, 255, (9, 9, 3), np.uint8)),
        spaces.Discrete(2),
        {"pictures": True},
        "camera_2d is a picture, which the plug-in does not give to a model",
    ),
    "nested": (
        spaces.Dict(a=spaces.Dict(b=ROW)),
        spaces.Discrete(2),
        {},
        "a.b is inside another part of the observation",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_plug_in_cannot_run_is_refused(name: str, tmp_path: Path) -> None:
    seen, acts, options, reason = REFUSED[name]
    saved(tmp_path, seen, acts, options)
    with pytest.raises(InputError, match=reason) as refused:
        traced(tmp_path, request(seen, acts), "godot", masked=name == "masks")
    assert "Use --target onnx" in str(refused.value)


def test_torchscript(tmp_path: Path) -> None:
    import torch

    saved(tmp_path, ROW, spaces.Discrete(3), {"memory": "gru"})
    data, parity = traced(tmp_path, request(ROW, spaces.Discrete(3)), "torchscript")
    assert parity.passed
    (tmp_path / "policy.pt").write_bytes(data)
    with warnings.catch_warnings(action="ignore"):  # torch calls TorchScript deprecated
        module = torch.jit.load(tmp_path / "policy.pt")  # type: ignore[no-untyped-call]
    logits, state = module(torch.zeros(7, 5), torch.zeros(7, 64))
    assert logits.shape == (7, 3)
    assert state.shape == (7, 64)


def test_another_network_is_noticed(tmp_path: Path) -> None:
    """The file is compared with the controller, not only with the network that it was traced from."""
    saved(tmp_path, ROW, spaces.Discrete(3), {})
    asked = request(ROW, spaces.Discrete(3))
    exportable = make_exportable(tmp_path, "policy_0.safetensors", asked)
    other = tmp_path / "other"
    other.mkdir()
    saved(other, ROW, spaces.Discrete(3), {"activation": "relu"})
    controller = make_controller(other, "policy_0.safetensors", asked)
    _, parity = trace(controller, exportable, asked, ([], samples(asked, masked=False)), ExportSettings())
    assert not parity.passed
    assert parity.action_agreement < 1


@pytest.mark.parametrize(("opset", "ir_version"), [(9, 4), (17, 8), (20, 10)])
def test_versions(opset: int, ir_version: int, tmp_path: Path) -> None:
    saved(tmp_path, ROW, spaces.Discrete(3), {})
    asked = request(ROW, spaces.Discrete(3))
    made = (
        make_controller(tmp_path, "policy_0.safetensors", asked),
        make_exportable(tmp_path, "policy_0.safetensors", asked),
    )
    settings = ExportSettings(versions=OnnxVersions(opset, ir_version))
    data, parity = trace(*made, asked, ([], samples(asked, masked=False)), settings)
    model = onnx.load_model_from_string(data)
    assert (model.opset_import[0].version, model.ir_version, parity.passed) == (opset, ir_version, True)


def test_versions_that_do_not_exist() -> None:
    with pytest.raises(InputError, match=r"opset 30 cannot be written\. Possible: 9 to 20"):
        check_versions(OnnxVersions(30, 8))
    with pytest.raises(InputError, match=r"IR version 3 does not go with opset 20\. Possible: 9 to 13"):
        check_versions(OnnxVersions(20, 3))


def test_mixed_actions_are_laid_out_for_the_plug_in(tmp_path: Path) -> None:
    """Behind the numbers of a part the plug-in skips as many deviations, if there are choices too."""
    acts = spaces.Box(-1, 1, (5,), np.float32)  # two numbers, a choice of two, one number
    saved(tmp_path, ROW, acts, {})
    made = request(ROW, acts)
    facts = replace(made.spec.facts, action_parts={"agent_0": (("continuous", 2), ("discrete", 2), ("continuous", 1))})
    asked = replace(made, spec=replace(made.spec, facts=facts))
    data, parity = traced(tmp_path, asked, "godot")
    assert parity.passed
    (tmp_path / "policy.onnx").write_bytes(data)
    seen = np.linspace(-1, 1, 5, dtype=np.float32)
    turn = Turn({"agent_0": seen}, {}, {}, {}, {}, {}, {})
    wanted = make_controller(tmp_path, "policy_0.safetensors", asked).act(turn)["agent_0"]
    session = onnxruntime.InferenceSession(data)
    row = session.run(["output"], {"obs": seen[None], "state_ins": np.ones(1, np.float32)})[0][0]
    assert row.shape == (8,)
    np.testing.assert_allclose(row[[0, 1, 4, 5, 6]], wanted, atol=1e-5)
    assert row[[2, 3, 7]].tolist() == [0, 0, 0]
    played = load_onnx_policy(tmp_path / "policy.onnx", asked).act(turn)["agent_0"]
    np.testing.assert_allclose(played, wanted, atol=1e-5)
