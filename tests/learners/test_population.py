"""Learners side by side in one process are exactly what they would be alone."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from mosaic.config.run import RunConfig
from mosaic.learners.assembly import assemble
from mosaic.learners.population import Population
from mosaic.learners.ppo_options import PpoOptions


def make(seed: int):
    config = RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1", "num_envs": 4}, "seed": seed})
    return assemble(config, PpoOptions(n_steps=8, batch_size=16, n_epochs=2, hidden=(8,))).learner


def test_threads_change_nothing():
    with Population([make(seed) for seed in range(3)], threads=2) as population:
        population.advance(2_000)
        together = [learner.weights(0) for learner in population.learners]
        assert all(learner.env_steps >= 2_000 for learner in population.learners)
        assert population.best() in (0, 1, 2)
    for seed, weights in enumerate(together):
        with closing(make(seed)) as alone:
            while alone.env_steps < 2_000:
                alone.iterate()
            np.testing.assert_array_equal(alone.weights(0), weights)
    assert not np.array_equal(together[0], together[1])
