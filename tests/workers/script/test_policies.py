"""Policies that a program saved take an agent's place, and its checkpoints are what it resumes from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mosaic import evaluate
from mosaic.core.errors import InputError
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoints import list_checkpoints
from tests.workers.hosting import run_config

LEFT_OR_RIGHT = """
import json, os, sys
import numpy as np
from pathlib import Path
from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.architecture import Architecture
from mosaic.models.layout import count_weights, tensors
from mosaic.models.weights_file import save_weights

start = int(os.environ.get("MOSAIC_RESUME_ENV_STEPS", 0))
if start:
    known = json.loads(Path(os.environ["MOSAIC_RESUME_FROM"], "state/counter.json").read_text())
    assert known == {"env_steps": start}, known
folder = Path(os.environ["MOSAIC_CHECKPOINT_DIR"])
net = Architecture(observation=4, head=ActionHead("categorical", (2,)), hidden=(), critic_hidden=())
flat = np.zeros(count_weights(net), np.float32)
next(t for t in tensors(net) if t.name == "policy.0.weight").of(flat)[:] = [[0, 0], [0, 0], [-1, 1], [-1, 1]]
save_weights(folder / "policy.safetensors", net, flat)
(folder / "state").mkdir(exist_ok=True)
steps = start + 100
(folder / "state" / "counter.json").write_text(json.dumps({"env_steps": steps}))
print("@METRIC", json.dumps({"env_steps": steps, "episode_reward_mean": 50.0}))
saved = {"env_steps": steps, "reward": 50.0, "policy": "policy.safetensors", "files": ["state"]}
print("@CHECKPOINT", json.dumps(saved))
sys.exit(0 if start else 1)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def ended(home: Path, code: str, *words: str):
    run = Trainer(home).submit(run_config("script", {"command": [sys.executable, "-c", code, *words]}))
    run.wait(120)
    return run


def test_a_saved_policy_plays_and_the_program_resumes_from_its_checkpoint(home: Path) -> None:
    run = ended(home, LEFT_OR_RIGHT)
    assert run.state == "failed", run.log()
    assert [c.env_steps for c in list_checkpoints(run.folder)] == [100]
    run.resume()
    run.wait(120)
    assert run.state == "finished", run.log()
    assert [c.env_steps for c in list_checkpoints(run.folder)] == [100, 200]
    assert list_checkpoints(run.folder)[0].reward == 50.0
    found = evaluate("gym/CartPole-v1", {"*": f"run:{run.id}@best"}, episodes=5, seed=1)
    assert found.agents["agent_0"].returns.mean > 30  # leaning with the pole; random play makes 20


def test_a_program_that_saved_nothing_has_no_policy(home: Path) -> None:
    run = ended(home, "print('@METRIC {\"env_steps\": 1}')")
    with pytest.raises(InputError, match="Its program has saved no policy; it can, with a line @CHECKPOINT"):
        evaluate("gym/CartPole-v1", {"*": f"run:{run.id}"}, episodes=1)


def test_a_program_that_saved_nothing_cannot_resume(home: Path) -> None:
    run = ended(home, "raise SystemExit(3)")
    with pytest.raises(InputError, match=r"has saved no checkpoint, and the worker script resumes from those alone"):
        run.resume()


@pytest.mark.parametrize(
    ("announced", "reason"),
    [
        ({"env_steps": 1}, "names no file"),
        ({"env_steps": 1, "policy": "../config.json"}, "is not a name below"),
        ({"env_steps": 1, "policy": "gone.onnx"}, "There is no 'gone.onnx'"),
        ({"env_steps": 1, "policy": "weights.pkl"}, "ends in .onnx, .safetensors, .zip"),
        ({"env_steps": -1, "policy": "weights.pkl"}, "env_steps"),
        ({"env_steps": 1, "polcy": "weights.pkl"}, "polcy"),
    ],
)
def test_a_checkpoint_that_cannot_be_saved_is_alerted(home: Path, announced: dict[str, object], reason: str) -> None:
    code = (
        "import os, sys; open(os.environ['MOSAIC_CHECKPOINT_DIR'] + '/weights.pkl', 'w').close(); "
        "print('@METRIC {\"env_steps\": 1}'); print('@CHECKPOINT', sys.argv[1])"
    )
    run = ended(home, code, json.dumps(announced))
    (alert,) = [event["message"] for event in run.events() if event["kind"] == "alert"]
    assert reason in alert
    assert list_checkpoints(run.folder) == []


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_a_zip_of_stable_baselines3_plays_as_it_does_there(home: Path, tmp_path: Path, algorithm: str) -> None:
    import gymnasium as gym
    import stable_baselines3

    from mosaic.envs.catalog import make_env
    from mosaic.policies.controller import PolicyRequest
    from mosaic.workers.script.policies import load_saved_policy

    made = gym.make("CartPole-v1")
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", made, seed=3, device="cpu")
    model.save(tmp_path / "model.zip")
    env = make_env("gym/CartPole-v1")
    player = load_saved_policy(tmp_path / "model.zip", PolicyRequest("run:x", env.spec, ("agent_0",)))
    player.begin(("agent_0",), 0)
    turn = env.reset(seed=0)
    for _ in range(200):
        action = player.act(turn)
        assert action["agent_0"] == int(model.predict(turn.observations["agent_0"], deterministic=True)[0])
        turn = env.step(action)
        if not turn.observations:
            turn = env.reset(seed=1)


