"""Files of exported RLlib policies: what is in them, what is refused, and what plays from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from safetensors import safe_open
from safetensors.numpy import save_file

from mosaic.core.errors import FormatError, InputError, MosaicError, UnknownNameError
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.policies.network import NetworkPolicyController
from mosaic.workers.rllib.checkpoint.controllers import FACTS, load_policy
from mosaic.workers.rllib.checkpoint.export import exploration_rate, export_modules, policy_files
from mosaic.workers.rllib.checkpoint.module_controller import ModulePolicyController
from mosaic.workers.rllib.config.setup import RllibSetup
from tests.workers.rllib.checkpoint.test_rllib_play import export_new, runner_of, setup_of


def test_the_exploration_rate_follows_its_schedule():
    assert exploration_rate(((0, 1.0), (10_000, 0.05)), 5_000) == pytest.approx(0.525)
    assert exploration_rate(((0, 1.0), (10_000, 0.05)), 50_000) == pytest.approx(0.05)
    assert exploration_rate(0.3, 10) == 0.3
    assert exploration_rate(None, 10) is None


def exported(folder: Path, case: str) -> tuple[RllibSetup, Callable[..., PolicyController]]:
    setup = setup_of(folder, case)
    runner = runner_of(setup)
    export_new(folder, setup, runner)
    runner.stop()

    def load(policy: str = "shared", *agents: str) -> PolicyController:
        return load_policy(folder, policy, PolicyRequest("tested", setup.spec, agents or setup.roles.learners))

    return setup, load


def test_values_of_a_dense_policy_are_those_of_its_critic(tmp_path: Path):
    setup = setup_of(tmp_path, "ppo")
    runner = runner_of(setup)
    whole = RLModuleSpec.from_module(runner.module)
    whole.inference_only = False
    module = whole.build()
    export_modules(
        tmp_path, setup, {"default_policy": module}, {"default_policy": module.get_state()}, runner._env_to_module
    )
    runner.stop()
    player = load_policy(tmp_path, "shared", PolicyRequest("tested", setup.spec, ("agent_0",)))
    assert isinstance(player, NetworkPolicyController)
    turn = make_env("gym/CartPole-v1").reset(0)
    value = player.explain(turn)["agent_0"].value
    batch = {"obs": torch.from_numpy(turn.observations["agent_0"][np.newaxis])}
    assert value == pytest.approx(float(module.compute_values(batch).detach()), abs=1e-5)


def test_a_policy_remembers_until_the_episode_ends(tmp_path: Path):
    _, load = exported(tmp_path, "ppo lstm shared layers")
    player = load()
    assert isinstance(player, ModulePolicyController)
    turn = make_env("gym/CartPole-v1").reset(0)
    player.begin(("agent_0",), 0)
    player.act(turn)
    fresh = dict(player._memory)
    player.act(turn)
    assert any(bool((player._memory["agent_0"][part] != fresh["agent_0"][part]).any()) for part in ("h", "c"))
    player.forget("agent_0")
    player.act(turn)
    assert all(bool((player._memory["agent_0"][part] == fresh["agent_0"][part]).all()) for part in ("h", "c"))


def test_a_filter_knows_its_agents(tmp_path: Path):
    _, load = exported(tmp_path, "ppo filter")
    with pytest.raises(InputError, match=r"'agent_9' has none\. It can play: agent_0, agent_1, agent_2\."):
        load("shared", "agent_9")


def test_the_files_of_a_policy_are_those_that_were_written(tmp_path: Path):
    setup, load = exported(tmp_path, "ppo independent, masked")
    assert {path.name for path in tmp_path.iterdir()} == {
        name for policy in setup.modules for name in policy_files(setup, policy)
    }
    with pytest.raises(UnknownNameError, match=r"There is no policy named 'player_3'\. Did you mean 'player_"):
        load("player_3")


def test_another_document_is_not_taken_for_ours(tmp_path: Path):
    _, load = exported(tmp_path, "ppo played")
    (tmp_path / FACTS).write_text(json.dumps({"format": "other"}))
    with pytest.raises(FormatError, match=r"does not say what RLlib's policies are \(mosaic-rllib-1\)"):
        load()


@pytest.mark.parametrize("case", ["ppo", "ppo lstm shared layers"], ids=["dense", "module"])
def test_weights_that_are_not_finite_are_refused(case: str, tmp_path: Path):
    _, load = exported(tmp_path, case)
    (path,) = tmp_path.glob("*.safetensors")
    with safe_open(path, "numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    weights = max(arrays.values(), key=np.size)
    weights.flat[0] = np.nan
    save_file(arrays, path, metadata)
    with pytest.raises(MosaicError, match=r"are not finite: 1 of"):
        load()
