"""Tests of `onnx:` policies: published models, decoding, memory, batches, and envs that do not fit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from onnx import TensorProto, helper

from mosaic.core.errors import InputError
from mosaic.evaluation.evaluate import evaluate
from mosaic.policies.controller import PolicyError, PolicyRequest, Sampling
from mosaic.policies.loaded import load_policy
from mosaic.policies.onnx.controller import load_onnx_policy
from tests.policies.onnx.graphs import linear, request, turn, write

PUBLISHED = Path(os.environ.get("GODOT_MODELS", Path(__file__).parents[3].parent / "shared" / "godot_onnx"))
BALL = Path(PUBLISHED, "BallChase.onnx")
MODELS: dict[str, tuple[int, spaces.Space[Any]]] = {  # Godot RL Agents' example games: what they see, and how they act
    "3DCarParking": (26, spaces.Box(-1, 1, (2,))),
    "AirHockey": (26, spaces.Dict(move=spaces.Box(-1, 1, (2,)))),
    "BallChase": (21, spaces.Box(-1, 1, (2,))),
    "CrossTheRoad": (78, spaces.Discrete(5)),
    "DownFall": (153, spaces.Tuple((spaces.Box(-1, 1, (3,)), spaces.Discrete(2)))),
    "FlyBy": (8, spaces.Dict(pitch=spaces.Box(-1, 1, (1,)), turn=spaces.Box(-1, 1, (1,)))),
    "ItemSortingCart": (12, spaces.Box(-1, 1, (1,))),
    "JumperHard": (152, spaces.Box(-1, 1, (3,))),
    "MultiAgentSimple_platform": (12, spaces.Dict(move=spaces.Box(-1, 1, (1,)))),  # one mean and one deviation
    "MultiAgentSimple_player": (48, spaces.Dict(move=spaces.Box(-1, 1, (2,)))),
    "RobotFPS": (153, spaces.Dict(look=spaces.Box(-1, 1, (2,)), walk=spaces.MultiDiscrete([3, 3, 3]))),
    "ScoreTheGoal": (16, spaces.Box(-1, 1, (2,))),
}
needs_models = pytest.mark.skipif(not BALL.is_file(), reason=f"no published models at {PUBLISHED}")


@needs_models
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_plays(name: str) -> None:
    width, acts = MODELS[name]
    random = np.random.default_rng(0)
    for seen in (spaces.Box(-1, 1, (width,)), spaces.Dict(obs=spaces.Box(-1, 1, (width,)))):
        player = load_onnx_policy(PUBLISHED / f"{name}.onnx", request(seen, acts, ("a", "b")))
        player.begin(("a", "b"), 0)
        row = random.uniform(-1, 1, width).astype(np.float32)
        shown = {"obs": row} if isinstance(seen, spaces.Dict) else row
        both = player.act(turn({"a": shown, "b": shown}))
        alone = player.act(turn({"a": shown}))
        for action in (both["a"], both["b"]):
            assert acts.contains(action), action
            assert str(action) == str(alone["a"])


@needs_models
def test_an_output_of_any_width_is_measured() -> None:
    with pytest.raises(InputError, match="gives 2 numbers for agent_0 of test/env, who needs 3, or 6 with deviations"):
        load_onnx_policy(PUBLISHED / "ScoreTheGoal.onnx", request(spaces.Box(-1, 1, (16,)), spaces.Box(-1, 1, (3,))))


def godot_like(outputs: int) -> Any:
    """A model with the plug-in's interface: output = the first numbers of obs, state_outs = state_ins."""
    model = linear(np.eye(6, outputs, dtype=np.float32))
    model.graph.input.append(helper.make_tensor_value_info("state_ins", TensorProto.FLOAT, ["batch"]))
    model.graph.output.append(helper.make_tensor_value_info("state_outs", TensorProto.FLOAT, ["batch"]))
    model.graph.node.append(helper.make_node("Identity", ["state_ins"], ["state_outs"]))
    return model


def test_actions_are_decoded_as_the_plug_in_does(tmp_path: Path) -> None:
    both = spaces.Dict([("move", spaces.Box(-1, 1, (2,))), ("jump", spaces.Discrete(2))])
    seen = spaces.Box(-9, 9, (6,))
    row = np.array([3, -0.5, 7, 8, 1, 2], np.float32)
    means = load_onnx_policy(write(tmp_path / "m.onnx", godot_like(4)), request(seen, both))
    action = means.act(turn({"agent_0": row}))["agent_0"]
    assert action["move"].tolist() == [1.0, -0.5]
    assert action["jump"] == 1  # of 7 and 8
    deviations = load_onnx_policy(write(tmp_path / "d.onnx", godot_like(6)), request(seen, both))
    action = deviations.act(turn({"agent_0": row}))["agent_0"]
    assert action["move"].tolist() == [1.0, -0.5]
    assert action["jump"] == 1  # of 1 and 2, behind the two skipped numbers 7 and 8


