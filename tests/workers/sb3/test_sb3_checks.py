"""Runs that Stable-Baselines3 could not train are refused before they are created, with what to type instead."""

from contextlib import closing
from dataclasses import replace

import gymnasium
import pytest
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.envs import shared_env
from mosaic.envs.shared_env import env_spec
from mosaic.learners.agent_roles import read_mapping
from mosaic.workers.resolution import resolve
from mosaic.workers.sb3.config import algorithms
from mosaic.workers.sb3.config.build import make_model
from mosaic.workers.sb3.config.checks import read_roles
from mosaic.workers.sb3.config.options import options_of
from tests.workers.hosting import run_config

SPREAD, TAG = {"env_id": "mpe/simple_spread_v3"}, {"env_id": "mpe/simple_tag_v3"}
GAME, PENDULUM = {"env_id": "classic/tictactoe_v3"}, {"env_id": "gym/Pendulum-v1"}
CARTPOLE = {"env_id": "gym/CartPole-v1"}


def resolved(environment, algorithm="ppo", params=None, **settings):
    training = {"algorithm": algorithm, "total_timesteps": 100, "preset": False, **settings.pop("training", {})}
    return resolve(run_config("sb3", params, environment=environment, training=training, **settings)).config


@pytest.mark.parametrize(
    ("environment", "algorithm", "params", "text"),
    [
        (CARTPOLE, "sac", {}, "sac acts in Box, and the action of 'agent_0' is Discrete(2). Use --algo ppo, a2c, dqn,"),
        (PENDULUM, "dqn", {}, "Use --algo ppo, a2c, sac, td3, recurrent_ppo, tqc or crossq."),
        (PENDULUM, "maskable_ppo", {}, "acts in Discrete, MultiDiscrete or MultiBinary, and the action of 'agent_0'"),
        (GAME, "ppo", {}, "Stable-Baselines3's ppo would play illegal ones. Use --algo maskable_ppo."),
        (TAG, "ppo", {}, "trains one policy in a run, and here it would be 2: adversary, agent."),
        (PENDULUM, "ppo", {"compiled_env": True, "normalize_rewards": True}, None),
        ({"env_id": "gym/LunarLander-v3"}, "ppo", {"compiled_env": True}, "has no compiled twin in which all agents"),
        ({**GAME, "num_envs": 3}, "maskable_ppo", {}, "num_envs must be a multiple of 2, not 3"),
        ({**PENDULUM, "num_envs": 2}, "sac", {"train_freq": [1, "episode"]}, "trains by episodes in one env alone"),
        (PENDULUM, "sac", {"optimize_memory_usage": True}, "refuses these options: ReplayBuffer does not support"),
        (PENDULUM, "tqc", {"top_quantiles_to_drop_per_net": 25}, "must be less than n_quantiles"),
        (CARTPOLE, "a2c", {"optimizer_kwargs": {"eps": 1e-3}}, "set optimizer_class too"),
        (SPREAD, "dqn", {"n_steps": 3}, "the replay buffer is SB3's own, of single steps"),
        (SPREAD, "ppo", {"normalize_observations": True}, "need one agent that learns"),
        (GAME, "maskable_ppo", {"normalize_observations": True}, "need one agent that learns"),
        (CARTPOLE, "ppo", {"net_arch": {"qf": [3]}}, None),
        (CARTPOLE, "ppos", {}, "There is no algorithm of the worker sb3 named 'ppos'. Did you mean 'ppo'?"),
    ],
)  # fmt: skip
def test_what_cannot_train_is_refused(environment, algorithm, params, text):
    if text is None:
        assert resolved(environment, algorithm, params)
        return
    with pytest.raises(InputError) as caught:
        resolved(environment, algorithm, params)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "settings", "text"),
    [
        (SPREAD, {"policy_configuration": "independent"}, "The worker sb3 has no policy configuration 'independent'."),
        (GAME, {"policy_configuration": "self_play"}, "It has: parameter_sharing."),
        (CARTPOLE, {"resources": {"num_env_runners": 2}, "environment": {"num_envs": 1}}, "there are 1 envs"),
        (CARTPOLE, {"resources": {"num_gpus": 1}}, "This torch finds no CUDA device. Use device=cpu"),
        (CARTPOLE, {"resources": {"num_gpus": 2}}, "learns on one GPU or none, and resources.num_gpus is 2."),
        (CARTPOLE, {"params": {"device": "cuda"}}, "This torch finds no CUDA device. Use device=cpu"),
        (CARTPOLE, {"params": {"device": "gpu"}}, "training.params of sb3 ppo: device"),
        (CARTPOLE, {"params": {"device": "cpu"}, "resources": {"num_gpus": 1}}, "Leave one of them out"),
        (CARTPOLE, {"resources": {"num_cpus": 2}}, "The worker sb3 cannot meet resources.num_cpus=2"),
        (CARTPOLE, {"resources": {"runtime": "ray"}}, "The worker sb3 cannot meet resources.runtime=ray"),
        (TAG, {"agents": {"agent_0": "human"}}, "A person cannot play agent_0 while a policy trains"),
        (CARTPOLE, {"training": {"policies": {"shared": {"gamma": 0.5}}}}, "all its policies have the same settings"),
    ],
)
def test_settings_that_it_does_not_honour_are_refused(environment, settings, text):
    settings = dict(settings)
    with pytest.raises(InputError) as caught:
        resolved({**environment, **settings.pop("environment", {})}, **settings)
    assert text in str(caught.value)


