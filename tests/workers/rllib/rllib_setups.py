"""Setups of RLlib runs that are as small as a run can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.learners.agent_roles import read_agent_roles
from mosaic.workers.curriculum import begin_curriculum
from mosaic.workers.policy_settings import read_policy_options
from mosaic.workers.registry import load_worker
from mosaic.workers.rllib.config.options import OPTIONS
from mosaic.workers.rllib.config.resources import Placement
from mosaic.workers.rllib.config.setup import RllibSetup

SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"train_batch_size_per_learner": 100, "minibatch_size": 50, "num_epochs": 2, "lr": 1e-3},
    "a2c": {"train_batch_size_per_learner": 100, "min_sample_timesteps_per_iteration": 0},
    "appo": {
        "train_batch_size_per_learner": 50,
        "rollout_fragment_length": 25,
        "min_sample_timesteps_per_iteration": 0,
        "circular_buffer_num_batches": 1,
        "circular_buffer_iterations_per_batch": 1,
        "vf_share_layers": False,
    },
    "impala": {
        "train_batch_size_per_learner": 50,
        "rollout_fragment_length": 25,
        "min_sample_timesteps_per_iteration": 0,
        "vf_share_layers": False,
    },
    "dqn": {
        "train_batch_size_per_learner": 60,
        "num_steps_sampled_before_learning_starts": 60,
        "min_sample_timesteps_per_iteration": 100,
        "rollout_fragment_length": 4,
    },
    "sac": {
        "train_batch_size_per_learner": 16,
        "num_steps_sampled_before_learning_starts": 60,
        "min_sample_timesteps_per_iteration": 40,
        "rollout_fragment_length": 4,
    },
    "tqc": {
        "train_batch_size_per_learner": 16,
        "num_steps_sampled_before_learning_starts": 60,
        "min_sample_timesteps_per_iteration": 40,
        "rollout_fragment_length": 4,
        "n_quantiles": 5,
    },
    **{
        name: {"train_batch_size_per_learner": 64, "dataset_num_iters_per_learner": 5, "num_envs_per_env_runner": 1}
        for name in ("bc", "marwil", "cql", "iql")
    },
}


def make_setup(folder: Path, env: str, algorithm: str = "ppo", runners: int = 0, **said: Any) -> RllibSetup:
    """`said`: fields of the run; `params` are added to small ones, `policies` are those of training, `env_options` its
    env's.
    """
    params = {"fcnet_hiddens": [16], "num_envs_per_env_runner": 2, **SMALL[algorithm], **said.pop("params", {})}
    family, _, name = env.partition("/")
    config = RunConfig.model_validate(
        {
            "environment": {
                "family": family,
                "env_id": name,
                "options": said.pop("env_options", {}),
                "curriculum": said.pop("curriculum", ()),
            },
            "training": {"worker": "rllib", "algorithm": algorithm, "total_timesteps": 2000, "params": params}
            | {"policies": said.pop("policies", {})},
            "telemetry": {"frames": False},
            **said,
        }
    )
    made = make_env(config.environment)
    masked = bool(made.reset(0).action_masks)
    made.close()
    placement = Placement(runners, 1, 0.0, 0, 1, 0.0, 0)
    options = OPTIONS[algorithm].model_validate(params)
    roles = read_agent_roles(config, made.spec, honours_batches=True)
    curriculum = begin_curriculum(config.environment, None)
    own = read_policy_options(load_worker("rllib"), config, options, roles.plan)
    return RllibSetup(config, options, made.spec, masked, roles, placement, folder, curriculum=curriculum, own=own)
