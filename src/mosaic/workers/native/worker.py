"""Worker that trains networks with Mosaic's own learners: on and off policy, by search, imitation and offline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from mosaic.config.sections import Section
from mosaic.core.errors import InputError
from mosaic.core.plugins import load_plugin
from mosaic.core.seeding import child_seed
from mosaic.learners.actor_critic.options import ActorCriticOptions, SacOptions, Td3Options
from mosaic.learners.alphazero.options import AlphaZeroOptions
from mosaic.learners.bc.options import BcOptions, DaggerOptions
from mosaic.learners.dqn.options import CqlOptions, DqnOptions, QOptions
from mosaic.learners.ppo.options import A2cOptions, PpoOptions
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.store.checkpoint_record import Checkpoint, weights_file
from mosaic.store.policies.init_source import InitSource, parse_init
from mosaic.workers.api import PolicyOptions, WorkerCapabilities
from mosaic.workers.camera import Camera
from mosaic.workers.context import WorkerContext
from mosaic.workers.loop import train
from mosaic.workers.policy_settings import read_policy_options
from mosaic.workers.resolution import with_limit

if TYPE_CHECKING:  # modules that import numba are imported when a run begins
    from pathlib import Path

    from mosaic.config.run import RunConfig
    from mosaic.envs.env import EnvSpec
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.learners.base import Assembled
    from mosaic.learners.recorded import DatasetOptions, Recorded


EXTERNAL = "external"  # family of the envs of other programs, and the listener that serves them


class Reporting(Section):
    """Options of the worker itself, not of its learners."""

    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between metric events; None: about two hundred events in all."
    )


class NativePpoOptions(PpoOptions, Reporting):
    pass


class NativeA2cOptions(A2cOptions, Reporting):
    pass


class NativeDqnOptions(DqnOptions, Reporting):
    pass


class NativeSacOptions(SacOptions, Reporting):
    pass


class NativeTd3Options(Td3Options, Reporting):
    pass


class NativeCqlOptions(CqlOptions, Reporting):
    pass


class NativeBcOptions(BcOptions, Reporting):
    pass


class NativeDaggerOptions(DaggerOptions, Reporting):
    pass


class NativeAlphaZeroOptions(AlphaZeroOptions, Reporting):
    pass


_OPTIONS: Mapping[str, type[Reporting]] = {
    "ppo": NativePpoOptions,
    "a2c": NativeA2cOptions,
    "dqn": NativeDqnOptions,
    "sac": NativeSacOptions,
    "td3": NativeTd3Options,
    "cql": NativeCqlOptions,
    "bc": NativeBcOptions,
    "dagger": NativeDaggerOptions,
    "alphazero": NativeAlphaZeroOptions,
}

_LEARNING = (
    "learning_rate",
    "learning_rate_schedule",
    "batch_size",
    "n_epochs",
    "gamma",
    "gae_lambda",
    "clip_range",
    "clip_range_schedule",
    "clip_range_vf",
    "ent_coef",
    "ent_coef_final",
    "vf_coef",
    "max_grad_norm",
    "target_kl",
    "normalize_advantage",
    "extra_loss",
)
_NETWORK = (
    "hidden",
    "critic_hidden",
    "activation",
    "share_layers",
    "log_std_init",
    "memory",
    "memory_size",
    "network",
)
_ON_POLICY = "DQN replays old experience and the others learn from each rollout once, so they do not mix."


def _policy_options(other: str) -> PolicyOptions:
    return PolicyOptions(options=_LEARNING, network=_NETWORK, algorithms=(other,), one_algorithm=_ON_POLICY)


class NativeWorker:
    info = WorkerCapabilities(
        name="native",
        version=version("mosaic-rl"),
        algorithms=tuple(_OPTIONS),
        paradigms=("parameter_sharing", "independent", "self_play", "shared_value_function"),
        algorithm_paradigms={
            **dict.fromkeys(("dqn", "sac", "td3", "cql", "bc", "dagger"), ("parameter_sharing", "independent")),
            "alphazero": ("self_play",),
        },
        action_kinds=("discrete", "multi_discrete", "multi_binary", "box"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "box", "pictures", "dict", "tuple"),
        self_play=True,
        population=True,
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
        samples=True,
        gpu=True,
        agent_mapping=True,
        policy_options={"ppo": _policy_options("a2c"), "a2c": _policy_options("ppo")},  # DQN trains one policy
        evaluates=True,
        env_metrics=True,
        init=True,
        curriculum=True,
        external_envs=True,
        resources=("num_env_runners", "num_gpus", "runtime", "num_envs"),
        patience_s=60.0,  # the first update may have to be compiled
    )
    loads_pickles = False  # safetensors and JSON

    def options(self, algorithm: str) -> type[BaseModel]:
        return _OPTIONS[algorithm]

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        """Raise InputError if agents and policies do not fit, before anything is started."""
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.learners.dqn.checks import ENVS, check_dqn
        from mosaic.learners.external.checks import check_external
        from mosaic.learners.opponents import check_played, check_players
        from mosaic.learners.ppo.hardware import check_ppo, check_processes, is_compiled
        from mosaic.learners.resources import meet_resources

        roles = read_agent_roles(config, spec)
        check_played({agent: each for agent, each in roles.every_played.items() if agent not in roles.people}, spec)
        if isinstance(
            options, PpoOptions | QOptions | ActorCriticOptions | BcOptions | DaggerOptions | AlphaZeroOptions
        ):
            options = meet_resources(options, config, roles, spec)
        own = tuple(read_policy_options(self, config, options, roles.plan).values())
        if config.environment.family == EXTERNAL and isinstance(options, CqlOptions):
            raise InputError(
                "cql learns from a dataset and steps no env: name the env itself, or use --algo dqn, which learns from "
                "what programs report and, with --demo NAME, from recorded steps, too."
            )
        if config.environment.family == EXTERNAL and isinstance(options, ActorCriticOptions | AlphaZeroOptions):
            raise InputError(
                f"{config.training.algorithm} steps its env itself and cannot use that of a program that connects: use "
                "--algo ppo, which acts in the same spaces."
            )
        if config.environment.family == EXTERNAL:
            assert isinstance(options, PpoOptions | DqnOptions | BcOptions | DaggerOptions)
            check_external(config, options, roles, _all_ppo(own))
        if isinstance(options, PpoOptions):
            check_players(check_ppo(config, options, roles, spec, _all_ppo(own)).foreign, spec)
        if isinstance(options, QOptions):
            check_dqn(config, roles, spec, options)
            if isinstance(options, DqnOptions) and options.env_processes:
                envs, twin = config.environment.num_envs or ENVS, not roles.played and is_compiled(config.environment)
                check_processes(options.env_processes, envs, config.environment, compiled=twin)
        if isinstance(options, ActorCriticOptions):
            from mosaic.learners.actor_critic.build import check_actor_critic  # loads machine code

            check_actor_critic(config, roles, spec, options)
        if isinstance(options, BcOptions | DaggerOptions):
            from mosaic.learners.bc.build import check_cloning  # loads machine code

            check_cloning(config, options, roles, spec)
        if isinstance(options, AlphaZeroOptions):
            from mosaic.learners.alphazero.build import check_alphazero  # loads machine code

            check_alphazero(config, options, roles, spec)
        if config.training.init is not None:
            parse_init(config.training.init)

    def check_dataset(self, config: RunConfig, options: BaseModel, spec: EnvSpec, home: Path) -> None:
        """Raise InputError for a dataset that is not there, or that was recorded with other agents or spaces."""
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.learners.recorded import DatasetOptions, check_dataset
        from mosaic.store.demos.reference import datasets_of

        if isinstance(options, DatasetOptions) and options.dataset is not None:
            if isinstance(options, DaggerOptions) and options.asks_person and not _follow(options, home)(0):
                return  # a person records it later
            found = datasets_of(options.dataset, home)
            check_dataset(found, read_agent_roles(config, spec), spec, options.dataset)

    def check_init(self, config: RunConfig, options: BaseModel, spec: EnvSpec, source: InitSource) -> None:
        """Raise InputError for what another worker or program wrote, and for networks unlike those of this run."""
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.workers.native.start import check_fits

        check_fits(config, options, spec, read_agent_roles(config, spec), source)

    def complete(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> tuple[RunConfig, BaseModel]:
        """Fill in limits, envs, engine and everything that follows from them."""
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.learners.dqn.checks import settle_dqn
        from mosaic.learners.opponents import opponents_of
        from mosaic.learners.ppo.hardware import settle_ppo
        from mosaic.learners.resources import meet_resources

        config, roles = with_limit(config), read_agent_roles(config, spec)
        if isinstance(options, PpoOptions):
            options = meet_resources(options, config, roles, spec)
            own = _all_ppo(read_policy_options(self, config, options, roles.plan).values())
            return settle_ppo(config, options, roles, spec, opponents_of(options, roles, spec), own)
        if isinstance(options, BcOptions | DaggerOptions):
            from mosaic.learners.bc.build import settle_cloning  # loads machine code

            return settle_cloning(config, meet_resources(options, config, roles, spec), roles, spec)
        if isinstance(options, ActorCriticOptions):
            from mosaic.learners.actor_critic.build import settle_actor_critic  # loads machine code

            return settle_actor_critic(config), meet_resources(options, config, roles, spec)
        if isinstance(options, AlphaZeroOptions):
            from mosaic.learners.alphazero.build import settle_alphazero  # loads machine code

            return settle_alphazero(config, meet_resources(options, config, roles, spec))
        assert isinstance(options, QOptions)
        return settle_dqn(config, meet_resources(options, config, roles, spec), roles, spec)

    def run(self, context: WorkerContext) -> None:
        from mosaic.workers.native.training import NativeScene, NativeTraining, load_counters

        options = context.options
        assert isinstance(options, Reporting)
        config = context.config = with_limit(context.config)  # one stored by an older version may have none
        resumed = context.resume_from
        assembled = _assemble(context, 0 if resumed is None else load_counters(resumed).episodes)
        context.describe_env(assembled.spec)
        message = f"{config.training.algorithm}: {assembled.said}"
        print(message, flush=True)
        context.report(kind="equipped", message=message)
        with (
            Camera(context, NativeScene(assembled.learner)) as camera,
            closing(NativeTraining(context, assembled, camera, partial(_assemble, context))) as training,
        ):
            context.measure_with(training.measure)
            train(context, training, report_every_steps=options.report_every_steps)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        from mosaic.workers.native.checkpoint import make_controller

        return make_controller(checkpoint.path, weights_file(checkpoint, policy), request)

    def exportable(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> ExportablePolicy:
        from mosaic.workers.native.checkpoint import make_exportable

        return make_exportable(checkpoint.path, weights_file(checkpoint, policy), request)


def _assemble(context: WorkerContext, episodes_before: int = 0) -> Assembled:
    """Make the learner in the env of the run, or of its current stage, whose random streams are its own."""
    config, options = context.config, context.options
    if context.curriculum is not None and context.curriculum.stage:
        config = config.model_copy(update={"seed": child_seed(config.seed, "stage", context.curriculum.stage)})
    listen = load_plugin("mosaic.listeners", EXTERNAL) if config.environment.family == EXTERNAL else None
    if isinstance(options, DqnOptions):
        from mosaic.learners.dqn.build import assemble_dqn

        return assemble_dqn(config, options, episodes_before, _recorded(options), listen)
    if isinstance(options, ActorCriticOptions):
        from mosaic.learners.actor_critic.build import assemble_actor_critic

        return assemble_actor_critic(config, options, episodes_before)
    if isinstance(options, CqlOptions):
        from mosaic.learners.dqn.build import assemble_cql

        return assemble_cql(config, options, _recorded(options))
    if isinstance(options, BcOptions) and listen is None:
        from mosaic.learners.bc.build import assemble_bc

        return assemble_bc(config, options, _recorded(options))
    if isinstance(options, BcOptions | DaggerOptions):
        from mosaic.learners.bc.build import assemble_dagger

        if isinstance(options, DaggerOptions) and options.asks_person:
            return assemble_dagger(config, options, (), _follow(options))
        return assemble_dagger(config, options, _recorded(options), listen=listen)
    if isinstance(options, AlphaZeroOptions):
        from mosaic.learners.alphazero.build import assemble_alphazero

        return assemble_alphazero(config, options)
    from mosaic.learners.ppo.build import assemble

    assert isinstance(options, PpoOptions)
    return assemble(config, options, partial(read_policy_options, worker, config), episodes_before, listen)


def _recorded(options: DatasetOptions) -> Recorded:
    """Read the trajectories of the dataset that the options name."""
    from mosaic.store.demos.reference import datasets_of

    datasets = [] if options.dataset is None else datasets_of(options.dataset)
    return [each for dataset in datasets for each in dataset.trajectories()]


def _follow(options: DatasetOptions, home: Path | None = None) -> Callable[[int], Recorded]:
    """Return a reader of the episodes of the demonstration that the options name, from a number on."""
    from mosaic.core.reference import split_reference
    from mosaic.store.demos.demonstration import Demonstrations
    from mosaic.store.demos.recording import recover

    store, name = Demonstrations(home), split_reference(str(options.dataset))[1]

    def read(after: int) -> Recorded:
        recover(store)
        with store.locked(name):
            return read_locked(after)

    def read_locked(after: int) -> Recorded:
        demo = store.open(name) if name in store.names() else None
        count = 0 if demo is None else demo.count()
        if count < after:
            raise InputError(
                f"The demonstration '{name}' has {count} episodes, and {after} were learned from. Record to it without "
                "dropping episodes, or start a new run."
            )
        datasets = () if demo is None or count == after else demo.datasets().values()
        return [(number, each) for data in datasets for number, each in data.trajectories() if number >= after]

    return read


def _all_ppo(options: Iterable[BaseModel]) -> tuple[PpoOptions, ...]:
    return tuple(each for each in options if isinstance(each, PpoOptions))


worker = NativeWorker()
