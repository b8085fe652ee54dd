"""Worker that trains with RLlib on Ray, on this machine or on a cluster."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mosaic.core.errors import InputError
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.policy_settings import read_policy_options
from mosaic.workers.resolution import with_limit
from mosaic.workers.rllib.config.offline_options import OfflineOptions
from mosaic.workers.rllib.config.options import ASYNCHRONOUS, OPTIONS, RllibOptions, snapshot_interval
from mosaic.workers.rllib.config.policy_options import POLICY_OPTIONS, check_shared_parts

if TYPE_CHECKING:  # modules that import numba or ray are imported when a run begins
    from pathlib import Path

    from mosaic.config.run import RunConfig
    from mosaic.core.ids import AgentID
    from mosaic.envs.env import EnvSpec
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.learners.agent_roles import AgentRoles
    from mosaic.policies.controller import PolicyController, PolicyRequest
    from mosaic.store.checkpoint_record import PolicyEntry
    from mosaic.store.checkpoints import Checkpoint
    from mosaic.store.policies.foreign_checkpoint import ForeignSource
    from mosaic.store.policies.init_source import InitSource
    from mosaic.workers.context import WorkerContext

PICTURE_SIZES = (10, 42, 64, 84, 96)  # for which RLlib has default convolutions


def _upstream() -> str | None:
    try:
        return f"ray {version('ray')}"
    except PackageNotFoundError:
        return None


class RllibWorker:
    info = WorkerCapabilities(
        name="rllib",
        version=version("mosaic-rl"),
        upstream=_upstream(),
        algorithms=tuple(OPTIONS),
        paradigms=("parameter_sharing", "independent", "self_play", "shared_value_function"),
        algorithm_paradigms=dict.fromkeys(("dqn", "sac", "tqc"), ("parameter_sharing", "independent")),
        action_kinds=("discrete", "multi_discrete", "multi_binary", "box"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "box", "pictures", "dict", "tuple"),
        self_play=True,
        population=True,
        pause=True,
        resume=True,
        checkpoints=True,
        samples=True,
        gpu=True,
        agent_mapping=True,
        policy_options=dict(POLICY_OPTIONS),
        evaluates=True,
        env_metrics=True,
        curriculum=True,
        init=True,
        resources=("num_env_runners", "num_gpus", "num_cpus", "runtime", "ray_address", "num_envs"),
        patience_s=120.0,  # an iteration may be long, and then Ray is shut down
    )
    loads_pickles = False  # to play; RLlib's own part of a checkpoint contains some, but is read only to resume
    resumes_from_pickles = True

    def options(self, algorithm: str) -> type[BaseModel]:
        return OPTIONS[algorithm]

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        """Raise InputError if the run would fail at its start, before anything is started."""
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.learners.opponents import check_played
        from mosaic.learners.trained_policies import BatchRule
        from mosaic.runtimes.ray.session import check_installed, find_cluster
        from mosaic.store.policies.init_source import parse_init
        from mosaic.workers.rllib.config.resources import asked_for, check_said_once, place, this_machine
        from mosaic.workers.rllib.config.setup import check_batch, envs_per_runner
        from mosaic.workers.rllib.config.support import MASKLESS, check_same_masks, check_support

        assert isinstance(options, RllibOptions)
        check_installed()
        algorithm = config.training.algorithm or self.info.algorithms[0]
        _check_runtime(config)
        roles = read_agent_roles(config, spec, honours_batches=True)
        if roles.trained_by_batch is not None:
            BatchRule(roles.trained_by_batch, {name: name for name in roles.plan.names}).rehearse()
        if isinstance(options, OfflineOptions):
            _check_offline(algorithm, config, options, roles, spec)
            options = in_main_process(options)
        check_said_once(config.resources, options)
        asked = asked_for(config.resources, options, apart=algorithm in ASYNCHRONOUS)
        learners = options.num_learners or 1
        if config.resources.ray_address is not None:
            find_cluster(config.resources.ray_address)  # its resources are known once it is joined
        else:
            placement = place(asked, this_machine(asked))
            learners = placement.learners
            envs = envs_per_runner(config.environment.num_envs, options, placement.runners)
            check_batch(algorithm, options, runners=placement.runners, envs=envs, learners=learners)
        check_support(algorithm, options, roles, spec, learners=learners)
        check_played(roles.every_played, spec)
        if options.names_code:
            _check_code(config, options, spec, roles)
        own = read_policy_options(self, config, options, roles.plan)
        check_shared_parts(options, own, roles.plan)
        for number, agent in enumerate(roles.learners):
            for policy in roles.plan.policies_of(number):
                here = own.get(roles.plan.names[policy], options)
                _check_spaces(algorithm, here, agent, spec, central=roles.plan.central)
        if algorithm in MASKLESS:
            _check_all_legal(algorithm, config, spec)
        if config.environment.curriculum:
            check_same_masks(config.environment)
        if config.training.init is not None:
            parse_init(config.training.init)

    def check_init(self, config: RunConfig, options: BaseModel, spec: EnvSpec, source: InitSource) -> None:
        """Raise InputError if the networks have other shapes than this run's, which are built to find out."""
        from pathlib import Path

        from mosaic.envs.shared_env import has_illegal_actions
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.workers.rllib.checkpoint.start_weights import check_start
        from mosaic.workers.rllib.config.resources import Placement
        from mosaic.workers.rllib.config.setup import RllibSetup

        assert isinstance(options, RllibOptions)
        masked = has_illegal_actions(config.environment)
        roles, here = read_agent_roles(config, spec, honours_batches=True), Placement(0, 1, 0.0, 0, 1, 0.0, 0)
        check_start(source, RllibSetup(config, options, spec, masked, roles, here, Path()))

    def complete(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> tuple[RunConfig, BaseModel]:
        """Fill in limit, snapshots, env runners and learners. What fits on a cluster is decided on joining it."""
        from mosaic.learners.agent_roles import read_agent_roles
        from mosaic.workers.rllib.config.resources import asked_for, place, settled, this_machine

        assert isinstance(options, RllibOptions)
        config = with_limit(config)
        if read_agent_roles(config, spec, honours_batches=True).plan.self_play:
            every = snapshot_interval(options, config.training.total_timesteps)
            options = options.model_copy(update={"snapshot_every_steps": every})
        if config.resources.ray_address is not None and not isinstance(options, OfflineOptions):
            return config, options
        if isinstance(options, OfflineOptions):
            options = in_main_process(options)
        asked = asked_for(config.resources, options, apart=config.training.algorithm in ASYNCHRONOUS)
        resources, options = settled(config.resources, options, place(asked, this_machine(asked)))
        return config.model_copy(update={"resources": resources}), options

    def run(self, context: WorkerContext) -> None:
        from mosaic.workers.rllib.training import train

        train(context)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        from mosaic.workers.rllib.checkpoint.controllers import controller

        return controller(checkpoint, policy, request)

    def exportable(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> ExportablePolicy:
        from mosaic.workers.rllib.checkpoint.exportable import make_exportable

        return make_exportable(checkpoint.path, policy, request)

    def foreign_policies(self, path: Path) -> tuple[str, ...]:
        """Return the names of the RLModules in a checkpoint of RLlib's own; none if the folder is not one."""
        from mosaic.workers.rllib.checkpoint.foreign import find_parts

        parts = find_parts(path)
        return () if parts is None else tuple(parts.modules)

    def foreign_controllers(self, source: ForeignSource, request: PolicyRequest) -> dict[AgentID, PolicyController]:
        from mosaic.runtimes.ray.session import check_installed

        check_installed()
        from mosaic.workers.rllib.checkpoint.foreign_controller import foreign_controllers

        return foreign_controllers(source, request)

    def convert_foreign(self, source: ForeignSource, folder: Path, request: PolicyRequest) -> dict[str, PolicyEntry]:
        from mosaic.runtimes.ray.session import check_installed

        check_installed()
        from mosaic.workers.rllib.checkpoint.foreign_export import convert_folder

        return convert_folder(source, folder, request)


def in_main_process(options: OfflineOptions) -> OfflineOptions:
    """Return options without env runners and learner processes: a dataset is learned from in the main process."""
    return options.model_copy(update={"num_env_runners": 0, "num_learners": 0})


def _check_offline(
    algorithm: str, config: RunConfig, options: OfflineOptions, roles: AgentRoles, spec: EnvSpec
) -> None:
    from mosaic.workers.rllib.config.datasets import check_dataset

    resources, training = config.resources, config.training
    asked = {
        "--num-env-runners": resources.num_env_runners,
        "environment.num_envs": config.environment.num_envs,
        "resources.num_gpus": resources.num_gpus,
        "--ray-address": resources.ray_address,
        "--stop-reward": training.stop_reward,
        "training.episodes": training.episodes,
        "training.init": training.init,
    }
    for name, value in asked.items():
        if value:
            raise InputError(
                f"{name}={value}: RLlib's {algorithm} learns from a dataset in the main process, and plays no episode "
                "while it learns. Leave it out; --steps counts the steps of the dataset that were learned from."
            )
    check_dataset(algorithm, options, roles, spec)


def _check_runtime(config: RunConfig) -> None:
    runtime = config.resources.runtime
    if runtime not in (None, "ray"):
        raise InputError(f"RLlib runs on Ray, not on the runtime '{runtime}'. Leave --runtime out.")


def _check_code(config: RunConfig, options: RllibOptions, spec: EnvSpec, roles: AgentRoles) -> None:
    """Raise InputError if RLlib's configuration cannot be made with the user's own classes. It starts nothing."""
    from pathlib import Path

    from mosaic.workers.rllib.config.build import configure
    from mosaic.workers.rllib.config.resources import Placement
    from mosaic.workers.rllib.config.setup import RllibSetup

    alone = Placement(0, 1, 0.0, 0, 1, 0.0, 0)
    configure(RllibSetup(config, options, spec, False, roles, alone, Path("unused")))


def _check_all_legal(algorithm: str, config: RunConfig, spec: EnvSpec) -> None:
    """Raise if actions may be illegal, which only an env after its reset can tell."""
    from mosaic.envs.shared_env import has_illegal_actions
    from mosaic.workers.rllib.config.support import no_masks

    if has_illegal_actions(config.environment):
        raise no_masks(algorithm, spec.env_id)


def _check_spaces(algorithm: str, options: RllibOptions, agent: AgentID, spec: EnvSpec, *, central: bool) -> None:
    """Raise InputError for unsupported spaces, before RLlib fails on them while it builds networks."""
    from gymnasium.spaces import Box, Discrete

    from mosaic.workers.rllib.config.support import no_central_pictures
    from mosaic.workers.rllib.env.encoding import agent_code

    space = spec.action_spaces[agent]
    if algorithm == "dqn" and not isinstance(space, Discrete):
        raise InputError(
            f"RLlib's dqn chooses among single actions, and the action of '{agent}' is {space}. "
            "Use --algo ppo, appo, impala or a2c."
        )
    if algorithm in ("tqc", "cql", "iql") and not isinstance(space, Box):
        raise InputError(
            f"RLlib's {algorithm} acts with numbers, and the action of '{agent}' is {space}. Use --algo "
            + ("sac, ppo, appo, impala or a2c." if algorithm == "tqc" else "bc or marwil.")
        )
    if algorithm in ("bc", "marwil") and not isinstance(space, Box | Discrete):
        raise InputError(
            f"RLlib's {algorithm} knows numbers or one choice as actions, and the action of '{agent}' is {space}."
        )
    if algorithm == "sac" and not isinstance(space, Box | Discrete):
        raise InputError(
            f"RLlib's sac knows numbers or one choice as actions, and the action of '{agent}' is {space}. "
            "Use --algo ppo, appo, impala or a2c."
        )
    size = options.picture_size
    seen = agent_code(spec.observation_spaces[agent], space, size)
    if seen.is_picture and central:
        raise no_central_pictures()
    if seen.is_picture and options.conv_filters is None and size not in PICTURE_SIZES:
        raise InputError(
            f"RLlib has networks of its own for pictures of {', '.join(map(str, PICTURE_SIZES))} pixels, and "
            f"picture_size is {size}. Take one of them, or say conv_filters."
        )


worker = RllibWorker()
