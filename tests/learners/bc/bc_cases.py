"""Recorded trajectories with a known rule, and learners that clone them."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from gymnasium import spaces

from mosaic.config.run import RunConfig
from mosaic.learners.bc.build import assemble_bc, assemble_dagger
from mosaic.learners.bc.options import BcOptions, DaggerOptions
from mosaic.runners.trajectories import Trajectory

CARTPOLE, PENDULUM, TICTACTOE = "gym/CartPole-v1", "gym/Pendulum-v1", "classic/tictactoe_v3"


def trajectory(observations, actions, observation_space, action_space, **settings):
    steps = len(actions)
    given = {
        "agent": "agent_0",
        "rewards": np.ones(steps),
        "masks": None,
        "terminated": True,
        "truncated": False,
        "controllers": ("human",) * steps,
        "env_steps": np.arange(steps),
        **settings,
    }
    return Trajectory(
        observation_space=observation_space,
        action_space=action_space,
        observations=observations,
        actions=actions,
        **given,
    )


def cartpoles(episodes=20, steps=30, controllers=None):
    """Push the cart to where the pole leans."""
    random, box = np.random.default_rng(0), spaces.Box(*_CARTPOLE_BOUNDS)
    found = []
    for number in range(episodes):
        seen = random.uniform(-1, 1, (steps + 1, 4)).astype(np.float32)
        settings = {} if controllers is None else {"controllers": controllers}
        found.append(
            (number, trajectory(seen, (seen[:-1, 2] > 0).astype(np.int64), box, spaces.Discrete(2), **settings))
        )
    return found


_MOST = np.finfo(np.float32).max
_HIGH = np.array([4.8, np.inf, 0.41887903, np.inf], np.float32)
_CARTPOLE_BOUNDS = (-_HIGH, _HIGH)


def pendulums(episodes=20, steps=30):
    """Torque -2 times the sine of the angle."""
    random, high = np.random.default_rng(0), np.array([1, 1, 8], np.float32)
    found = []
    for number in range(episodes):
        angle = random.uniform(-np.pi, np.pi, steps + 1)
        seen = np.stack([np.cos(angle), np.sin(angle), random.uniform(-8, 8, steps + 1)], 1).astype(np.float32)
        torque = (-2 * seen[:-1, 1:2]).astype(np.float32)
        found.append((number, trajectory(seen, torque, spaces.Box(-high, high), spaces.Box(-2.0, 2.0, (1,)))))
    return found


def run_config(env_id, total=20_000, seed=0, algorithm="bc", **settings):
    training = {"worker": "native", "algorithm": algorithm, "total_timesteps": total}
    return RunConfig.model_validate(
        {
            "environment": {"env_id": env_id},
            "training": training,
            "seed": seed,
            "policy_configuration": "parameter_sharing",
            **settings,
        }
    )


@contextmanager
def cloner(env_id, recorded, total=20_000, seed=0, **options):
    given = {"dataset": "demo:test", "hidden": (16,), "learning_rate": 1e-2, "batch_size": 64, **options}
    made = assemble_bc(run_config(env_id, total, seed), BcOptions.model_validate(given), recorded)
    try:
        yield made.learner
    finally:
        made.learner.close()


@contextmanager
def pupil(expert, env_id=TICTACTOE, total=20_000, seed=0, recorded=(), config=None, follow=None, **options):
    given = {"expert": expert, "hidden": (16,), "learning_rate": 1e-2, "rollout_steps": 60, **options}
    asked = run_config(env_id, total, seed, "dagger", **(config or {}))
    made = assemble_dagger(asked, DaggerOptions.model_validate(given), recorded, follow)
    try:
        yield made.learner
    finally:
        made.learner.close()


def train(learner, until):
    while learner.env_steps < until:
        learner.iterate()
    return learner.progress().losses[0]
