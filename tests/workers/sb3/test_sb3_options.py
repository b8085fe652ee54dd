"""Options are the arguments of the constructors that are installed, and every one of them reaches the model."""

from inspect import signature
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from pydantic import ValidationError
from stable_baselines3.common.vec_env import DummyVecEnv

from mosaic.core.errors import InputError
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.sb3.config.algorithms import ALGORITHMS
from mosaic.workers.sb3.config.build import constructor_arguments, make_idle_model, make_model
from mosaic.workers.sb3.config.options import Sb3Options, options_of

SEEN = spaces.Box(-1, 1, (4,), np.float32)
BY_MOSAIC = {"policy", "env", "policy_kwargs", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model"}
BY_ALGORITHM = {"observation_space", "action_space", "lr_schedule", "use_sde", "features_extractor_class"}

# A value of every option that is not its default.
OTHER = {
    "learning_rate": 0.005,
    "n_steps": 3,
    "batch_size": 12,
    "n_epochs": 3,
    "gamma": 0.9,
    "gae_lambda": 0.7,
    "clip_range": 0.3,
    "clip_range_vf": 0.4,
    "vf_coef": 0.25,
    "ent_coef": 0.125,
    "max_grad_norm": 0.75,
    "use_sde": True,
    "sde_sample_freq": 4,
    "use_sde_at_warmup": True,
    "rollout_buffer_class": "python:stable_baselines3.common.buffers:RolloutBuffer",
    "rollout_buffer_kwargs": {"gamma": 0.9},
    "replay_buffer_class": "python:stable_baselines3.common.buffers:ReplayBuffer",
    "replay_buffer_kwargs": {"handle_timeout_termination": False},
    "target_kl": 0.03,
    "stats_window_size": 7,
    "rms_prop_eps": 1e-4,
    "use_rms_prop": False,
    "buffer_size": 50,
    "learning_starts": 11,
    "tau": 0.5,
    "train_freq": 5,
    "gradient_steps": 2,
    "action_noise": "normal_0.25",
    "optimize_memory_usage": True,
    "target_update_interval": 6,
    "exploration_fraction": 0.3,
    "exploration_initial_eps": 0.8,
    "exploration_final_eps": 0.2,
    "target_entropy": -2.0,
    "policy_delay": 4,
    "target_policy_noise": 0.1,
    "target_noise_clip": 0.3,
    "top_quantiles_to_drop_per_net": 1,
    "net_arch": [9, 8],
    "activation_fn": "ELU",
    "ortho_init": False,
    "log_std_init": -1.0,
    "full_std": False,
    "use_expln": True,
    "squash_output": True,
    "features_extractor_kwargs": {},
    "share_features_extractor": None,  # the other one of two
    "normalize_images": False,
    "optimizer_class": "AdamW",
    "optimizer_kwargs": {"weight_decay": 0.5},
    "n_critics": 3,
    "clip_mean": 1.5,
    "n_quantiles": 13,
    "lstm_hidden_size": 10,
    "n_lstm_layers": 2,
    "shared_lstm": True,
    "enable_critic_lstm": False,
    "lstm_kwargs": {"bias": False},
    "batch_norm": False,
    "batch_norm_momentum": 0.2,
    "batch_norm_eps": 0.01,
    "renorm_warmup_steps": 5,
    "normalize_advantage": None,
}
TOGETHER = {"shared_lstm": {"enable_critic_lstm": False}, "squash_output": {"use_sde": True}}
REQUIRED = {"optimize_memory_usage": {"replay_buffer_kwargs": {"handle_timeout_termination": False}}}


class Nothing(gym.Env[Any, Any]):
    observation_space = SEEN

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space


def own(algorithm: str) -> list[str]:
    return [name for name in options_of(algorithm).model_fields if name not in Sb3Options.model_fields]


def actions(algorithm: str) -> spaces.Space[object]:
    return spaces.Discrete(3) if "box" not in ALGORITHMS[algorithm].actions else spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_fields_are_the_arguments_with_their_defaults(algorithm: str) -> None:
    kind, model = ALGORITHMS[algorithm].load(), options_of(algorithm)
    policy = next(iter(kind.policy_aliases.values()))
    arguments = {name: one for name, one in signature(kind).parameters.items() if name not in BY_MOSAIC}
    network = {name: one for name, one in signature(policy).parameters.items() if name not in BY_ALGORITHM}
    assert set(own(algorithm)) == arguments.keys() | network.keys()
    for name, argument in (arguments | network).items():
        default = model.model_fields[name].default
        if isinstance(argument.default, type):
            assert default in (None, argument.default.__name__)
        else:
            assert default == argument.default, name
    assert all(model.model_fields[name].description for name in model.model_fields)


def read_back(model, name):
    """Return an option's value from where SB3 keeps it."""
    policy = model.policy_kwargs
    match name:
        case "learning_rate":
            return model.lr_schedule(1.0)
        case "clip_range" | "clip_range_vf":
            return getattr(model, name)(1.0)
        case "stats_window_size":
            return model._stats_window_size
        case "train_freq":
            return model.train_freq.frequency
        case "action_noise":
            return f"normal_{model.action_noise._sigma[0]:g}"
        case "rms_prop_eps":
            return policy["optimizer_kwargs"]["eps"]
        case "use_rms_prop":
            return policy.get("optimizer_class") is torch.optim.RMSprop
        case "rollout_buffer_class" | "replay_buffer_class":
            return f"python:{getattr(model, name).__module__}:{getattr(model, name).__name__}"
        case "activation_fn" | "optimizer_class":
            return policy[name].__name__
    return policy[name] if name in policy and name != "use_sde" else getattr(model, name)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_option_reaches_the_model(algorithm: str) -> None:
    model = options_of(algorithm)
    for name in own(algorithm):
        default = model.model_fields[name].default
        value = not default if OTHER[name] is None else OTHER[name]
        assert value != default, name
        asked = {name: value, **TOGETHER.get(name, {}), **REQUIRED.get(name, {})}
        if name == "rollout_buffer_class" and algorithm == "maskable_ppo":
            value = asked[name] = "python:sb3_contrib.common.maskable.buffers:MaskableRolloutBuffer"
        if name == "optimizer_kwargs" and algorithm in ("a2c", "qrdqn"):
            asked["optimizer_class"] = "AdamW"
        if name == "rollout_buffer_kwargs":
            arguments = constructor_arguments(algorithm, model.model_validate(asked), actions(algorithm))
            assert arguments[name] == value  # SB3 passes gamma itself too, and would refuse it twice
            continue
        env = DummyVecEnv([lambda: Nothing(actions(algorithm))] * 2)
        made = make_model(algorithm, model.model_validate(asked), env, "agent", SEEN, seed=0)
        assert read_back(made, name) == value, name


def test_schedules_fall_from_the_default_or_from_a_number() -> None:
    options = options_of("ppo").model_validate({"learning_rate": "linear", "clip_range": "linear_0.4"})
    model = make_idle_model("ppo", options, "agent", (SEEN, actions("ppo")))
    assert [model.lr_schedule(left) for left in (1.0, 0.5, 0.0)] == pytest.approx([3e-4, 1.5e-4, 0.0])
    assert [model.clip_range(left) for left in (1.0, 0.5)] == pytest.approx([0.4, 0.2])
    with pytest.raises(InputError, match=r"clip_range_vf: 'linear' needs a number here, such as linear_0.2"):
        constructor_arguments("ppo", options_of("ppo").model_validate({"clip_range_vf": "linear"}), actions("ppo"))


def test_train_freq_in_episodes_and_noise_with_a_memory() -> None:
    asked = {"train_freq": [2, "episode"], "action_noise": "ornstein-uhlenbeck_0.5"}
    model = make_idle_model("td3", options_of("td3").model_validate(asked), "agent", (SEEN, actions("td3")))
    assert (model.train_freq.frequency, model.train_freq.unit.value) == (2, "episode")
    assert "sigma=[0.5 0.5]" in repr(model.action_noise)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_step": 5}, "there is no option 'n_step'. Did you mean 'n_steps'?"),
        ({"learning_rate": "cosine"}, "it should be a number, 'linear' or 'linear_NUMBER', such as linear_0.001"),
        ({"learning_rate": "linear_x"}, "learning_rate"),
        ({"learning_rate": -1}, "it should be more than 0"),
        ({"gamma": 1.5}, "gamma: it should be at most 1"),
        ({"net_arch": {"actor": [4]}}, "its parts should be pi, vf or qf, not 'actor'"),
        ({"net_arch": [0]}, "at most 16 widths of 1 to 65536"),
        ({"activation_fn": "Tan"}, "Did you mean 'Tanh'?"),
        ({"rollout_buffer_class": "mine"}, "it should be python:MODULE:CLASS"),
        ({"seed": 3}, "there is no option 'seed'"),
    ],
)
def test_wrong_options_are_refused(params: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_params(load_worker("sb3"), "ppo", params)
    assert text in str(caught.value)


@pytest.mark.parametrize("noise", ["gaussian_0.1", "normal", "normal_-1", 0.1])
def test_noise_is_a_kind_and_a_deviation(noise: object) -> None:
    with pytest.raises(ValidationError):
        options_of("sac").model_validate({"action_noise": noise})
