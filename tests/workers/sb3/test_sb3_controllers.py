"""Controllers of SB3 policies act as the model itself does, for every algorithm and every kind of network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import Explains, PolicyController, PolicyRequest, Remembers, Sampling
from mosaic.policies.network import NetworkPolicyController
from mosaic.workers.sb3.checkpoint.controllers import load_controller
from mosaic.workers.sb3.checkpoint.writer import write_policy
from mosaic.workers.sb3.checkpoint.zip_policy import play_zip
from tests.policies.together import check_together
from tests.workers.sb3.models import CHOICE, CLASSES, FORCE, PARTS, PICTURE, VECTOR, Spaces, action_of, make_model

AGENT = "agent_0"
SDE = {"use_sde": True}
MULTI, BITS = spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3)
CASES: dict[str, tuple[str, Space[Any], Space[Any], dict[str, Any]]] = {
    **{algorithm: (algorithm, VECTOR, action_of(algorithm), {}) for algorithm in CLASSES},
    "ppo, numbers": ("ppo", VECTOR, FORCE, {}),
    "ppo, several choices": ("ppo", MULTI, MULTI, {}),
    "ppo, bits": ("ppo", BITS, BITS, {}),
    "maskable_ppo, bits": ("maskable_ppo", BITS, BITS, {}),
    "ppo, one number seen": ("ppo", spaces.Discrete(6), CHOICE, {}),
    "ppo, images": ("ppo", PICTURE, CHOICE, {}),
    "ppo, two extractors": ("a2c", PICTURE, FORCE, {"policy_kwargs": {"share_features_extractor": False}}),
    "dqn, images": ("dqn", PICTURE, CHOICE, {}),
    "sac, images": ("sac", PICTURE, FORCE, {}),
    "td3, parts": ("td3", PARTS, FORCE, {}),
    "ppo, parts": ("ppo", PARTS, MULTI, {}),
    "qrdqn, parts": ("qrdqn", PARTS, CHOICE, {}),
    "recurrent_ppo, parts": ("recurrent_ppo", PARTS, CHOICE, {}),
    "recurrent_ppo, two layers": ("recurrent_ppo", VECTOR, FORCE, {"policy_kwargs": {"n_lstm_layers": 2}}),
    "ppo, gSDE": ("ppo", VECTOR, FORCE, SDE),
    "a2c, squashed gSDE": ("a2c", VECTOR, FORCE, {**SDE, "policy_kwargs": {"squash_output": True, "use_expln": True}}),
    "sac, gSDE": ("sac", VECTOR, FORCE, SDE),
    "sac, gSDE without clipping": ("sac", VECTOR, FORCE, {**SDE, "policy_kwargs": {"clip_mean": 0.0}}),
    "crossq, gSDE": ("crossq", VECTOR, FORCE, SDE),
    "ppo, ELU": ("ppo", VECTOR, CHOICE, {"policy_kwargs": {"activation_fn": torch.nn.ELU}}),
    "ppo, no hidden layer": ("ppo", VECTOR, CHOICE, {"policy_kwargs": {"net_arch": []}}),
    "ppo, three layers": ("ppo", VECTOR, FORCE, {"policy_kwargs": {"net_arch": {"pi": [9, 8, 7], "vf": [4]}}}),
}


def request_of(observation: Space[Any], action: Space[Any], sampling: Sampling | None = None) -> PolicyRequest:
    spec = make_env(Spaces(observation, action)).spec
    return PolicyRequest("run:test", spec, (AGENT,), sampling=sampling)


def act(controller: PolicyController, observation: Any, mask: Any = None) -> Any:
    masks = {} if mask is None else {AGENT: mask}
    return controller.act(Turn({AGENT: observation}, masks, {}, {}, {}, {}, {}))[AGENT]


def drawn_observations(space: Space[Any], count: int) -> list[Any]:
    """Return random observations; images have a random brightness, since one noise looks like another."""
    space.seed(5)
    random = np.random.default_rng(5)
    return [_shaded(space.sample(), random) for _ in range(count)]


def _shaded(observation: Any, random: np.random.Generator) -> Any:
    if isinstance(observation, dict):
        return {key: _shaded(part, random) for key, part in observation.items()}
    if getattr(observation, "dtype", None) != np.uint8:
        return observation
    light = np.linspace(random.random(), random.random(), observation.shape[1])[None, :, None] * random.random(3)
    return (observation * light).astype(np.uint8)


def written(model: Any, folder: Path, sampling: Sampling | None = None) -> PolicyController:
    write_policy(model, folder, "learner")
    env = model.get_env().envs[0].unwrapped
    return load_controller(
        folder / "learner.safetensors", request_of(env.observation_space, env.action_space, sampling)
    )


def predicted(model: Any, shown: list[Any]) -> list[Any]:
    """Return the model's actions: one episode of a policy with memory, else one batch."""
    if hasattr(model.policy, "lstm_actor"):
        state, actions = None, []
        for seen in shown:
            action, state = model.predict(seen, state=state, deterministic=True)
            actions.append(action)
        return actions
    if isinstance(shown[0], dict):
        batch: Any = {key: np.stack([seen[key] for seen in shown]) for key in shown[0]}
    else:
        batch = np.stack(shown)
    return list(model.predict(batch, deterministic=True)[0])


