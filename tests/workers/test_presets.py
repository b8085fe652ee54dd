"""Tuned options: every file is whole, fits its worker and its env, and says what backs it."""

from __future__ import annotations

import pytest

from mosaic.config.run import RunConfig
from mosaic.core.plugins import plugins
from mosaic.envs.catalog import make_env
from mosaic.workers.presets import Preset, find_preset, presets, with_preset
from mosaic.workers.registry import load_worker, parse_params, resolve


def config(env_id, **training):
    return RunConfig.model_validate({"environment": {"env_id": env_id}, "training": training})


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.env)
def test_a_preset_fits_its_worker_and_env_and_says_what_backs_it(preset: Preset):
    assert preset.worker in plugins("mosaic.workers")
    parse_params(load_worker(preset.worker), preset.algorithm, preset.params)
    make_env(config(preset.env).environment).close()
    assert preset.env.split("/")[1].split("_v")[0].split("-v")[0] in preset.backing.command
    assert any(character.isdigit() for character in preset.backing.result), "a result is a number"


def test_one_preset_for_each_env_and_algorithm():
    names = [(preset.env, preset.worker, preset.algorithm) for preset in presets()]
    assert len(set(names)) == len(names) >= 7


def test_what_is_said_counts_more_than_a_preset():
    preset = find_preset("gym/CartPole-v1", "native", "ppo")
    assert preset is not None
    chosen = resolve(config("gym/CartPole-v1", params={"n_epochs": 3}, total_timesteps=77))
    assert chosen.training.params == {**preset.params, "n_epochs": 3}
    assert chosen.training.total_timesteps == 77
    assert chosen.environment.num_envs == preset.num_envs


def test_a_preset_can_be_left_out():
    plain = config("gym/CartPole-v1", preset=False)
    assert with_preset(plain, "native", "ppo") == plain
    assert resolve(plain).training.params == {}


def test_other_versions_and_algorithms():
    assert find_preset("gym/CartPole-v0", "native", "ppo") is find_preset("gym/CartPole-v1", "native", "ppo")
    assert find_preset("gym/CartPole-v1", "native", "dqn") is None
    assert find_preset("gym/CartPole-v1", "tabular", "ppo") is None
