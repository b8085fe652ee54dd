"""Mosaic's learner as the rows measure it: one thread by default, and not inside a run."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from ppo_rows.measure import Outcome, timed

from mosaic.config.loading import parse_run_config
from mosaic.learners.base import Learner
from mosaic.learners.ppo import build as assembly
from mosaic.learners.ppo import hardware as equipment
from mosaic.learners.ppo.options import A2cOptions, PpoOptions

EPISODES = 100  # as many as SB3's mean is over

_OPTIONS: dict[str, type[PpoOptions]] = {"ppo": PpoOptions, "a2c": A2cOptions}


def make_learner(
    env_id: str,
    envs: int,
    total: int,
    seed: int,
    params: dict[str, Any],
    *,
    algorithm: str = "ppo",
    policies: str = "parameter_sharing",
    python_envs: bool = False,
    threads: int = 1,
) -> Learner:
    """Create a learner; `python_envs` ignores the compiled twin, as if the env had none."""
    config = parse_run_config(
        {
            "seed": seed,
            "environment": {"env_id": env_id, "num_envs": envs},
            "policy_configuration": policies,
            "training": {
                "worker": "native", "algorithm": algorithm, "total_timesteps": total, "preset": False,
                "params": {"shared_actor": params.get("shared_actor", False)},
            },
        }
    )  # fmt: skip
    options = _OPTIONS[algorithm](**params, threads=threads)
    if not python_envs:
        return assembly.assemble(config, options).learner
    with patch.object(equipment, "is_compiled", lambda environment: False):
        return assembly.assemble(config, options).learner


def train(learner: Learner, steps: int, goal: float | None = None) -> Outcome:
    """Train until the mean of the last 100 episodes reaches the goal, or for `steps` more env steps."""
    began, reached = learner.env_steps, float("nan")
    with timed() as clock:
        while learner.env_steps - began < steps:
            learner.iterate()
            if goal is not None:
                progress = learner.progress()
                reached = progress.return_mean or 0.0
                if progress.episodes >= EPISODES and reached >= goal:
                    break
    if goal is None:
        reached = learner.progress().return_mean or float("nan")
    return Outcome(learner.env_steps - began, clock.wall_s, clock.cpu_s, reached)
