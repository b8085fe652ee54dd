"""Conversion of a run's setup to RLlib's configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.policy.policy import PolicySpec
from ray.tune.registry import register_env

from mosaic.core.ids import AgentID
from mosaic.envs.vector.encoding import action_code
from mosaic.learners.trained_policies import BatchRule
from mosaic.runners.screen import why_undrawn
from mosaic.workers.rllib.config.algorithms import fresh_config
from mosaic.workers.rllib.config.hook import apply_hook, changes
from mosaic.workers.rllib.config.offline_options import OfflineOptions
from mosaic.workers.rllib.config.options import ReplayOptions, Settings, replay_settings, training_settings
from mosaic.workers.rllib.config.policy_options import module_overrides
from mosaic.workers.rllib.config.setup import IN_STEP, RllibSetup
from mosaic.workers.rllib.config.user_classes import Connectors, UserClasses, load_user_classes
from mosaic.workers.rllib.env.encoding import agent_code
from mosaic.workers.rllib.env.env import make_rllib_env
from mosaic.workers.rllib.env.filters import ObservationFilter
from mosaic.workers.rllib.env.sampling import IterationLimit, StepLimit, stoppable
from mosaic.workers.rllib.env.stages import staged
from mosaic.workers.rllib.episode_modules import EpisodeModules
from mosaic.workers.rllib.learner.balanced import learner_class, own_learner
from mosaic.workers.rllib.learner.first_states import FirstStates
from mosaic.workers.rllib.learner.modules import module_spec
from mosaic.workers.rllib.learner.offline_data import DATASET, NORMALIZED, PICTURE_SIZE, DatasetInMemory
from mosaic.workers.rllib.learner.replay import balanced_buffer
from mosaic.workers.rllib.learner.shared_modules import modules_together
from mosaic.workers.rllib.lost_runners import PROBE_TIMEOUT_S, patient, telling
from mosaic.workers.rllib.reporting.callbacks import MosaicCallback, callback_facts

Mapping: TypeAlias = Callable[..., str]  # (agent, episode, …) -> module

ENV = "mosaic_env"  # name of our envs in RLlib's registry
EPISODES_AVERAGED = 100
_AGGREGATION = ("num_aggregator_actors_per_learner", "max_requests_in_flight_per_aggregator_actor")


def configure(setup: RllibSetup, mapping: Mapping | None = None) -> AlgorithmConfig:
    """Return RLlib's configuration.

    `mapping` returns the module of an agent in an episode in self-play.
    """
    register_env(ENV, make_rllib_env)
    config = fresh_config(setup.algorithm)
    defaults = dict(vars(config))
    user = load_user_classes(setup.options, own_learner(setup.algorithm))
    config.algo_class = patient(_tidy(config.algo_class))
    options = setup.options
    config.environment(
        ENV,
        env_config=setup.env_config,
        normalize_actions=options.normalize_actions,
        clip_actions=options.clip_actions,
        disable_env_checking=True,  # it would play illegal actions
    )
    _gather(config, setup, user)
    _learn(config, setup, user)
    _set_modules(config, setup, mapping, user)
    config.reporting(
        min_time_s_per_iteration=0,
        min_sample_timesteps_per_iteration=IterationLimit(options.min_sample_timesteps_per_iteration, setup.session),
        metrics_num_episodes_for_smoothing=EPISODES_AVERAGED,
    )
    facts = callback_facts(
        setup.folder,
        setup.policy_of,
        frames=setup.config.telemetry.frames,
        undrawn=why_undrawn(setup.config.environment),
        session=setup.session,
        first_episode=setup.first_episode,
    )
    config.callbacks([partial(MosaicCallback, facts=facts), *user.callbacks])  # type: ignore[list-item]
    config.debugging(seed=setup.config.seed, log_level="WARN")
    config.fault_tolerance(
        restart_failed_env_runners=True,  # a lost node takes runners with it; the run continues with the others
        delay_between_env_runner_restarts_s=1.0,
        env_runner_restore_timeout_s=30.0,
        env_runner_health_probe_timeout_s=PROBE_TIMEOUT_S,
    )
    apply_hook(config, options, changes(defaults, vars(config)))
    return config


class _Tidy(Algorithm):
    """Mixin that keeps RLlib from creating a folder in ~/ray_results, which without Tune stays empty."""

    def _setup_logdir(self) -> None:
        self._logdir: str = tempfile.gettempdir()  # type: ignore[assignment]


@cache
def _tidy(own: type[Algorithm]) -> type[Algorithm]:
    return type(own.__name__, (_Tidy, own), {"__module__": __name__})


def _gather(config: AlgorithmConfig, setup: RllibSetup, user: UserClasses) -> None:
    options, placement = setup.options, setup.placement
    config.env_runners(
        num_env_runners=placement.runners,
        num_envs_per_env_runner=setup.envs_per_runner,
        num_cpus_per_env_runner=placement.cpus_per_runner,
        num_gpus_per_env_runner=placement.gpus_per_runner,
        rollout_fragment_length=options.rollout_fragment_length,
        batch_mode=options.batch_mode,
        sample_timeout_s=options.sample_timeout_s,
        max_requests_in_flight_per_env_runner=options.max_requests_in_flight_per_env_runner,
        explore=options.explore,
    )
    if not setup.single and (options.rl_module is not None or setup.recurrent):
        # In env steps: those since an agent last acted in turn, and before that for the state it acted with.
        config.env_runners(episode_lookback_horizon=2 * len(setup.spec.possible_agents))
    usual: type[EnvRunner] = SingleAgentEnvRunner if setup.single else MultiAgentEnvRunner
    stepping = stoppable(runner_class(setup) or usual)
    config.env_runners(env_runner_cls=telling(stepping if setup.curriculum is None else staged(stepping)))
    filtered = options.observation_filter == "MeanStdFilter"
    if filtered or user.env_to_module is not None:
        made = partial(_env_to_module, filtered=filtered, multi_agent=not setup.single, own=user.env_to_module)
        config.env_runners(env_to_module_connector=made)
    if user.module_to_env is not None:
        config.env_runners(module_to_env_connector=user.module_to_env)


def _env_to_module(
    *given: object, filtered: bool, multi_agent: bool, own: Connectors | None, **also: object
) -> list[ConnectorV2]:
    """Make the observation filter and the user's connectors, which see its result."""
    filters: list[ConnectorV2] = [ObservationFilter(multi_agent=multi_agent)] if filtered else []
    return filters if own is None else [*filters, *own(*given)]