@pytest.mark.parametrize("case", CASES)
def test_actions_are_those_of_the_model(case: str, tmp_path: Path) -> None:
    algorithm, observation, action, options = CASES[case]
    model = make_model(algorithm, observation, action, **options)
    players = written(model, tmp_path), play_zip(tmp_path / "learner.zip", request_of(observation, action))
    for player in players:
        player.begin((AGENT,), 0)
    shown = drawn_observations(observation, 200)
    chosen_by_model = predicted(model, shown)
    for seen, wanted in zip(shown, chosen_by_model, strict=True):
        for player in players:
            chosen = act(player, seen)
            if isinstance(action, spaces.Box):
                np.testing.assert_allclose(chosen, wanted, atol=1e-5)
                assert np.asarray(chosen).dtype == action.dtype
            else:
                assert np.array_equal(chosen, wanted)
            assert action.contains(chosen)
    assert len({np.asarray(each).tobytes() for each in chosen_by_model}) > 1  # else it might ignore what it sees


@pytest.mark.parametrize("sampling", [None, Sampling(0.7)])
@pytest.mark.parametrize("case", ["ppo, images", "recurrent_ppo, two layers", "ppo, gSDE", "ppo"])
def test_episodes_are_decided_together_as_alone(case: str, sampling: Sampling | None, tmp_path: Path) -> None:
    algorithm, observation, action, options = CASES[case]
    player = written(make_model(algorithm, observation, action, **options), tmp_path, sampling)
    check_together(player, (AGENT,), [Turn({AGENT: each}, *[{}] * 6) for each in drawn_observations(observation, 24)])


def test_masked_actions_are_those_of_the_model(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for observation, action, width in ((VECTOR, CHOICE, 4), (VECTOR, MULTI, 7), (PICTURE, CHOICE, 4)):
        model = make_model("maskable_ppo", observation, action)
        controller = written(model, tmp_path)
        for shown in drawn_observations(observation, 50):
            mask = random.integers(0, 2, width).astype(np.int8)
            mask[[0, -1]] = 1
            wanted, _ = model.predict(shown, deterministic=True, action_masks=mask.astype(bool))
            assert np.array_equal(act(controller, shown, mask), wanted)


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    controller = written(make_model("maskable_ppo", PICTURE, CHOICE), tmp_path)

    with pytest.raises(InputError, match="The mask has 5 actions, but this network was built for 4"):
        act(controller, PICTURE.sample(), np.ones(5, np.int8))


def test_dense_networks_need_no_torch(tmp_path: Path) -> None:
    for algorithm in ("ppo", "dqn", "qrdqn", "sac", "td3", "tqc", "crossq", "maskable_ppo"):
        model = make_model(algorithm, VECTOR, action_of(algorithm))
        assert isinstance(written(model, tmp_path), NetworkPolicyController)


def test_neither_sb3_nor_torch_is_imported_to_play_a_dense_network(tmp_path: Path) -> None:
    write_policy(make_model("crossq", VECTOR, FORCE), tmp_path, "learner")
    program = (
        "import sys; sys.modules['stable_baselines3'] = sys.modules['sb3_contrib'] = sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from gymnasium import spaces\n"
        "from mosaic.core.turn import Turn\n"
        "from mosaic.plugins import PolicyRequest\n"
        "from mosaic.workers.sb3.checkpoint.controllers import load_controller\n"
        "import gymnasium as gym\n"
        "class E(gym.Env):\n"
        "    observation_space = spaces.Box(-1.0, 1.0, (5,), np.float32)\n"
        "    action_space = spaces.Box(np.array([-2.0, 0.5], np.float32), np.array([2.0, 3.5], np.float32))\n"
        "from mosaic import make_env\n"
        "spec = make_env(E()).spec\n"
        f"made = load_controller(Path({str(tmp_path)!r}) / 'learner.safetensors',"
        " PolicyRequest('run:test', spec, ('agent_0',)))\n"
        "print(made.act(Turn({'agent_0': np.zeros(5, np.float32)}, {}, {}, {}, {}, {}, {}))['agent_0'].shape)"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert said.stdout.strip() == "(2,)", said.stderr


def test_memory_belongs_to_an_agent_and_ends_with_its_episode(tmp_path: Path) -> None:
    controller = written(make_model("recurrent_ppo", VECTOR, FORCE), tmp_path)
    shown = drawn_observations(VECTOR, 3)
    assert isinstance(controller, Remembers)
    controller.begin((AGENT,), 0)
    first = [act(controller, each) for each in shown]
    assert not np.allclose(first[0], act(controller, shown[0]))
    controller.forget(AGENT)
    assert np.allclose(first[0], act(controller, shown[0]))
    controller.begin((AGENT,), 0)
    assert [np.allclose(each, act(controller, seen)) for each, seen in zip(first, shown, strict=True)] == [True] * 3


def test_explanations_are_the_probabilities_and_values_of_the_model(tmp_path: Path) -> None:
    for observation in (VECTOR, PICTURE):
        model = make_model("ppo", observation, CHOICE)
        controller = written(model, tmp_path)
        assert isinstance(controller, Explains)
        shown = observation.sample()
        found = controller.explain(Turn({AGENT: shown}, {}, {}, {}, {}, {}, {}))[AGENT]
        tensor, _ = model.policy.obs_to_tensor(shown)
        wanted = model.policy.get_distribution(tensor).distribution.probs[0].detach().numpy()
        assert found.probabilities is not None
        np.testing.assert_allclose(found.probabilities, wanted, atol=1e-5)
        if observation is VECTOR:
            assert found.value == pytest.approx(model.policy.predict_values(tensor).item(), abs=1e-4)
        else:
            assert found.value is None
    without = written(make_model("dqn", VECTOR, CHOICE), tmp_path)
    assert isinstance(without, Explains)
    assert without.explain(Turn({AGENT: VECTOR.sample()}, {}, {}, {}, {}, {}, {}))[AGENT].value is None
