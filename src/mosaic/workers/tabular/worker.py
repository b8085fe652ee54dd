"""Worker that trains tables: on a compiled twin if there is one, else in the env itself, step by step."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mosaic.config.run import RunConfig
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.mdp.mdp import GameTables
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec, sharing_envs
from mosaic.learners.tabular.options import ALGORITHMS
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.store.checkpoint_record import Checkpoint, environment_of
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.context import WorkerContext
from mosaic.workers.loop import train
from mosaic.workers.ray_record import StartRay, ray_of_run
from mosaic.workers.resolution import with_limit
from mosaic.workers.tabular.distributed import describe_arrays, ended_after, make_spread_training
from mosaic.workers.tabular.in_env import make_played_training, memory_limit, stepped_env
from mosaic.workers.tabular.mapping import mapping_of, roles_of
from mosaic.workers.tabular.options import TabularWorkerOptions
from mosaic.workers.tabular.policies import make_controller
from mosaic.workers.tabular.strategy import algorithm_of, check_hashed, check_way, choose_way, table_kind

if TYPE_CHECKING:  # modules that import numba are imported when a run begins
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.learners.tabular.hashed.training import HashedTraining
    from mosaic.learners.tabular.training.twin import TwinTraining
    from mosaic.workers.tabular.training import TableTraining


class TabularWorker:
    info = WorkerCapabilities(
        name="tabular",
        version=version("mosaic-rl"),
        algorithms=ALGORITHMS,
        paradigms=("parameter_sharing", "self_play", "independent"),
        action_kinds=("discrete", "multi_discrete", "multi_binary", "tuple", "dict"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "tuple", "dict", "box"),
        self_play=True,
        population=True,
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
        agent_mapping=True,
        evaluates=True,
        env_metrics=True,
        resources=("num_env_runners", "runtime", "ray_address"),
        notes=(
            (
                "Envs of one agent run compiled with all algorithms but double_q_learning where they have a twin, a "
                "transition table P, or are deterministic and small; else they are stepped in Python."
            ),
            (
                "The runtimes parallel, ray and mpi take one agent with a dense table and all algorithms but "
                "double_q_learning, and q_learning in tic-tac-toe."
            ),
        ),
        samples=True,
    )
    loads_pickles = False  # safetensors and JSON

    def options(self, algorithm: str) -> type[BaseModel]:
        return TabularWorkerOptions

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        assert isinstance(options, TabularWorkerOptions)
        check_way(config, options, spec)

    def complete(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> tuple[RunConfig, BaseModel]:
        """Fill in limit, runtime, number of learners and kind of table."""
        assert isinstance(options, TabularWorkerOptions)
        config = with_limit(config)
        runtime = config.resources.runtime or "single"
        chosen: dict[str, object] = {"runtime": runtime}
        if runtime != "single":
            chosen["num_env_runners"] = config.resources.env_runners
        config = config.model_copy(update={"resources": config.resources.model_copy(update=chosen)})
        return config, options.model_copy(update={"table": table_kind(config, options, spec)})

    def run(self, context: WorkerContext) -> None:
        options = context.options
        assert isinstance(options, TabularWorkerOptions)
        from mosaic.workers.tabular.frames import watched
        from mosaic.workers.tabular.training import TabularTraining

        config = context.config
        with ExitStack() as stack:
            start_ray = stack.enter_context(ray_of_run(context))
            with sharing_envs():
                training = stack.enter_context(ended_after(make_training(config, options, start_ray)))
                roles = roles_of(config, options, training)
                context.describe_env(env_spec(config.environment))
            seen = stack.enter_context(watched(context, training))
            tabular = TabularTraining(context, training, seen, roles)
            context.measure_with(tabular.measure)
            train(context, tabular, report_every_steps=1)  # an iteration lasts until the next report

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        agent = (*request.agents, *request.spec.possible_agents)[0]
        trained_in = environment_of(checkpoint).id
        return make_controller(checkpoint.path, policy, request.spec, agent, trained_in, request.sampling)

    def exportable(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> ExportablePolicy:
        from mosaic.workers.tabular.policies import make_exportable

        trained_in = environment_of(checkpoint).id
        return make_exportable(checkpoint.path, policy, request.spec, request.agents[0], trained_in)


def make_training(config: RunConfig, options: TabularWorkerOptions, start_ray: StartRay) -> TableTraining:
    """Return the training that fits the env; which one it is, and why, is logged."""
    from mosaic.learners.tabular.training.mdp import open_training
    from mosaic.learners.tabular.training.twin import TwoTableTraining
    from mosaic.runtimes.parallel import ParallelTraining

    algorithm = algorithm_of(config)
    kind, twin, why = choose_way(config, options, mapping_of(config, options))
    if kind == "hashed":
        return make_hashed_training(config, algorithm, options)
    table, every, mode = options.of_the_table(), options.merge_every_steps, options.mpi_mode
    if kind == "played" and config.resources.runtime in (None, "single"):
        return make_played_training(config, algorithm, options, why)
    if kind == "played":
        stepped = stepped_env(config, algorithm, options, why)
        return make_spread_training(config, stepped, algorithm, table, "self", every, mode, start_ray)
    assert twin is not None
    if why:
        print(f"{config.environment.id} is compiled to arrays: {why}")
        print("To step the env itself, with live pictures: --set training.params.compile_env=false")
    if isinstance(twin, GameTables) and kind == "two_tables":
        print(f"{algorithm} on the compiled twin of {config.environment.id}, one thread, a table for each agent")
        return TwoTableTraining(twin, algorithm, options, child_seed(config.seed, "learner", 0))

    def make(number: int) -> TwinTraining:
        seed = child_seed(config.seed, "learner", number)
        return open_training(twin, algorithm, options, seed, options.opponent)

    if config.resources.runtime == "parallel":
        learners = config.resources.env_runners
        print(f"{algorithm} on {describe_arrays(config.environment)}, {learners} learners")
        return ParallelTraining(make, learners, options.merge_every_steps)
    if config.resources.runtime not in (None, "single"):
        return make_spread_training(config, twin, algorithm, table, options.opponent, every, mode, start_ray)
    print(f"{algorithm} on {describe_arrays(config.environment)}, one thread")
    return make(0)


def make_hashed_training(config: RunConfig, algorithm: str, options: TabularWorkerOptions) -> HashedTraining:
    from mosaic.learners.tabular.hashed.training import HashedTraining

    check_hashed(config, options)
    print(f"{algorithm} in a hashed table of {config.environment.id}, one thread")
    return HashedTraining(algorithm, options, child_seed(config.seed, "learner", 0), memory_limit(options))


worker = TabularWorker()
