"""The worker that trains tables: on a compiled twin where there is one, else in the env itself, step by step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

from mosaic.config.environment import EnvironmentConfig
from mosaic.config.run import RunConfig
from mosaic.core.compile_time import working_time
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.seeding import child_seed
from mosaic.envs.codes import space_code
from mosaic.envs.compiled.game import Game
from mosaic.envs.compiled.twins import encode_observation, has_twin
from mosaic.envs.env import EnvSpec
from mosaic.learners.tabular.settings import ALGORITHMS
from mosaic.policies.controller import PolicyController, PolicyRequest, Sampling
from mosaic.policies.tabular import TabularPolicyController
from mosaic.store.checkpoints import Checkpoint, PolicyEntry
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.completing import with_limit
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluating import evaluate_learners, is_due
from mosaic.workers.ray_record import StartRay, ray_of_run
from mosaic.workers.tabular_chunks import Chunks
from mosaic.workers.tabular_hashed import hashed_controller, in_hashed_table, make_hashed_training
from mosaic.workers.tabular_mapping import POLICY
from mosaic.workers.tabular_options import TabularWorkerOptions
from mosaic.workers.tabular_played import (
    drawing,
    in_seats,
    legal_columns,
    make_played_training,
    seats_controller,
    stepped_env,
)
from mosaic.workers.tabular_roles import Roles, mapping_of, policy_returns, roles_of
from mosaic.workers.tabular_spread import describe_arrays, ended_after, make_spread_training
from mosaic.workers.tabular_way import algorithm_of, check_way, choose_way, table_kind

if TYPE_CHECKING:  # what brings numba along is imported when a run begins
    from mosaic.learners.tabular.twin_training import Statistics, TwinTraining
    from mosaic.learners.tabular.value_error import ValueGauge
    from mosaic.runners.screen import Screen
    from mosaic.workers.tabular_scene import Watched

FACTS = "facts.json"


class Training(Protocol):
    """What the loop below needs of a way to train."""

    @property
    def env_steps(self) -> int: ...

    @property
    def agent_steps(self) -> int: ...

    @property
    def episodes(self) -> int: ...

    @property
    def coverage(self) -> float: ...

    def advance(self, steps: int, episodes: int = 0) -> None: ...

    def read_statistics(self) -> Statistics: ...

    def save(self, folder: Path) -> None: ...

    def restore(self, folder: Path, env_steps: int) -> None: ...


@dataclass(slots=True)
class Standing:
    """How far the run is, besides what its training knows."""

    iteration: int = 0
    reward: float | None = None
    epsilon: float | None = None  # of exploration, after the last report


class TabularWorker:
    info = WorkerCapabilities(
        name="tabular",
        version=version("mosaic-rl"),
        algorithms=ALGORITHMS,
        paradigms=("parameter_sharing", "self_play", "independent"),
        action_kinds=("discrete", "multi_discrete", "multi_binary", "tuple", "dict"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "tuple", "dict", "box"),
        self_play=True,
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
        agent_mapping=True,
        evaluates=True,
        resources=("num_workers", "runtime", "ray_address"),
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
        """Decide limit, runtime, number of learners and kind of table."""
        assert isinstance(options, TabularWorkerOptions)
        config = with_limit(config)
        runtime = config.resources.runtime or "single"
        chosen: dict[str, object] = {"runtime": runtime}
        if runtime != "single":
            chosen["num_workers"] = config.resources.workers
        config = config.model_copy(update={"resources": config.resources.model_copy(update=chosen)})
        return config, options.model_copy(update={"table": table_kind(config, options, spec)})

    def run(self, context: WorkerContext) -> None:
        options = context.options
        assert isinstance(options, TabularWorkerOptions)
        from mosaic.workers.tabular_scene import watched

        with (
            ray_of_run(context.folder) as start_ray,
            ended_after(make_training(context.config, options, start_ray)) as training,
            watched(context, training) as seen,
        ):
            self._train(context, options, training, seen, roles_of(context.config, options, training))

    def _train(
        self, context: WorkerContext, options: TabularWorkerOptions, training: Training, seen: Watched, roles: Roles
    ) -> None:
        gauge = _gauge(training, options)
        if gauge is not None:
            gauge.error()  # what states are worth is worked out at the first look
        standing = _load(context.resume_from, training) if context.resume_from else Standing()

        def save() -> None:
            _save(context, training, standing, roles)

        chunks = Chunks(context, training, seen, options.report_every_steps)
        context.measure_with(lambda: chunks.live)
        evaluated_at = None
        training.advance(0)  # loads the compiled code
        context.prepare_checkpoints()  # a compiled loop needs no env; making one would cost a fifth of a short training
        context.training_began_at = working_time()
        while not context.done(training.env_steps, training.episodes, standing.reward):
            context.inbox.wait_while_paused(save)
            if context.inbox.stop_asked():
                break
            started, before = working_time(), training.env_steps
            chunks.advance()
            elapsed_s = working_time() - started
            statistics = training.read_statistics()
            standing.iteration += 1
            standing.epsilon = statistics.epsilon
            standing.reward = statistics.return_mean if statistics.episodes else standing.reward
            speed = (training.env_steps - before) / elapsed_s
            error = gauge.error() if gauge else None
            _report(context, training, statistics, standing, speed, error, roles)
            if is_due(before, training.env_steps, context.config.evaluation.every_steps):
                _evaluate(context, training, seen.camera, roles)
                evaluated_at = training.env_steps
            if context.checkpoint_due(training.env_steps):
                save()
        if context.config.checkpoint.at_end:
            save()  # first: whatever happens to an evaluation, what was learned is kept
        context.training_ended_at = working_time()
        if not context.inbox.stop_asked() and evaluated_at != training.env_steps:
            _evaluate(context, training, seen.camera, roles)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        agent = (*request.agents, *request.spec.possible_agents)[0]
        trained_in = EnvironmentConfig.model_validate(checkpoint.manifest.environment).id
        return _controller(checkpoint.path, policy, request.spec, agent, trained_in, request.sampling)


def _controller(
    folder: Path, policy: str, spec: EnvSpec, agent: AgentID, trained_in: EnvID, sampling: Sampling | None = None
) -> PolicyController:
    """Return a controller of what `Training.save` and `_save_facts` wrote.

    Rows may be states of a compiled env: `trained_in` names it, whatever env is played now.
    """
    from mosaic.learners.tabular.saved_values import on_twin, read_values

    space = spec.observation_spaces[agent]
    facts = json.loads((folder / FACTS).read_text())
    drawn = drawing(facts, sampling)
    bins = facts["bins"]
    if in_seats(folder, policy):
        return seats_controller(folder, policy, spec, agent, bins, drawn)
    actions = space_code(spec.action_spaces[agent])
    if in_hashed_table(folder):
        return hashed_controller(folder, actions.decode, drawn)
    known = on_twin(folder) and has_twin(trained_in)  # arrays of a user's own env have the rows of its space
    state_of = encode_observation(trained_in, space) if known else space_code(space, bins).encode
    legal = legal_columns(actions)
    return TabularPolicyController(read_values(folder, policy), state_of, actions.decode, legal, **drawn)


def make_training(config: RunConfig, options: TabularWorkerOptions, start_ray: StartRay) -> Training:
    """The way to train that fits the env; which one, and why, is said on the log."""
    from mosaic.learners.tabular.mdp_training import open_training
    from mosaic.learners.tabular.two_tables import TwoTableTraining
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
    if isinstance(twin, Game) and kind == "two_tables":
        print(f"{algorithm} on the compiled twin of {config.environment.id}, one thread, a table for each seat")
        return TwoTableTraining(twin, algorithm, options, child_seed(config.seed, "learner", 0))

    def make(number: int) -> TwinTraining:
        seed = child_seed(config.seed, "learner", number)
        return open_training(twin, algorithm, options, seed, options.opponent)

    if config.resources.runtime == "parallel":
        learners = config.resources.workers
        print(f"{algorithm} on {describe_arrays(config.environment)}, {learners} learners")
        return ParallelTraining(make, learners, options.merge_every_steps)
    if config.resources.runtime not in (None, "single"):
        return make_spread_training(config, twin, algorithm, table, options.opponent, every, mode, start_ray)
    print(f"{algorithm} on {describe_arrays(config.environment)}, one thread")
    return make(0)


def _gauge(training: Training, options: TabularWorkerOptions) -> ValueGauge | None:
    """None where the true values cannot be known: only a table with a row for each state of a twin shows the rules."""
    from mosaic.learners.tabular.value_error import Tabled, ValueGauge

    if not isinstance(training, Tabled) or training.values.shape != training.twin.legal.shape:
        return None
    return ValueGauge(training, options.discount_factor, options.opponent)


def _report(
    context: WorkerContext,
    training: Training,
    statistics: Statistics,
    standing: Standing,
    per_second: float,
    value_error: float | None,
    roles: Roles,
) -> None:
    """Report one chunk; where no episode ended in it, the mean reward is that of the last chunk in which one did."""
    context.report(
        kind="iteration",
        training_iteration=standing.iteration,
        env_steps=training.env_steps,
        agent_steps=training.agent_steps,
        episodes_total=training.episodes,
        episode_reward_mean=standing.reward,
        episode_reward_min=statistics.return_min,
        episode_reward_max=statistics.return_max,
        episode_len_mean=statistics.length_mean,
        env_steps_per_s=per_second,
        policies={name: {"reward_mean": mean} for name, mean in policy_returns(training, statistics, roles).items()},
        custom_metrics=_with_custom(
            statistics,
            {
                "epsilon": statistics.epsilon,
                "coverage": training.coverage,
                "td_error": statistics.td_error_mean,
                "value_error": value_error,
            },
        ),
    )


def _with_custom(statistics: Statistics, metrics: dict[str, float | None]) -> dict[str, float | None]:
    for name in statistics.custom_metrics.keys() & metrics.keys():
        raise InputError(
            f"The env's custom_metrics name '{name}', which the worker tabular reports itself. Call it otherwise."
        )
    return {**metrics, **statistics.custom_metrics}


def _evaluate(context: WorkerContext, training: Training, screen: Screen | None, roles: Roles) -> None:
    """Plays from files as a checkpoint's, so that what is examined is what `run:` would play."""
    owners = {agent: policy for policy, agents in roles.policies.items() for agent in agents}
    with TemporaryDirectory(prefix="mosaic-evaluation-") as name:
        folder = Path(name)
        training.save(folder)
        _save_facts(folder, context, Standing())

        def make(spec: EnvSpec, agent: AgentID) -> PolicyController:
            return _controller(folder, owners.get(agent, POLICY), spec, agent, spec.env_id)

        stopped = context.inbox.stop_asked
        for record in evaluate_learners(context.config, make, roles.played, screen, stopped):
            context.report(kind="evaluation", env_steps=training.env_steps, **record)


