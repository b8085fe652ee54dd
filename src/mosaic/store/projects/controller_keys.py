"""Settings of the Godot RL controller's files, each with its place in a preset or the reason why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Left(NamedTuple):
    """Reason why a setting is not taken over."""

    why: str


Target = str | Left  # dotted name of a run's setting, or of an export's
IN_PARAMS: Final = "training.params."

GAME: Final = "game"  # the project's own setting
_NOT_THIS_NETWORK = Left("the network that it describes is not the chosen one")
_NO_SUCH_NETWORK = Left("Mosaic has no such network; write one and name it: see docs/rllib.md")
_ONE_LIMIT = Left("the chosen way of stopping does not use it")

TRAINING: Final[Mapping[str, Target]] = {  # of training_config.json, for every preset
    "env_path": GAME,
    "experiment_name": "tags",
    "seed": "seed",
    "speedup": "environment.options.speedup",
    "action_repeat": "environment.options.action_repeat",
    "show_window": "environment.options.show_window",
    "viz": "environment.options.show_window",
    "n_parallel": "environment.num_envs",
}

SB3: Final[Mapping[str, Target]] = {  # after the prefix sb3_, or without it
    "total_timesteps": "training.total_timesteps",  # RLlib has limits of its own
    "timesteps": "training.total_timesteps",
    "viz": "environment.options.show_window",
    "speedup": "environment.options.speedup",
    "n_parallel": "environment.num_envs",
    "policy_layers": f"{IN_PARAMS}net_arch",
    "cnn_channels": _NOT_THIS_NETWORK,
    "grn_hidden_size": _NOT_THIS_NETWORK,
    "lstm_hidden_size": f"{IN_PARAMS}lstm_hidden_size",
    "lstm_num_layers": f"{IN_PARAMS}n_lstm_layers",
    **{
        name: IN_PARAMS + name
        for name in (
            *("learning_rate", "batch_size", "n_steps", "n_epochs", "gamma", "gae_lambda", "ent_coef", "clip_range"),
            *("vf_coef", "max_grad_norm", "target_kl", "normalize_advantage", "use_sde"),
        )
    },
}
SB3_NETWORKS: Final[Mapping[str, str | Left]] = {  # policy type → algorithm
    "mlp": "ppo",
    "lstm": "recurrent_ppo",
    "cnn": Left("Mosaic's sb3 chooses a CNN for pictures by itself; vectors get an MLP"),
    "grn": _NO_SUCH_NETWORK,
}

RLLIB: Final[Mapping[str, Target]] = {  # after the prefix rllib_; in rllib_config.yaml, under `config`
    "env": Left("the game is the env"),
    "config_file": Left("rllib_config.yaml is read itself, where it exists"),
    "show_window": "environment.options.show_window",
    "env_action_repeat": "environment.options.action_repeat",
    "env_speedup": "environment.options.speedup",
    "num_workers": "resources.num_env_runners",
    "num_env_runners": "resources.num_env_runners",
    "num_gpus": "resources.num_gpus",
    "checkpoint_frequency": "checkpoint.every_iterations",
    "num_envs_per_worker": f"{IN_PARAMS}num_envs_per_env_runner",
    "num_envs_per_env_runner": f"{IN_PARAMS}num_envs_per_env_runner",
    "train_batch_size": f"{IN_PARAMS}train_batch_size_per_learner",
    "sgd_minibatch_size": f"{IN_PARAMS}minibatch_size",
    "num_sgd_iter": f"{IN_PARAMS}num_epochs",
    "lambda": f"{IN_PARAMS}lambda_",
    "activation": f"{IN_PARAMS}fcnet_activation",
    "lstm_num_layers": Left("RLlib's LSTM has one layer"),
    "lstm_include_prev_actions": Left("RLlib's new modules do not take earlier actions"),
    "cnn_channels": _NOT_THIS_NETWORK,
    "grn_hidden_size": _NOT_THIS_NETWORK,
    "resume_from": Left("checkpoints of other programs are named at the start: --init checkpoint:PATH"),
    "stop_time_seconds": _ONE_LIMIT,
    "stop_timesteps_total": _ONE_LIMIT,
    "stop_sustained_reward_enabled": Left("Mosaic stops when a mean reward is reached: --stop-reward R"),
    "stop_sustained_reward_threshold": Left("Mosaic stops when a mean reward is reached: --stop-reward R"),
    "stop_sustained_reward_window": Left("Mosaic stops when a mean reward is reached: --stop-reward R"),
    "stop_file_enabled": Left("runs are stopped by command: mosaic runs stop RUN"),
    "stop_file_path": Left("runs are stopped by command: mosaic runs stop RUN"),
    "multiagent": Left("the game declares its policies' names; change them with --agent NAME=POLICY"),
    **{
        name: IN_PARAMS + name
        for name in (
            *("lr", "gamma", "clip_param", "vf_clip_param", "entropy_coeff", "vf_loss_coeff", "grad_clip", "kl_coeff"),
            *("kl_target", "batch_mode", "rollout_fragment_length", "fcnet_hiddens", "fcnet_activation"),
            *("minibatch_size", "num_epochs", "lambda_", "vf_share_layers", "use_lstm", "lstm_cell_size"),
            *("max_seq_len", "train_batch_size_per_learner", "observation_filter"),
        )
    },
}  # fmt: skip
RLLIB_MODES: Final[Mapping[str, tuple[str, str]]] = {  # stop mode → the setting that holds its limit, and its place
    "time_seconds": ("stop_time_seconds", "resources.max_wall_s"),
    "timesteps": ("stop_timesteps_total", "training.total_timesteps"),
    "timesteps_total": ("stop_timesteps_total", "training.total_timesteps"),
}
RLLIB_ENV: Final[Mapping[str, Target]] = {  # of `env_config`
    "env_path": GAME,
    "action_repeat": "environment.options.action_repeat",
    "speedup": "environment.options.speedup",
    "show_window": "environment.options.show_window",
    "seed": "seed",
}
RLLIB_STOP: Final[Mapping[str, Target]] = {  # of `stop`
    "timesteps_total": "training.total_timesteps",
    "num_env_steps_sampled_lifetime": "training.total_timesteps",
    "time_total_s": "resources.max_wall_s",
    "episode_reward_mean": "training.stop_reward",
    "training_iteration": Left("runs are limited by env steps, episodes, reward or time: --steps N"),
}
RLLIB_TOP: Final[Mapping[str, Target]] = {  # of rllib_config.yaml itself
    "checkpoint_frequency": "checkpoint.every_iterations",
    "env": Left("the game is the env"),
    "env_is_multiagent": Left("the game declares its agents and the names of their policies"),
    "shared_policy": Left("the game declares its agents and the names of their policies"),
    "multiagent": Left("the game declares its policies' names; change them with --agent NAME=POLICY"),
    "num_gpus": "resources.num_gpus",
}

_VERIFIED = Left("every export is verified")
_NOT_A_RUN = Left("`mosaic export` takes runs of Mosaic: train this project, then export its newest run")
EXPORT: Final[Mapping[str, Target]] = {  # of export_config.json, after the prefix sb3_ or rllib_
    "output_path": "out",
    "output_dir": "out",
    "policy_id": "policy",
    "opset": "opset",
    "ir_version": "ir_version",
    "model_path": _NOT_A_RUN,
    "checkpoint_path": _NOT_A_RUN,
    "checkpoint_number": _NOT_A_RUN,
    "algo": Left("the run says what it was trained with"),
    "multiagent": Left("all policies of a run are exported together"),
    "prefix": Left("files are named after their policies"),
    "use_obs_array": Left("the target godot decides the inputs"),
    "skip_verify": _VERIFIED,
}
