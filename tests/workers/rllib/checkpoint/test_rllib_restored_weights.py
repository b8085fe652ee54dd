"""Env runners of a resumed run act with the learner's weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from mosaic.workers.rllib.checkpoint.state import _take_weights
from mosaic.workers.rllib.config.build import configure
from tests.workers.rllib.rllib_setups import make_setup


def test_a_runner_takes_restored_weights_whatever_it_had(tmp_path: Path):
    runner = SingleAgentEnvRunner(config=configure(make_setup(tmp_path, "gym/CartPole-v1")), worker_index=0)
    runner._weights_seq_no = 10**6  # it would ignore any that are numbered lower
    other = {name: values + 1 for name, values in RLModuleSpec.from_module(runner.module).build().get_state().items()}
    _take_weights(runner, {"default_policy": other})
    taken = runner.module.get_state()
    assert taken
    assert all(np.array_equal(values, other[name]) for name, values in taken.items())