def _save(context: WorkerContext, training: Training, standing: Standing, roles: Roles) -> None:
    def save(folder: Path) -> None:
        training.save(folder)
        _save_facts(folder, context, standing)

    both_learn = context.config.policy_configuration == "self_play" and not roles.played
    context.checkpoint(
        save,
        env_steps=training.env_steps,
        policies={name: PolicyEntry(files=(FACTS,), agents=agents) for name, agents in roles.policies.items()},
        reward=standing.reward,
        best_by="env_steps" if both_learn else "reward",
        pickles=False,
    )


def _save_facts(folder: Path, context: WorkerContext, standing: Standing) -> None:
    options = context.options
    assert isinstance(options, TabularWorkerOptions)
    facts = {
        "iteration": standing.iteration,
        "reward": standing.reward,
        "bins": options.bins,
        "exploration": options.exploration,
        "epsilon": standing.epsilon,
        "temperature": options.temperature,
    }
    (folder / FACTS).write_text(json.dumps(facts))


def _load(checkpoint: Checkpoint, training: Training) -> Standing:
    training.restore(checkpoint.path, checkpoint.env_steps)
    facts = json.loads((checkpoint.path / FACTS).read_text())
    return Standing(int(facts["iteration"]), facts["reward"], facts.get("epsilon"))


worker = TabularWorker()
