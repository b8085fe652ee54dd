"""Fixed opponents in files for the check of the mapping: an ONNX file and a bundle, which always play 2 in `Duel`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import PolicyID
from mosaic.envs.space_json import space_to_json
from mosaic.store.atomic import write_atomic
from mosaic.store.bundles.manifest import (
    GRAPHS,
    MANIFEST,
    BundledPolicy,
    BundleManifest,
    GraphEntry,
    TrainingSummary,
    manifest_text,
)
from mosaic.store.checkpoint_record import file_entry
from mosaic.testing.duel import CHOICES, CONSTANT, STEPS, Duel, duel

POLICY = "two"


def constant_opponents(folder: Path) -> tuple[PolicyID, ...]:
    """Return policies that always play 2, one for each way to name one; without onnx, the function alone."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return (CONSTANT,)
    folder.mkdir(parents=True, exist_ok=True)
    file, bundle = folder / "two.onnx", folder / "bundle"
    if not file.exists():
        file.write_bytes(_constant_graph())
        _write_bundle(bundle, file.read_bytes(), duel())
    return CONSTANT, f"onnx:{file}", f"bundle:{bundle},engine=onnx"


def _constant_graph() -> bytes:
    """Return a graph that prefers the last action, whichever of the step numbers it is shown as a one-hot row."""
    onnx: Any = import_module("onnx")
    logits = np.zeros((STEPS + 1, CHOICES), np.float32)
    logits[:, -1] = 100.0  # drawn actions are the same
    tensor, helper = onnx.TensorProto.FLOAT, onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "logits"], ["output"])],
        POLICY,
        [helper.make_tensor_value_info("obs", tensor, ["batch", STEPS + 1])],
        [helper.make_tensor_value_info("output", tensor, ["batch", CHOICES])],
        [onnx.numpy_helper.from_array(logits, "logits")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def _write_bundle(folder: Path, graph: bytes, environment: EnvironmentConfig) -> None:
    """Write a bundle of one policy for any agent, whose only file is the graph."""
    file = f"{GRAPHS}/{POLICY}.onnx"
    (folder / GRAPHS).mkdir(parents=True)
    (folder / file).write_bytes(graph)
    spec = Duel().spec
    spaces = {
        agent: {
            "observation": space_to_json(spec.observation_spaces[agent]),
            "action": space_to_json(spec.action_spaces[agent]),
        }
        for agent in spec.possible_agents
    }
    manifest = BundleManifest(
        run=POLICY,
        name=POLICY,
        environment=environment.model_dump(mode="json"),
        spaces=spaces,
        policies={
            POLICY: BundledPolicy(
                agents=("*",),
                worker="none",
                weights=(),
                onnx=(GraphEntry(file=file, agents=spec.possible_agents, parity={}),),
            )
        },
        training=TrainingSummary(env_steps=0),
        versions={},
        files={file: file_entry(folder / file)},
    )
    write_atomic(folder / MANIFEST, manifest_text(manifest))
