"""A user's function that changes RLlib's configuration, restricted to what Mosaic does not set itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from mosaic.core.errors import InputError
from mosaic.core.user_code import load_code
from mosaic.workers.rllib.config.options import RllibOptions
from mosaic.workers.rllib.config.user_classes import check_call, send_by_value

_OWNED = (
    "algo_class", "env", "env_config", "env_runner_cls", "observation_space", "action_space", "disable_env_checking",
    "num_env_runners", "num_envs_per_env_runner", "num_cpus_per_env_runner", "num_gpus_per_env_runner",
    "custom_resources_per_env_runner", "create_local_env_runner", "create_env_on_local_worker", "remote_worker_envs",
    "num_learners", "num_cpus_per_learner", "num_gpus_per_learner", "_learner_class",
    "num_cpus_for_main_process", "num_gpus", "placement_strategy",
    "_rl_module_spec", "_model_config", "_model_config_dict", "model", "framework_str",
    "policies", "policy_mapping_fn", "_is_multi_agent", "policies_to_train", "callbacks_class",
    "_env_to_module_connector", "_module_to_env_connector", "_learner_connector",
    "enable_rl_module_and_learner", "enable_env_runner_and_connector_v2",
    "evaluation_interval", "evaluation_num_env_runners", "evaluation_config", "evaluation_parallel_to_training",
    "min_time_s_per_iteration", "min_train_timesteps_per_iteration", "metrics_num_episodes_for_smoothing",
    "seed", "log_level", "logger_creator", "restart_failed_env_runners", "input_", "input_config", "output",
    "offline_data_class",
)  # fmt: skip


def apply_hook(config: AlgorithmConfig, options: RllibOptions, set_by_mosaic: Iterable[str]) -> None:
    """Call `configure`, if there is one; raise InputError if it fails or changes what Mosaic sets itself.

    `set_by_mosaic` are the fields of this configuration that differ from RLlib's defaults.
    """
    reference = options.configure
    if reference is None:
        return
    function = load_code(reference)
    if isinstance(function, type) or not callable(function):
        raise InputError(f"configure={reference} is {function!r}. It should be a function of an AlgorithmConfig.")
    check_call("configure", reference, function, ("config",))
    send_by_value(function)  # what it sets may refer to its module
    before = _fields(config)
    try:
        answer = function(config)
    except Exception as error:
        raise InputError(f"configure={reference} raised {type(error).__name__}: {error}") from error
    if answer is not None and answer is not config:
        raise InputError(
            f"configure={reference} returned {type(answer).__name__}: it should change the configuration that it is "
            "given, and return nothing or that one."
        )
    settable = set(type(options).model_fields)
    owned = {*_OWNED, *set_by_mosaic, *settable}
    changed = [name for name in changes(before, _fields(config)) if name in owned]
    if changed:
        known = [name for name in changed if name in settable]
        advice = f" Set {_list(known)} with --set training.params.NAME=VALUE." if known else ""
        raise InputError(
            f"configure={reference} may not change {_list(name.lstrip('_') for name in changed)}: Mosaic sets "
            f"{'it' if len(changed) == 1 else 'them'} itself, from the settings of the run.{advice}"
        )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that differ."""
    names = {**before, **after}
    return [name for name in names if not _same(before.get(name), after.get(name))]


def _fields(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the fields, with copies of collections, which may be changed in place."""
    return {
        name: copy(value) if isinstance(value, dict | list | set) else value for name, value in vars(config).items()
    }


def _same(one: object, other: object) -> bool:
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):  # arrays
        return False


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