def _learner_connectors(*given: object, single: bool, own: Connectors | None) -> list[ConnectorV2]:
    """Make the user's connectors, and before RLlib's the one that knows how pieces of episodes begin."""
    users = [] if own is None else list(own(*given))
    return users if single else [*users, FirstStates()]


def _learn(config: AlgorithmConfig, setup: RllibSetup, user: UserClasses) -> None:
    options, placement = setup.options, setup.placement
    settings = training_settings(options)
    aggregation = {name: settings.pop(name) for name in _AGGREGATION if name in settings}
    config.learners(
        num_learners=placement.learners,
        num_cpus_per_learner=placement.cpus_per_learner,
        num_gpus_per_learner=placement.gpus_per_learner,
        learner_class=learner_class(setup, user.learner),
        **aggregation,
    )
    if user.learner_connector is not None or not setup.single:
        config.learners(learner_connector=partial(_learner_connectors, single=setup.single, own=user.learner_connector))
    if setup.algorithm in IN_STEP:
        batch = "train_batch_size_per_learner"
        settings[batch] = StepLimit(settings[batch], setup.session)
    if setup.algorithm == "a2c":
        settings |= {"num_epochs": 1, "minibatch_size": None, "use_kl_loss": False, "kl_coeff": 0.0}
    if isinstance(options, OfflineOptions):
        settings |= _offline(config, setup, options)
    if isinstance(options, ReplayOptions):
        settings["replay_buffer_config"] = _replay(setup, options)
    config.training(**settings)


def _offline(config: AlgorithmConfig, setup: RllibSetup, options: OfflineOptions) -> Settings:
    """Set where experience comes from, and the spaces, which RLlib otherwise asks an env for."""
    (agent,) = setup.roles.learners
    spec = setup.spec
    code = agent_code(spec.observation_spaces[agent], spec.action_spaces[agent], options.picture_size)
    config.environment(observation_space=code.observation_space, action_space=code.action_space)
    config.offline_data(
        input_=str(options.dataset),
        input_config={
            DATASET: options.dataset, PICTURE_SIZE: options.picture_size, NORMALIZED: options.normalize_actions
        },
        offline_data_class=DatasetInMemory,
        dataset_num_iters_per_learner=options.dataset_num_iters_per_learner,
    )  # fmt: skip
    return {"lr": None} if setup.algorithm in ("cql", "iql") else {}  # they have one for each network


