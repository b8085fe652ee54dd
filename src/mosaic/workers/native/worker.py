"""Worker that trains networks with Mosaic's own learners: PPO and A2C for any number of agents, and DQN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from mosaic.config.sections import Section
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.learners.dqn.options import DqnOptions
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
    from mosaic.config.run import RunConfig
    from mosaic.envs.env import EnvSpec
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.learners.base import Assembled


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


_OPTIONS: Mapping[str, type[Reporting]] = {"ppo": NativePpoOptions, "a2c": NativeA2cOptions, "dqn": NativeDqnOptions}

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
        from mosaic.learners.opponents import check_played, check_players
        from mosaic.learners.ppo.hardware import check_ppo, check_processes, is_compiled
        from mosaic.learners.resources import meet_resources

        roles = read_agent_roles(config, spec)
        check_played(roles.every_played, spec)
        if isinstance(options, PpoOptions | DqnOptions):
            options = meet_resources(options, config, roles, spec)
        own = tuple(read_policy_options(self, config, options, roles.plan).values())
        if isinstance(options, PpoOptions):
            check_players(check_ppo(config, options, roles, spec, _all_ppo(own)).foreign, spec)
        if isinstance(options, DqnOptions):
            check_dqn(config, roles, spec, options)
            if options.env_processes:
                envs, twin = config.environment.num_envs or ENVS, not roles.played and is_compiled(config.environment)
                check_processes(options.env_processes, envs, config.environment, compiled=twin)
        if config.training.init is not None:
            parse_init(config.training.init)

    def check_init(self, config: RunConfig, options: BaseModel, spec: EnvSpec, source: InitSource) -> None:
        """Raise InputError for what another program wrote; shapes are compared when the networks are built."""
        if source.checkpoint is None:
            raise InputError(
                f"'{source.reference}' was not written by Mosaic, and the worker native starts from its own runs "
                "alone. A zip of Stable-Baselines3: --worker sb3. A checkpoint of RLlib: --worker rllib."
            )

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
        assert isinstance(options, DqnOptions)
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
    if isinstance(options, DqnOptions):
        from mosaic.learners.dqn.build import assemble_dqn

        return assemble_dqn(config, options, episodes_before)
    from mosaic.learners.ppo.build import assemble

    assert isinstance(options, PpoOptions)
    return assemble(config, options, partial(read_policy_options, worker, config), episodes_before)


def _all_ppo(options: Iterable[BaseModel]) -> tuple[PpoOptions, ...]:
    return tuple(each for each in options if isinstance(each, PpoOptions))


worker = NativeWorker()
