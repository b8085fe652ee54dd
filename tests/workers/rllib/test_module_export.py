"""Exported RLlib modules act as their controllers do: memory, pictures, squashed numbers, distributions of values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from safetensors.numpy import save_file

from mosaic.core.errors import InputError
from mosaic.envs.spaces import MASK
from mosaic.exports.observations import draw
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.rllib.checkpoint.controllers import FACTS, FORMAT, MODULE, load_policy
from mosaic.workers.rllib.checkpoint.exportable import make_exportable
from mosaic.workers.rllib.env.encoding import OBSERVATION, agent_code
from mosaic.workers.rllib.learner.modules import module_class
from tests.exports import targets
from tests.policies.onnx.graphs import request

ROW = spaces.Box(-3, 3, (5,), np.float32)
PICTURE = spaces.Box(0, 255, (50, 31, 3), np.uint8)
FORCE = spaces.Box(np.float32([-2, 0]), np.float32([2, 3]))
VALUES = {"double_q": True, "dueling": True, "epsilon": 0.1, "num_atoms": 4, "v_min": -1.0, "v_max": 1.0}
CASES: dict[str, tuple[str, spaces.Space[Any], spaces.Space[Any], dict[str, Any]]] = {
    "ppo with memory": ("ppo", ROW, spaces.Discrete(3), {"use_lstm": True, "lstm_cell_size": 8}),
    "appo with memory of two encoders": (
        "appo", ROW, spaces.MultiDiscrete([2, 3]), {"use_lstm": True, "lstm_cell_size": 8, "vf_share_layers": False},
    ),
    "ppo with pictures": ("ppo", PICTURE, spaces.Discrete(3), {}),
    "ppo with numbers": ("ppo", ROW, FORCE, {}),
    "sac": ("sac", ROW, FORCE, {"twin_q": True}),
    "impala": ("impala", ROW, spaces.MultiDiscrete([2, 3]), {}),
    "dqn with distributions": ("dqn", ROW, spaces.Discrete(3), VALUES),
    "dqn with two streams": ("dqn", ROW, spaces.Discrete(3), {**VALUES, "num_atoms": 1}),
    "dqn with one stream": ("dqn", ROW, spaces.Discrete(3), {**VALUES, "num_atoms": 1, "dueling": False}),
    "dqn with pictures": ("dqn", PICTURE, spaces.Discrete(3), {**VALUES, "num_atoms": 1}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Compute on one thread: several wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def written(folder: Path, case: tuple[str, Any, Any, dict[str, Any]], *, masked: bool = False) -> PolicyRequest:
    """Write a policy with random weights as a run does."""
    algorithm, seen, acts, options = case
    base = {key: value for key, value in options.items() if key in DefaultModelConfig.__dataclass_fields__}
    config = asdict(DefaultModelConfig(fcnet_hiddens=[8, 8], **base)) | options
    code = agent_code(seen, acts, 42)
    shown: spaces.Space[Any] = code.observation_space
    if masked:
        shown = spaces.Dict({OBSERVATION: shown, MASK: spaces.Box(0, 1, (code.choices,), np.int8)})
    torch.manual_seed(0)
    module = module_class(algorithm)(
        observation_space=shown, action_space=code.action_space, inference_only=True, model_config=dict(config)
    )
    state = {MODULE + name: np.ascontiguousarray(array * 1.5) for name, array in module.get_state().items()}
    save_file(state, folder / "policy_0.safetensors")
    facts = {"file": "policy_0.safetensors", "dense": False, "agents": ["agent_0"], "algorithm": algorithm,
             "model_config": config, "masked": masked, "picture_size": 42, "normalize_actions": True,
             "clip_actions": False, "epsilon": None, "code": None}  # fmt: skip
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, "policies": {"shared": facts}}))
    return request(seen, acts)


@pytest.mark.parametrize("name", [*CASES, "masked"])
def test_a_module_acts_alike_as_a_file(name: str, tmp_path: Path) -> None:
    masked = name == "masked"
    asked = written(tmp_path, CASES["ppo with memory" if masked else name], masked=masked)
    samples = list(draw(asked.spec, asked.agents, 20, masked=masked))
    made = load_policy(tmp_path, "shared", asked), make_exportable(tmp_path, "shared", asked)
    _, parity = trace(*made, asked, ([], samples), ExportSettings())
    assert parity.passed, parity
    assert bool(made[1].memory) == (masked or "memory" in name)


GODOT = {
    "ppo with memory": targets.MEMORY,
    "sac": targets.BOUNDS,
    "impala": None,
    "dqn with two streams": None,
}


@pytest.mark.parametrize("name", GODOT)
def test_every_target(name: str, tmp_path: Path) -> None:
    asked = written(tmp_path, CASES[name])
    targets.check_targets(
        lambda: (load_policy(tmp_path, "shared", asked), make_exportable(tmp_path, "shared", asked)),
        asked,
        godot=GODOT[name],
    )


def test_a_users_own_code_is_refused(tmp_path: Path) -> None:
    asked = written(tmp_path, CASES["sac"])
    document = json.loads((tmp_path / FACTS).read_text())
    document["policies"]["shared"]["code"] = {"rl_module": "mine:Module"}
    (tmp_path / FACTS).write_text(json.dumps(document))
    with pytest.raises(InputError, match="its user's own RLModule or connectors, Python code that a file cannot hold"):
        make_exportable(tmp_path, "shared", asked)