def _replay(setup: RllibSetup, options: ReplayOptions) -> Settings:
    settings = replay_settings(options)
    if setup.single:
        return settings
    if not options.balanced:
        return settings | {"type": f"MultiAgent{options.replay_buffer_type}"}
    return settings | {"type": balanced_buffer(options.replay_buffer_type), "trained": setup.trained}


def _set_modules(config: AlgorithmConfig, setup: RllibSetup, mapping: Mapping | None, user: UserClasses) -> None:
    overrides = {setup.modules[policy]: module_overrides(setup.options, own) for policy, own in setup.own.items()}
    config.rl_module(algorithm_config_overrides_per_module=overrides)
    specs = {module: module_spec(setup, policy, user.rl_module) for policy, module in setup.modules.items()}
    if setup.single:
        (spec,) = specs.values()
        config.rl_module(rl_module_spec=spec)
        if setup.roles.trained_by_batch is not None:
            config.multi_agent(policies_to_train=_trained(setup))
        return
    config.multi_agent(
        policies=set(specs) if setup.roles.episodes is None else _with_spaces(setup, specs),
        policy_mapping_fn=mapping or _mapping(setup),
        policies_to_train=_trained(setup),
    )
    config.rl_module(rl_module_spec=modules_together(setup, specs))


def _mapping(setup: RllibSetup) -> Mapping:
    episodes = setup.roles.episodes
    return partial(_policy_of, policies=dict(setup.policy_of)) if episodes is None else EpisodeModules(episodes)


def _with_spaces(setup: RllibSetup, specs: dict[str, RLModuleSpec]) -> dict[str, PolicySpec]:
    """Return the policies with their spaces, which RLlib knows only of those that play in the first episode."""
    env = make_rllib_env(setup.env_config)
    env.close()  # type: ignore[no-untyped-call]
    assert isinstance(env, MultiAgentEnv)
    assert env.observation_spaces is not None
    assert env.action_spaces is not None
    policies = {}
    for policy, module in setup.modules.items():
        agent = setup.agents_of(policy)[0]
        seen, acts = env.observation_spaces[agent], env.action_spaces[agent]
        specs[module].observation_space, specs[module].action_space = seen, acts
        policies[module] = PolicySpec(observation_space=seen, action_space=acts)  # type: ignore[no-untyped-call]
    return policies


def _trained(setup: RllibSetup) -> list[str] | BatchRule:
    """Return the modules to train, or the function that chooses them for every batch."""
    reference = setup.roles.trained_by_batch
    if reference is None:
        return setup.trained
    return BatchRule(reference, {module: policy for policy, module in setup.modules.items()})


def _policy_of(agent: AgentID, *given: object, policies: dict[AgentID, str], **also: object) -> str:
    return policies[agent]


def runner_class(setup: RllibSetup) -> type[EnvRunner] | None:
    """Return the env runner class; None: RLlib's own."""
    if not has_twin(setup):
        return None
    from mosaic.workers.rllib.env.twin_runner import TwinEnvRunner

    return TwinEnvRunner


def has_twin(setup: RllibSetup) -> bool:
    """Return whether all agents learn, act and end together in a compiled env, with networks without memory."""
    options, roles, spec = setup.options, setup.roles, setup.spec
    other = setup.single or setup.masked or roles.plan.self_play or roles.played or spec.facts.turn_based
    other = other or roles.episodes is not None
    own_code = options.acts_with_code or options.callbacks
    if other or setup.recurrent or own_code or options.observation_filter != "NoFilter":
        return False
    from mosaic.envs.compiled.registry import find_kernel

    for environment in setup.stages:
        kernel = find_kernel(environment)
        if kernel is None or kernel.turn_based or kernel.masked or kernel.agents != roles.learners:
            return False
    heads = [action_code(spec.action_spaces[agent]).head for agent in roles.learners]
    return all(head.kind == "categorical" and head.parts == 1 for head in heads)
