"""The worker that trains tables: on a compiled twin or in a hashed table where there is one, else step by step."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, Field

from mosaic.config.environment import EnvironmentConfig
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.compiled.game import Game
from mosaic.envs.compiled.twins import encode_observation, find_twin
from mosaic.envs.family import split_version
from mosaic.learners.tabular.settings import ALGORITHMS, TabularOptions
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.policies.tabular import TabularPolicyController
from mosaic.store.checkpoints import Checkpoint, PolicyEntry
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.context import WorkerContext
from mosaic.workers.ray_record import StartRay, ray_of_run
from mosaic.workers.tabular_hashed import hashed_controller, in_hashed_table, is_hashed, make_hashed_training
from mosaic.workers.tabular_spread import ended_after, make_spread_training

if TYPE_CHECKING:  # what brings numba along is imported when a run begins
    from mosaic.learners.tabular.twin_training import Statistics, TwinTraining
    from mosaic.learners.tabular.value_error import ValueGauge

POLICY = "table"
FACTS = "facts.json"
SEATS = {"first": "player_1", "second": "player_2"}  # policies where each seat has its own table


class TabularWorkerOptions(TabularOptions):
    """What `training.params` may say."""

    opponent: Literal["self", "random"] = Field(
        "self", description="In turn-based games: who plays the other seat while the table learns."
    )
    tables: Literal["one", "two"] = Field(
        "one", description="In self-play: one table that both seats share, or one for each seat."
    )
    report_every_steps: int | None = Field(
        None, ge=1, description="Agent steps between two metric events; None: about fifty events in all."
    )
    bins: int | list[int | str] | None = Field(
        None, description="How Box observations are cut: 8, or one entry per number such as [8, '8@-3..3']."
    )
    merge_every_steps: int = Field(
        1_000_000, ge=1, description="Agent steps of each learner between two merges (runtimes parallel, ray and mpi)."
    )
    table_memory_mb: int | None = Field(
        None, ge=1, description="Megabytes that a hashed table may grow to (connect four); None: what is free."
    )

    def of_the_table(self) -> TabularOptions:
        """Without what concerns the worker alone."""
        return TabularOptions.model_validate({name: getattr(self, name) for name in TabularOptions.model_fields})


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


class TabularWorker:
    info = WorkerCapabilities(
        name="tabular",
        version=version("mosaic-rl"),
        algorithms=ALGORITHMS,
        paradigms=("parameter_sharing", "self_play"),
        action_kinds=("discrete", "multi_discrete", "multi_binary", "tuple", "dict"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "tuple", "dict", "box"),
        max_agents=2,
        self_play=True,
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
    )
    loads_pickles = False  # safetensors and JSON

    def options(self, algorithm: str) -> type[BaseModel]:
        return TabularWorkerOptions

    def run(self, context: WorkerContext) -> None:
        options = context.options
        assert isinstance(options, TabularWorkerOptions)
        with (
            ray_of_run(context.folder) as start_ray,
            ended_after(make_training(context.config, options, start_ray)) as training,
        ):
            self._train(context, options, training)

    def _train(self, context: WorkerContext, options: TabularWorkerOptions, training: Training) -> None:
        gauge = _gauge(training, options)
        standing = _load(context.resume_from, training) if context.resume_from else Standing()

        def save() -> None:
            _save(context, training, standing)

        chunk = options.report_every_steps or _chunk(context.config.training.total_timesteps)
        while not context.done(training.env_steps, training.episodes, standing.reward):
            context.inbox.wait_while_paused(save)
            if context.inbox.stop_asked():
                break
            started, before = perf_counter(), training.env_steps
            training.advance(_ask(context, training, chunk), context.config.training.episodes or 0)
            statistics = training.read_statistics()
            standing.iteration += 1
            standing.reward = statistics.return_mean if statistics.episodes else standing.reward
            speed = (training.env_steps - before) / (perf_counter() - started)
            _report(context, training, statistics, standing.iteration, speed, gauge.error() if gauge else None)
            if context.checkpoint_due(training.env_steps):
                save()
        if context.config.checkpoint.at_end:
            save()

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        from mosaic.learners.tabular.saved_values import on_twin, read_values

        spec = request.spec
        trained_in = EnvironmentConfig.model_validate(checkpoint.manifest.environment).id
        if split_version(trained_in)[0] != split_version(spec.env_id)[0]:
            raise InputError(f"'{request.reference}' was trained in {trained_in} and cannot play {spec.env_id}.")
        agent = spec.possible_agents[0]
        space, actions = spec.observation_spaces[agent], space_code(spec.action_spaces[agent])
        if in_hashed_table(checkpoint.path):
            return hashed_controller(checkpoint.path, actions.decode)
        values = read_values(checkpoint.path, policy)
        if on_twin(checkpoint.path):
            return TabularPolicyController(values, encode_observation(trained_in, space), actions.decode)
        bins = json.loads((checkpoint.path / FACTS).read_text())["bins"]
        return TabularPolicyController(values, space_code(space, bins).encode, actions.decode)


def make_training(config: RunConfig, options: TabularWorkerOptions, start_ray: StartRay) -> Training:
    """The way to train that fits the env; which one, and why, is said on the log."""
    from mosaic.learners.tabular import kernels
    from mosaic.learners.tabular.twin_training import TwinTraining
    from mosaic.runtimes.parallel import ParallelTraining

    algorithm = config.training.algorithm or ALGORITHMS[0]
    if options.tables == "two":
        return _two_tables(config, algorithm, options)
    if is_hashed(config.environment):
        return make_hashed_training(config, algorithm, options)
    twin = find_twin(config.environment)
    if twin is None or algorithm not in kernels.ALGORITHMS or options.exploration != "epsilon_greedy":
        asked = f"{algorithm} with {options.exploration}"
        why = "it has no compiled twin" if twin is None else f"the compiled loop does not know {asked}"
        return _played(config, algorithm, options, why)

    def make(number: int) -> TwinTraining:
        seed = child_seed(config.seed, "learner", number)
        return TwinTraining(twin, algorithm, options, seed, options.opponent)

    if config.resources.runtime == "parallel":
        threads = max(1, min(config.resources.num_workers, _cores()))
        print(f"{algorithm} on the compiled twin of {config.environment.id}, {threads} threads")
        return ParallelTraining(make, threads, options.merge_every_steps)
    if config.resources.runtime not in (None, "single"):
        table, every = options.of_the_table(), options.merge_every_steps
        return make_spread_training(config, twin, algorithm, table, options.opponent, every, start_ray)
    print(f"{algorithm} on the compiled twin of {config.environment.id}, one thread")
    return make(0)


def _two_tables(config: RunConfig, algorithm: str, options: TabularWorkerOptions) -> Training:
    from mosaic.learners.tabular.two_tables import TwoTableTraining

    twin, env_id = find_twin(config.environment), config.environment.id
    if not isinstance(twin, Game):
        raise InputError(f"tables=two is for turn-based games with a compiled twin, and {env_id} is none.")
    if options.opponent != "self":
        raise InputError(f"tables=two needs self-play, but the opponent is {options.opponent}. Use opponent=self.")
    if config.resources.runtime not in (None, "single"):
        raise InputError(f"tables=two runs on one thread, not with the runtime {config.resources.runtime}.")
    print(f"{algorithm} on the compiled twin of {env_id}, one thread, a table for each seat")
    return TwoTableTraining(twin, algorithm, options, child_seed(config.seed, "learner", 0))


def _gauge(training: Training, options: TabularWorkerOptions) -> ValueGauge | None:
    """None where the true values cannot be known: only a table with a row for each state of a twin shows the rules."""
    from mosaic.learners.tabular.value_error import Tabled, ValueGauge

    if not isinstance(training, Tabled) or training.values.shape != training.twin.legal.shape:
        return None
    return ValueGauge(training, options.discount_factor, options.opponent)


def _played(config: RunConfig, algorithm: str, options: TabularWorkerOptions, why: str) -> Training:
    from mosaic.learners.tabular.played_training import PlayedTraining

    if config.resources.runtime not in (None, "single"):
        runtime = config.resources.runtime
        raise InputError(f"The runtime {runtime} needs a compiled loop, but for {config.environment.id} {why}.")
    environment = config.environment
    if options.bins is not None:
        bins = "/".join(map(str, options.bins)) if isinstance(options.bins, list) else str(options.bins)
        wrappers = (*environment.wrappers, f"discretise:bins={bins}")
        environment = environment.model_copy(update={"wrappers": wrappers})
    print(f"{algorithm} in {environment.id} itself, step by step: {why}")
    return PlayedTraining(make_env(environment), algorithm, options.of_the_table(), config.seed)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _chunk(total_timesteps: int | None) -> int:
    """Agent steps between two reports: the same for the same configuration, whatever the machine."""
    return 1_000_000 if total_timesteps is None else min(5_000_000, max(10_000, total_timesteps // 50))


def _ask(context: WorkerContext, training: Training, chunk: int) -> int:
    """How many agent steps to take now; a random opponent's replies are env steps too."""
    total = context.config.training.total_timesteps
    if total is None:
        return chunk
    per_step = training.env_steps / training.agent_steps if training.agent_steps else 1.0
    return max(1, min(chunk, int((total - training.env_steps) / max(1.0, per_step))))


