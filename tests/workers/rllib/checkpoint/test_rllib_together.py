"""Policies of RLlib decide for several episodes at once what they decide for each alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mosaic.core.turn import Turn
from mosaic.policies.controller import PolicyRequest, Sampling
from mosaic.workers.rllib.checkpoint.controllers import load_policy
from tests.policies.together import check_together
from tests.workers.rllib.checkpoint.test_rllib_policy_files import exported


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param("ppo lstm shared layers", marks=pytest.mark.chosen),
        "ppo linear",
        "dqn atoms",
        pytest.param("ppo box", marks=pytest.mark.chosen),
        "sac box, mixed activations",
    ],
)
def test_episodes_are_decided_together_as_alone(case: str, tmp_path: Path):
    setup, _ = exported(tmp_path, case)
    policy, agents = next(iter(setup.policy_of.values())), tuple(setup.policy_of)
    draw, turns = np.random.default_rng(0), []
    for _ in range(24):
        acting = agents[: draw.integers(1, len(agents) + 1)]
        seen = {agent: setup.spec.observation_spaces[agent].sample() for agent in acting}
        turns.append(Turn(seen, {}, {}, {}, {}, {}, {}))
    for sampling in (None, Sampling(0.7)):
        request = PolicyRequest("tested", setup.spec, agents, sampling=sampling)
        check_together(load_policy(tmp_path, policy, request), agents, turns)