def test_each_key_of_the_observation_may_be_an_input(tmp_path: Path) -> None:
    model = linear(np.eye(2, dtype=np.float32), inputs="near")
    model.graph.input.append(helper.make_tensor_value_info("far", TensorProto.FLOAT, ["batch", 3]))
    path = write(tmp_path / "two.onnx", model)
    fits = spaces.Dict(far=spaces.Box(-1, 1, (3,)), near=spaces.Box(-1, 1, (2,)))
    player = load_onnx_policy(path, request(fits, spaces.Discrete(2)))
    assert player.act(turn({"agent_0": {"far": np.zeros(3), "near": np.array([0, 1])}}))["agent_0"] == 1
    other = spaces.Dict(far=spaces.Box(-1, 1, (4,)), wide=spaces.Box(-1, 1, (2,)))
    with pytest.raises(InputError) as refused:
        load_onnx_policy(path, request(other, spaces.Discrete(2)))
    assert "near: 2 numbers in the file, nothing here" in str(refused.value)
    assert "far: 3 numbers in the file, 4 numbers here" in str(refused.value)
    assert "wide: nothing in the file, 2 numbers here" in str(refused.value)


def test_masks_bind(tmp_path: Path) -> None:
    path = write(tmp_path / "p.onnx", linear(np.eye(5, dtype=np.float32)))
    seen = spaces.Box(-9, 9, (5,))
    player = load_onnx_policy(path, request(seen, spaces.MultiDiscrete([2, 3])))
    row = np.array([1, 2, 9, 8, 7], np.float32)
    masks = {"agent_0": np.array([1, 0, 0, 1, 1], bool)}
    assert player.act(turn({"agent_0": row}))["agent_0"].tolist() == [1, 0]
    assert player.act(turn({"agent_0": row}, masks))["agent_0"].tolist() == [0, 1]
    with pytest.raises(InputError, match="The mask has 2 actions, but the policy chooses among 5"):
        player.act(turn({"agent_0": row}, {"agent_0": np.ones(2, bool)}))


def test_a_model_for_one_row_plays_several_agents(tmp_path: Path) -> None:
    path = write(tmp_path / "p.onnx", linear(np.eye(2, dtype=np.float32), batch=1))
    player = load_onnx_policy(path, request(spaces.Box(-9, 9, (2,)), spaces.Discrete(2), ("a", "b")))
    assert player.act(turn({"a": np.array([0, 1]), "b": np.array([1, 0])})) == {"a": 1, "b": 0}


def test_nan_is_not_an_action(tmp_path: Path) -> None:
    path = write(tmp_path / "p.onnx", linear(np.eye(2, dtype=np.float32)))
    player = load_onnx_policy(path, request(spaces.Box(-9, 9, (2,)), spaces.Discrete(2)))
    with pytest.raises(PolicyError, match="gives NaN for an observation"):
        player.act(turn({"agent_0": np.array([np.nan, 0], np.float32)}))


def test_sampling_draws_by_the_logits(tmp_path: Path) -> None:
    path = write(tmp_path / "p.onnx", linear(np.eye(2, dtype=np.float32)))
    made = request(spaces.Box(-9, 9, (2,)), spaces.Discrete(2))
    for temperature, most in ((1.0, 0.9), (0.01, 1.01)):
        asked = PolicyRequest(made.reference, made.spec, made.agents, sampling=Sampling(temperature))
        player = load_onnx_policy(path, asked)
        player.begin(("agent_0",), 5)
        drawn = [player.act(turn({"agent_0": np.array([0, 1], np.float32)}))["agent_0"] for _ in range(300)]
        assert 0.6 < np.mean(drawn) < most
        player.begin(("agent_0",), 5)
        assert drawn[:9] == [player.act(turn({"agent_0": np.array([0, 1], np.float32)}))["agent_0"] for _ in range(9)]


def test_it_is_a_policy_like_any_other(tmp_path: Path) -> None:
    lean = write(tmp_path / "lean.onnx", linear([[0, 0], [0, 0], [-1, 1], [-1, 1]]))
    found = evaluate("gym/CartPole-v1", {"*": f"onnx:{lean}"}, episodes=3, seed=1)
    assert min([each.length for each in found.episode_results]) > 100
    with load_policy(f"onnx:{lean}", "gym/CartPole-v1") as policy:
        assert policy.predict(np.array([0, 0, 0.1, 0.1], np.float32)) == 1
    with pytest.raises(InputError, match=r"obs: 4 numbers in the file, 2 numbers here"):
        load_policy(f"onnx:{lean}", "gym/MountainCar-v0")
    with pytest.raises(InputError, match=r"There is no file .*none\.onnx"):
        load_policy(f"onnx:{tmp_path}/none.onnx", "gym/CartPole-v1")
    with pytest.raises(InputError, match=r"there is no option 'sampel'\. Did you mean 'sample'\?"):
        load_policy(f"onnx:{lean},sampel=true", "gym/CartPole-v1")


def test_metadata_names_the_spaces(tmp_path: Path) -> None:
    from mosaic.envs.space_json import space_to_json

    model = linear(np.eye(4, 2, dtype=np.float32))
    facts = {
        "format": "mosaic-policy-graph-1",
        "observation": space_to_json(spaces.Box(-1, 1, (4,))),
        "action": space_to_json(spaces.Discrete(2)),
        "environment": "mine/maze",
    }
    helper.set_model_props(model, {"mosaic": json.dumps(facts)})
    path = write(tmp_path / "p.onnx", model)
    load_onnx_policy(path, request(spaces.Box(-1, 1, (4,)), spaces.Discrete(2)))
    with pytest.raises(InputError) as refused:
        load_onnx_policy(path, request(spaces.Box(-1, 1, (4,)), spaces.Discrete(3)))
    assert "was trained in mine/maze and cannot play test/env as agent_0, whose spaces differ" in str(refused.value)
    assert "its action is Discrete(3) here and Discrete(2) in training" in str(refused.value)