def _report(
    context: WorkerContext,
    training: Training,
    statistics: Statistics,
    iteration: int,
    per_second: float,
    value_error: float | None,
) -> None:
    context.report(
        kind="iteration",
        training_iteration=iteration,
        env_steps=training.env_steps,
        agent_steps=training.agent_steps,
        episodes_total=training.episodes,
        episode_reward_mean=statistics.return_mean,
        episode_reward_min=statistics.return_min,
        episode_reward_max=statistics.return_max,
        episode_len_mean=statistics.length_mean,
        env_steps_per_s=per_second,
        policies={name: {"reward_mean": mean} for name, mean in _returns(context, statistics.return_mean).items()},
        custom_metrics={
            "epsilon": statistics.epsilon,
            "coverage": training.coverage,
            "td_error": statistics.td_error_mean,
            "value_error": value_error,
        },
    )


def _policies(context: WorkerContext) -> Mapping[str, str]:
    """The agents that each policy plays for, as a pattern."""
    options = context.options
    assert isinstance(options, TabularWorkerOptions)
    return SEATS if options.tables == "two" else {POLICY: "*"}


def _returns(context: WorkerContext, mean: float | None) -> Mapping[str, float | None]:
    """A game's return is that of the seat that begins, and the game is zero-sum."""
    first, *others = _policies(context)
    return {first: mean, **dict.fromkeys(others, None if mean is None else 0.0 - mean)}


def _save(context: WorkerContext, training: Training, standing: Standing) -> None:
    options = context.options
    assert isinstance(options, TabularWorkerOptions)
    facts = {"iteration": standing.iteration, "reward": standing.reward, "bins": options.bins}

    def save(folder: Path) -> None:
        training.save(folder)
        (folder / FACTS).write_text(json.dumps(facts))

    context.checkpoint(
        save,
        env_steps=training.env_steps,
        policies={name: PolicyEntry(files=(FACTS,), agents=(seat,)) for name, seat in _policies(context).items()},
        reward=standing.reward,
        pickles=False,
    )


def _load(checkpoint: Checkpoint, training: Training) -> Standing:
    training.restore(checkpoint.path, checkpoint.env_steps)
    facts = json.loads((checkpoint.path / FACTS).read_text())
    return Standing(int(facts["iteration"]), facts["reward"])


worker = TabularWorker()
