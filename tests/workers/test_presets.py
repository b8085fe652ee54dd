"""Tuned options: every file is whole, fits its worker and its env, and says what backs it."""

from __future__ import annotations

import pytest

from mosaic.config.run import RunConfig
from mosaic.core.plugins import plugins
from mosaic.envs.catalog import make_env
from mosaic.learners.ppo.options import PpoOptions
from mosaic.workers.presets import Preset, find_preset, presets, with_preset
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.resolution import resolve


def config(env_id, **training):
    return RunConfig.model_validate({"environment": {"env_id": env_id}, "training": training})


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: f"{preset.env} {preset.worker} {preset.algorithm}")
def test_a_preset_fits_its_worker_and_env_and_says_what_backs_it(preset: Preset):
    assert preset.worker in plugins("mosaic.workers")
    parse_params(load_worker(preset.worker), preset.algorithm, preset.params)
    make_env(config(preset.env).environment).close()
    assert preset.env.split("/")[1].split("_v")[0].split("-v")[0] in preset.backing.command
    assert any(character.isdigit() for character in preset.backing.result), "a result is a number"


def test_one_preset_for_each_env_and_algorithm():
    names = [(preset.env, preset.worker, preset.algorithm) for preset in presets()]
    assert len(set(names)) == len(names) >= 7


@pytest.mark.parametrize(
    "robot", ["HalfCheetah", "Hopper", "InvertedPendulum", "InvertedDoublePendulum", "Reacher", "Walker2d"]
)
def test_robots_have_presets_that_normalise(robot):
    preset = find_preset(f"gym/{robot}-v5", "native", "ppo")
    assert preset is not None
    assert preset.params["normalize_observations"]
    assert preset.params["normalize_rewards"]


def test_what_is_said_counts_more_than_a_preset():
    preset = find_preset("gym/CartPole-v1", "native", "ppo")
    assert preset is not None
    chosen = resolve(config("gym/CartPole-v1", params={"n_epochs": 3}, total_timesteps=77)).config
    assert chosen.training.params.items() >= {**preset.params, "n_epochs": 3}.items()
    assert chosen.training.total_timesteps == 77
    assert chosen.environment.num_envs == preset.num_envs


def test_a_preset_can_be_left_out():
    plain = config("gym/CartPole-v1", preset=False)
    assert with_preset(plain, "native", "ppo") == plain
    assert resolve(plain).config.training.params["learning_rate"] == PpoOptions().learning_rate


def test_other_versions_and_algorithms():
    assert find_preset("gym/CartPole-v0", "native", "ppo") is find_preset("gym/CartPole-v1", "native", "ppo")
    assert find_preset("gym/CartPole-v1", "native", "a2c") is None
    assert find_preset("gym/CartPole-v1", "tabular", "ppo") is None


def test_sb3_has_presets_of_its_own_and_its_defaults_elsewhere():
    chosen = resolve(config("gym/CartPole-v1", worker="sb3")).config
    assert (chosen.training.params["n_steps"], chosen.environment.num_envs) == (32, 8)
    assert resolve(config("gym/Pendulum-v1", worker="sb3", algorithm="sac")).config.training.total_timesteps == 10_000
    own = resolve(config("gym/Acrobot-v1", worker="sb3")).config
    assert (own.training.params["n_steps"], own.environment.num_envs) == (2048, 1)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "dqn"])
def test_a_wrapper_does_not_change_the_batch(algorithm):
    """Compiled, stepped by Python because of a wrapper, or never compiled: one default for each algorithm."""
    batches = set()
    for env_id, wrappers in (
        ("gym/CartPole-v1", ()),
        ("gym/CartPole-v1", ("time_limit:max_steps=100", "clip_reward:low=-1,high=1")),
        ("mosaic/recall", ()),
    ):
        document = {
            "environment": {"env_id": env_id, "wrappers": wrappers},
            "training": {"worker": "native", "algorithm": algorithm, "preset": False},
        }
        resolved = resolve(RunConfig.model_validate(document)).config
        params = resolved.training.params
        batches.add((resolved.environment.num_envs, params.get("n_steps"), params["batch_size"], params.get("threads")))
    assert len(batches) == 1


@pytest.mark.parametrize(
    ("worker", "algorithm"),
    [
        (name, algorithm)
        for name in ("native", "tabular", "rllib", "sb3")
        for algorithm in load_worker(name).info.algorithms
        if algorithm not in ("bc", "dagger", "marwil", "cql", "iql")
    ],  # they need a dataset, or an expert
)
def test_a_resolved_configuration_leaves_nothing_to_choose(worker, algorithm):
    env_id = "gym/MountainCarContinuous-v0" if algorithm in ("sac", "tqc", "td3", "crossq") else "gym/FrozenLake-v1"
    env_id = "classic/tictactoe_v3" if algorithm == "alphazero" else env_id
    chosen = resolve(config(env_id, worker=worker, algorithm=algorithm)).config
    options = load_worker(worker).options(algorithm)
    assert set(chosen.training.params) == set(options.model_fields)
    assert chosen.training.total_timesteps is not None
    assert resolve(chosen).config == chosen
