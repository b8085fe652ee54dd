"""Runs that start from a zip that SB3 wrote: `training.init`, read without unpickling."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from mosaic.core.errors import InputError
from mosaic.models.weights_file import NotFiniteError
from mosaic.store.policies.init_source import find_init
from mosaic.workers.sb3.start import start_model
from tests.workers.sb3.models import CHOICE, CLASSES, VECTOR, action_of, make_model
from tests.workers.sb3.test_sb3_worker import CARTPOLE, SMALL, trained
from tests.workers.sb3.test_sb3_zip import Halved


def learned(algorithm: str, path: Path, **options: Any) -> Any:
    """Save a model whose optimizers have a state."""
    model = make_model(algorithm, VECTOR, action_of(algorithm), **options)
    for name in model._get_torch_save_params()[0]:
        part: Any = model
        for each in name.split("."):
            part = getattr(part, each)
        if isinstance(part, torch.optim.Optimizer):
            for group in part.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.full_like(parameter, 0.01)
            part.step()
    if hasattr(model, "log_ent_coef") and model.log_ent_coef is not None:
        model.log_ent_coef.data.fill_(-1.5)
    model.save(path)
    return model


def start(reference: str, model: Any, normalizer: Any = None, *, normalizes: bool = False) -> None:
    start_model(find_init(reference), model, normalizer, normalizes=normalizes)


@pytest.mark.parametrize("algorithm", CLASSES)
def test_networks_and_optimizers_come_from_the_zip(algorithm: str, tmp_path: Path) -> None:
    saved = learned(algorithm, tmp_path / "model.zip")
    model = make_model(algorithm, VECTOR, action_of(algorithm))
    start(f"sb3:{tmp_path / 'model.zip'},optimizer=true", model)
    assert model.policy.state_dict().keys() == saved.policy.state_dict().keys()
    for name, tensor in saved.policy.state_dict().items():
        assert torch.equal(tensor, model.policy.state_dict()[name]), name
    inner = getattr(model.policy, "optimizer", None) or model.actor
    optimizer = getattr(inner, "optimizer", inner)
    assert optimizer.state_dict()["state"]  # a new optimizer has none
    if getattr(model, "log_ent_coef", None) is not None:
        assert model.log_ent_coef.item() == -1.5


def test_without_asking_the_optimizer_is_new(tmp_path: Path) -> None:
    learned("ppo", tmp_path / "model.zip")
    model = make_model("ppo", VECTOR, CHOICE)
    start(f"checkpoint:{tmp_path / 'model.zip'}", model)
    assert not model.policy.optimizer.state_dict()["state"]


def test_a_fixed_entropy_coefficient_stays_that_of_the_run(tmp_path: Path) -> None:
    learned("sac", tmp_path / "model.zip")
    model = make_model("sac", VECTOR, action_of("sac"), ent_coef=0.25)
    start(f"sb3:{tmp_path / 'model.zip'}", model)
    assert model.ent_coef_tensor.item() == 0.25


@pytest.mark.parametrize(
    ("algorithm", "observation", "action", "options", "text"),
    [
        ("a2c", VECTOR, CHOICE, {}, "was trained with ppo, this run trains with a2c. Type: --algo ppo"),
        (
            "ppo",
            spaces.Box(-1.0, 1.0, (6,), np.float32),
            spaces.Discrete(3),
            {},
            (
                "the observation is Box(-1, 1, (6,), float32) here and Box(-1, 1, (5,), float32) in training; "
                "the action is Discrete(3) here and Discrete(4) in training"
            ),
        ),
        (
            "ppo",
            VECTOR,
            CHOICE,
            {"policy_kwargs": {"activation_fn": torch.nn.ReLU}},
            "activation_fn is ReLU here and Tanh there",
        ),
        (
            "ppo",
            VECTOR,
            CHOICE,
            {"policy_kwargs": {"net_arch": [32]}},
            "'mlp_extractor.policy_net.0.weight' is 64×5 there and 32×5 here",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_difference(
    tmp_path: Path, algorithm: str, observation: Any, action: Any, options: dict[str, Any], text: str
) -> None:
    learned("ppo", tmp_path / "model.zip")
    with pytest.raises(InputError) as error:
        start(f"sb3:{tmp_path / 'model.zip'}", make_model(algorithm, observation, action, **options))
    assert text in str(error.value)


def test_the_message_tells_the_layers_of_the_zip(tmp_path: Path) -> None:
    learned("ppo", tmp_path / "model.zip", policy_kwargs={"net_arch": [16, 8]})
    with pytest.raises(InputError, match=r"and 6 more\. It has net_arch \[16, 8\]\. Set net_arch"):
        start(f"sb3:{tmp_path / 'model.zip'}", make_model("ppo", VECTOR, CHOICE))


def test_other_files_and_own_classes_are_refused(tmp_path: Path) -> None:
    model = make_model("ppo", VECTOR, CHOICE)
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(InputError, match="not a zip that Stable-Baselines3 wrote"):
        start(f"sb3:{tmp_path / 'text.zip'}", model)
    with pytest.raises(InputError, match="There is no checkpoint"):
        start(f"sb3:{tmp_path / 'missing.zip'}", model)
    with pytest.raises(InputError, match="no option 'policy'"):
        find_init("sb3:model.zip,policy=red")
    make_model("ppo", VECTOR, CHOICE, policy_kwargs={"features_extractor_class": Halved}).save(tmp_path / "own.zip")
    with pytest.raises(InputError, match=r"features_extractor_class.*cannot start from it") as error:
        start(f"sb3:{tmp_path / 'own.zip'}", model)
    assert "--trust" not in str(error.value)


def test_a_hostile_optimizer_is_refused(tmp_path: Path) -> None:
    learned("ppo", tmp_path / "model.zip")
    state = {"state": {0: {"exp_avg": torch.full((64, 5), torch.nan)}}, "param_groups": []}
    for number, (broken, text) in enumerate(
        [
            (state, "not finite"),
            ({"state": {0: {"exp_avg": torch.zeros(3)}}}, r"has the shape \(3,\)"),
            ({"state": {99: {"exp_avg": torch.zeros(3)}}}, "has a parameter 99"),
            ({"param_groups": []}, "not the state of an optimizer"),
        ]
    ):
        path = tmp_path / f"model{number}.zip"
        with zipfile.ZipFile(tmp_path / "model.zip") as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                if name != "policy.optimizer.pth":
                    new.writestr(name, old.read(name))
            with new.open("policy.optimizer.pth", "w") as member:
                torch.save(broken, member)
        with pytest.raises((InputError, NotFiniteError), match=text):
            start(f"sb3:{path},optimizer=true", make_model("ppo", VECTOR, CHOICE))


def normalized_model(folder: Path) -> VecNormalize:
    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=1,
                policy_kwargs={"net_arch": [8]})  # fmt: skip
    model.learn(16)
    model.save(folder / "model.zip")
    env.save(str(folder / "vecnormalize.pkl"))
    return env


def test_moments_come_with_the_networks(tmp_path: Path) -> None:
    saved = normalized_model(tmp_path)
    here = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    model = PPO("MlpPolicy", here, device="cpu", policy_kwargs={"net_arch": [8]})
    with pytest.raises(InputError, match="set normalize_observations to true"):
        start(f"sb3:{tmp_path / 'model.zip'}", model)
    start(f"sb3:{tmp_path / 'model.zip'}", model, here, normalizes=True)
    assert np.array_equal(here.obs_rms.mean, saved.obs_rms.mean)
    assert here.obs_rms.count == saved.obs_rms.count


@pytest.mark.slow
def test_a_run_starts_from_a_zip_of_a_script(tmp_path: Path) -> None:
    saved = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=5, policy_kwargs={"net_arch": [8]})
    saved.save(tmp_path / "model.zip")
    params = {**SMALL, "learning_rate": 1e-12}
    training = {"worker": "sb3", "algorithm": "ppo", "params": params, "preset": False, "total_timesteps": 128}
    training["init"] = f"checkpoint:{tmp_path / 'model.zip'}"
    run = trained(tmp_path, CARTPOLE, "ppo", params, 128, training=training)
    made = PPO.load(next(run.checkpoints()[-1].path.glob("*.zip")), device="cpu")
    for name, tensor in saved.policy.state_dict().items():
        assert torch.allclose(tensor, made.policy.state_dict()[name], atol=1e-6), name
