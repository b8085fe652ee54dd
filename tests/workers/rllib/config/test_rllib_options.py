"""Every option reaches RLlib's configuration, and is RLlib's own where we do not say why it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from mosaic.workers.rllib.config.build import configure
from mosaic.workers.rllib.config.offline_options import OfflineOptions
from mosaic.workers.rllib.config.options import (
    _ITERATION,
    OPTIONS,
    ModelOptions,
    RllibExtraOptions,
    RllibOptions,
    RunnerOptions,
)
from mosaic.workers.rllib.config.resources import AvailableResources, asked_for, place
from mosaic.workers.rllib.env.filters import ObservationFilter
from tests.workers.rllib.rllib_setups import make_setup

CONTINUOUS = {"sac", "tqc", "cql", "iql"}
ONLINE = {*RunnerOptions.model_fields, "num_learners", "use_lstm", _ITERATION} - {"normalize_actions", "clip_actions"}
OTHER: dict[str, Any] = {  # values that are not the default and that RLlib accepts together
    "batch_mode": "complete_episodes",
    "bc_logstd_coeff": 0.5,
    "burn_in_len": 3,
    "clip_actions": True,
    "conv_filters": ((16, 4, 2),),
    "dataset": "minari:some/other-v0",
    "entropy_coeff": ((0, 0.1), (1000, 0.0)),
    "epsilon": 0.25,
    "fcnet_activation": "relu",
    "fcnet_hiddens": (32, 16),
    "grad_clip": 7.5,
    "grad_clip_by": "norm",
    "head_fcnet_hiddens": (8,),
    "lr": ((0, 1e-3), (1000, 1e-4)),
    "max_seq_len": 11,
    "minibatch_size": 50,
    "normalize_actions": False,
    "num_cpus_per_learner": 2,
    "num_env_runners": 3,
    "num_envs_per_env_runner": 3,
    "num_gpus_per_env_runner": 0.25,
    "num_learners": 2,
    "replay_buffer_type": "EpisodeReplayBuffer",
    "rollout_fragment_length": 25,
    "sample_timeout_s": 30.0,
    "target_entropy": -3.5,
    "train_batch_size_per_learner": 675,
    "training_intensity": 4.0,
    "use_lstm": True,
    "v_max": 5.0,
    "v_min": -5.0,
}
REPLAY = {
    "replay_buffer_type": "type",
    "replay_buffer_capacity": "capacity",
    "replay_buffer_alpha": "alpha",
    "replay_buffer_beta": "beta",
}


def _other(model: type[RllibOptions], name: str) -> Any:
    if name == "lr" and issubclass(model, OfflineOptions):
        return 0.25
    if name in OTHER:
        return OTHER[name]
    default = model.model_fields[name].default
    match default:
        case bool():
            return not default
        case int():
            return default + 2
        case float():
            return default / 2
        case str():
            return next(text for text in get_args(model.model_fields[name].annotation) if text != default)
    raise AssertionError(f"no other value for {name}")


def _read_back(config: Any, name: str) -> Any:
    if name in REPLAY:
        return config.replay_buffer_config[REPLAY[name]]
    if name in ModelOptions.model_fields:
        return config.rl_module_spec.model_config[name]
    if name == "observation_filter":
        made = config._env_to_module_connector(None, None, None)
        return "MeanStdFilter" if isinstance(made[0], ObservationFilter) else "NoFilter"
    if name == "dataset":
        return config.input_config[name]
    if name == "picture_size":
        return config.env_config["picture_size"]
    return getattr(config, name)


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _configured(tmp_path: Any, algorithm: str, params: dict[str, Any]) -> Any:
    env = "gym/Pendulum-v1" if algorithm in CONTINUOUS else "gym/CartPole-v1"
    setup = make_setup(tmp_path, env, algorithm)
    options = OPTIONS[algorithm].model_validate(params)
    asked = asked_for(setup.config.resources, options, apart=False)
    placement = place(asked, AvailableResources(cpus=64, gpus=8))
    return configure(replace(setup, options=options, placement=placement))


def _groups(model: type[RllibOptions]) -> list[dict[str, Any]]:
    """All options in as few configurations as RLlib accepts: some exclude each other."""
    names = [name for name in model.model_fields if name not in set(RllibExtraOptions.model_fields) - {"picture_size"}]
    if issubclass(model, OfflineOptions):  # nothing is sampled: these are refused
        names = [name for name in names if name not in ONLINE]
    apart = {"normalize_actions", "clip_actions", "replay_buffer_type", "burn_in_len", "conv_filters"} & set(names)
    others = {name: _other(model, name) for name in names if name not in apart}
    alone = [{name: _other(model, name)} for name in sorted(apart - {"clip_actions"})]
    return [others, *alone, {"clip_actions": True, "normalize_actions": False}]


@pytest.mark.parametrize("algorithm", OPTIONS)
def test_every_option_reaches_the_configuration(tmp_path, algorithm):
    model = OPTIONS[algorithm]
    seen = set()
    for params in _groups(model):
        config = _configured(tmp_path, algorithm, params)
        config.validate()
        for name, value in params.items():
            assert value != model.model_fields[name].default, name
            assert _as_lists(_read_back(config, name)) == _as_lists(value), name
        seen |= set(params)
    refused = ONLINE if issubclass(model, OfflineOptions) else set()
    assert seen | set(RllibExtraOptions.model_fields) | refused == set(model.model_fields)


OURS = {  # where RLlib's default is another, and why
    "dataset",
    "dataset_num_iters_per_learner",  # None there: the whole dataset, however large
    "min_sample_timesteps_per_iteration",  # its iterations are measured in seconds there
    "num_learners",  # by the machine
    "num_cpus_per_learner",
    "num_env_runners",
    "observation_filter",  # a connector on the new stack
    "train_batch_size_per_learner",  # a property that falls back to train_batch_size: compared below
    "rollout_fragment_length",
    "sample_timeout_s",  # after 60 s samples of a slow env would be thrown away, again and again
    "timeout_s_sampler_manager",  # 0 is a loop that never rests, on a core that a runner could use
}


@pytest.mark.parametrize("algorithm", [name for name in OPTIONS if name != "a2c"])
def test_defaults_are_rllibs(algorithm):
    from dataclasses import asdict

    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    from mosaic.workers.rllib.config.algorithms import fresh_config

    model, theirs = OPTIONS[algorithm], fresh_config(algorithm)
    network = asdict(DefaultModelConfig()) | theirs._model_config_auto_includes
    for name, field in model.model_fields.items():
        if name in OURS | set(RllibExtraOptions.model_fields):
            continue
        if name in REPLAY:
            known = theirs.replay_buffer_config[REPLAY[name]]
        else:
            known = network[name] if name in ModelOptions.model_fields else getattr(theirs, name)
        if name == "vf_share_layers" and algorithm in ("dqn", *CONTINUOUS, "bc", "marwil"):
            continue  # they have no value function of their own
        assert _as_lists(field.default) == _as_lists(known), name
    assert model.model_fields["train_batch_size_per_learner"].default == theirs.train_batch_size_per_learner


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"rollout_fragment_length": 0}, "at least 1, or auto"),
        ({"clip_actions": True}, "does nothing while 'normalize_actions' is true"),
        ({"fcnet_hiddens": [0]}, "at least 1 wide"),
        ({"minibatch_size": 5000}, "at most 'train_batch_size_per_learner', which is 4000"),
    ],
)
def test_impossible_options_are_refused(params, said):
    with pytest.raises(ValidationError, match=said):
        OPTIONS["ppo"].model_validate(params)


@pytest.mark.parametrize(
    ("algorithm", "params", "said"),
    [
        ("impala", {"minibatch_size": 60}, "a multiple of 'rollout_fragment_length', which is 50"),
        ("appo", {"minibatch_size": 1000}, "at most 'train_batch_size_per_learner', which is 500"),
        ("dqn", {"n_step": 3, "rollout_fragment_length": 2}, "at least 'n_step', which is 3"),
        ("dqn", {"use_lstm": True, "burn_in_len": 20}, "below 'max_seq_len', which is 20"),
    ],
)
def test_what_rllib_would_refuse_later_is_refused_at_once(algorithm, params, said):
    with pytest.raises(ValidationError, match=said):
        OPTIONS[algorithm].model_validate(params)


def test_several_gpus_become_several_learners_in_the_configuration(tmp_path):
    setup = make_setup(
        tmp_path, "gym/CartPole-v1", "ppo", resources={"num_gpus": 2, "num_env_runners": 4, "num_cpus": 2}
    )
    asked = asked_for(setup.config.resources, setup.options, apart=False)
    config = configure(replace(setup, placement=place(asked, AvailableResources(cpus=16, gpus=2))))
    config.validate()
    assert (config.num_learners, config.num_gpus_per_learner) == (2, 1.0)
    assert (config.num_env_runners, config.num_cpus_per_env_runner) == (4, 2)


def test_part_of_a_gpu_stays_a_part_in_the_configuration(tmp_path):
    setup = make_setup(tmp_path, "gym/CartPole-v1", "impala", resources={"num_gpus": 0.5})
    asked = asked_for(setup.config.resources, setup.options, apart=True)
    config = configure(replace(setup, placement=place(asked, AvailableResources(cpus=16, gpus=1))))
    assert (config.num_learners, config.num_gpus_per_learner) == (1, 0.5)


def test_envs_asked_for_are_shared_out_among_the_runners(tmp_path):
    setup = make_setup(tmp_path, "gym/CartPole-v1", "ppo", runners=3)
    environment = setup.config.environment.model_copy(update={"num_envs": 10})
    config = configure(replace(setup, config=setup.config.model_copy(update={"environment": environment})))
    assert config.num_envs_per_env_runner == 4


ASIDE = {  # settings of the whole configuration that Mosaic sets itself; none of them changes what is learned
    "_learner_class",  # the algorithm's own, or one with the same loss
    "_rl_module_spec",  # compared by itself
    "_model_config",
    "callbacks",
    "env",
    "env_config",
    "env_runner_cls",
    "disable_env_checking",
    "min_time_s_per_iteration",
    "num_cpus_per_learner",
    "sample_timeout_s",
    "delay_between_env_runner_restarts_s",
    "env_runner_health_probe_timeout_s",
    "env_runner_restore_timeout_s",
}


def test_the_rest_of_the_configuration_is_what_one_writes_by_hand(tmp_path):
    from ray.rllib.algorithms.dqn.dqn import calculate_rr_weights
    from ray.rllib.algorithms.sac import SACConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    training = {"actor_lr": 1e-3, "training_intensity": 128.0, "train_batch_size_per_learner": 128}
    ours = configure(make_setup(tmp_path, "gym/Pendulum-v1", "sac", params=training, seed=3))
    network = DefaultModelConfig(fcnet_hiddens=[16], vf_share_layers=False)
    hand = (
        SACConfig()
        .environment("Pendulum-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=4)
        .training(num_steps_sampled_before_learning_starts=60, **training)
        .reporting(min_sample_timesteps_per_iteration=40)
        .rl_module(model_config=network)
        .debugging(seed=3)
    )
    mine, theirs = ours.to_dict(), hand.to_dict()
    assert {name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)} - ASIDE == set()
    assert calculate_rr_weights(ours) == calculate_rr_weights(hand) == [1, 8]
    spec = ours.rl_module_spec
    assert _as_lists(spec.model_config) == _as_lists(vars(network) | {"twin_q": True})
    assert issubclass(spec.module_class, hand.get_default_rl_module_spec().module_class)