def test_what_is_left_open_is_filled_in():
    assert resolved(CARTPOLE).environment.num_envs == 1
    assert resolved(CARTPOLE, resources={"num_env_runners": 3}).environment.num_envs == 3
    assert resolved(GAME, "maskable_ppo").environment.num_envs == 2
    assert resolved(TAG, agents={"agent_0": "random"}).training.params["n_steps"] == 2048
    assert resolved(CARTPOLE, "PPO").training.algorithm == "ppo"


def test_the_default_algorithm_can_act_in_the_env():
    assert resolved(GAME, None).training.algorithm == "maskable_ppo"
    assert resolved(CARTPOLE, None).training.algorithm == "ppo"
    assert resolved(PENDULUM, None).training.algorithm == "ppo"
    with pytest.raises(InputError, match=r"training.params of sb3 maskable_ppo: .*use_sde"):
        resolved(GAME, None, {"use_sde": True})


def test_the_default_algorithm_costs_one_env_more(monkeypatch):
    made = []
    make = shared_env.make_env
    monkeypatch.setattr(shared_env, "make_env", lambda config: made.append(config) or make(config))
    for environment in (GAME, CARTPOLE):
        resolved(environment, None)
    assert len(made) == 4  # one that describes, one that is reset


@pytest.mark.parametrize(
    ("params", "gpus", "device"), [({}, 1, "cuda"), ({"device": "cuda:1"}, 0, "cuda:1"), ({}, 0, "cpu")]
)
def test_a_gpu_that_is_there_is_used_and_counted(monkeypatch, params, gpus, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = resolved(CARTPOLE, params=params, resources={"num_gpus": gpus})
    assert found.training.params["device"] == device
    assert found.resources.num_gpus == (device != "cpu")
    assert resolve(found).config == found
    with pytest.raises(InputError, match=r"no device named 'cuda:2'. Known: cpu, cuda:0, cuda:1"):
        resolved(CARTPOLE, params={"device": "cuda:2"})


def test_the_device_reaches_the_constructor():
    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
    options = options_of("ppo").model_validate({"device": "cuda", "n_steps": 8, "batch_size": 8})
    seen = {}

    class Recorded(PPO):
        def __init__(self, *args, device, **kwargs):
            seen["device"] = device
            super().__init__(*args, device="cpu", **kwargs)

    with closing(env), pytest.MonkeyPatch.context() as patch:
        patch.setattr(stable_baselines3, "PPO", Recorded)
        make_model("ppo", options, env, "agent_0", env.observation_space, seed=0)
    assert seen == {"device": "cuda"}


def test_a_missing_extra_is_named_with_the_line_to_type(monkeypatch):
    monkeypatch.setattr(algorithms, "find_spec", lambda name: None if name == "sb3_contrib" else object())
    with pytest.raises(MissingExtraError, match=r'needs sb3-contrib. Type: pip install "mosaic-rl\[sb3\]"'):
        resolved(CARTPOLE)


def test_agents_share_one_policy_whatever_names_the_env_declares():
    config = run_config("sb3", environment=SPREAD)
    spec = env_spec(config.environment)
    named = replace(spec, facts=replace(spec.facts, policy_names={agent: agent for agent in spec.possible_agents}))
    assert read_mapping(config, named).plan.names == ("agent_0", "agent_1", "agent_2")
    assert read_roles(config, named).plan.names == ("shared",)