def test_a_zip_that_would_unpickle_is_refused(tmp_path: Path) -> None:
    import pickle
    import zipfile

    from mosaic.core.errors import FormatError
    from mosaic.envs.catalog import make_env
    from mosaic.policies.controller import PolicyRequest
    from mosaic.workers.script.policies import load_saved_policy

    class Evil:
        def __reduce__(self):  # type: ignore[no-untyped-def]
            return (Path(tmp_path / "touched").touch, ())

    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("policy.pth", pickle.dumps(Evil()))
        archive.writestr("data", "{}")
    spec = make_env("gym/CartPole-v1").spec
    with pytest.raises(FormatError, match=r"model\.zip"):
        load_saved_policy(tmp_path / "model.zip", PolicyRequest("run:x", spec, ("agent_0",)))
    assert not (tmp_path / "touched").exists()


def lean_onnx() -> bytes:
    """An ONNX file whose policy pushes to the side the pole leans and falls to."""
    from onnx import TensorProto, helper, numpy_helper

    weights = np.array([[0, 0], [0, 0], [-1, 1], [-1, 1]], np.float32)
    tensor = numpy_helper.from_array(weights, "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "weights"], ["logits"])],
        "lean",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def test_an_onnx_policy_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic.envs.catalog import make_env
    from mosaic.policies.controller import PolicyRequest
    from mosaic.workers.script.policies import load_saved_policy

    env = make_env("gym/CartPole-v1")
    request = PolicyRequest("run:x", env.spec, ("agent_0",))
    (tmp_path / "policy.onnx").write_bytes(lean_onnx())
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(InputError, match=r"pip install 'mosaic-rl\[onnx\]'"):
            load_saved_policy(tmp_path / "policy.onnx", request)
    player = load_saved_policy(tmp_path / "policy.onnx", request)
    player.begin(("agent_0",), 0)
    turn = env.reset(seed=0)
    for _ in range(20):
        seen = turn.observations["agent_0"]
        action = player.act(turn)
        assert action["agent_0"] == int(seen[2] + seen[3] > 0)
        turn = env.step(action)


def test_an_onnx_file_is_whole_in_itself_or_refused(tmp_path: Path) -> None:
    from onnx import StringStringEntryProto, TensorProto

    from mosaic.core.errors import FormatError
    from mosaic.envs.catalog import make_env
    from mosaic.policies.controller import PolicyRequest
    from mosaic.workers.script.policies import load_saved_policy

    request = PolicyRequest("run:x", make_env("gym/CartPole-v1").spec, ("agent_0",))
    file = tmp_path / "policy.onnx"
    whole = lean_onnx()
    (tmp_path / "other").write_bytes(bytes(32))
    file.write_bytes(external(whole, StringStringEntryProto(key="location", value="other"), TensorProto.EXTERNAL))
    with pytest.raises(FormatError, match="weights in other files"):
        load_saved_policy(file, request)
    for damaged in (b"", b"not a model", whole[:-9]):
        file.write_bytes(damaged)
        with pytest.raises(FormatError, match="not a valid ONNX file"):
            load_saved_policy(file, request)


def external(data: bytes, entry: object, location: int) -> bytes:
    from onnx import load_model_from_string

    model = load_model_from_string(data)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.external_data.append(entry)
    tensor.data_location = location
    return model.SerializeToString()
