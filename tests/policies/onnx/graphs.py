"""Small ONNX files for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from onnx import TensorProto, helper, numpy_helper

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.controller import PolicyRequest


def linear(weights: Any, *, inputs: str = "obs", output: str = "output", batch: str | int = "batch") -> Any:
    """A model whose output is its input times the weights."""
    weights = np.asarray(weights, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", [inputs, "weights"], [output])],
        "linear",
        [helper.make_tensor_value_info(inputs, TensorProto.FLOAT, [batch, weights.shape[0]])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, weights.shape[1]])],
        [numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(path: Path, model: Any) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def request(
    observation: spaces.Space[Any], action: spaces.Space[Any], agents: Sequence[str] = ("agent_0",), **also: Any
) -> PolicyRequest:
    names = tuple(agents)
    facts = EnvFacts(config=EnvironmentConfig(family="test", env_id="env"))
    spec = EnvSpec(facts, names, dict.fromkeys(names, observation), dict.fromkeys(names, action))
    return PolicyRequest("onnx:test", spec, names, **also)


def turn(observations: Mapping[str, Any], masks: Mapping[str, Any] | None = None) -> Turn:
    return Turn(observations, masks or {}, {}, {}, {}, {}, {})
