"""Settings and plan of one search."""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mosaic.config.field_types import SHAPES_CHECKPOINTS, AnyCase
from mosaic.config.run import RunConfig
from mosaic.config.sections import Section
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.plugins import plugins
from mosaic.runs.tuning.search_space import Space, parse_space
from mosaic.store.run_folder import new_run_id
from mosaic.workers.registry import load_worker, options_model
from mosaic.workers.resolution import choose

Scheduler: TypeAlias = Literal["asha", "pbt", "none"]
Mode: TypeAlias = Literal["max", "min"]

_DECISIONS: dict[Scheduler, int] = {"asha": 9, "pbt": 10, "none": 1}  # parts that a whole trial is divided into
_REPORTS = 100  # per whole trial


class TuneSettings(Section):
    """The section [tune] of a settings file."""

    search: dict[str, str] = Field(
        default_factory=dict, description="Options to search: {learning_rate: log:1e-5..1e-2, n_steps: 32|64|128}."
    )
    scheduler: Annotated[Scheduler, AnyCase] = Field(
        "asha",
        description="asha stops weak trials early, pbt continues them as modified copies of strong ones, none lets all "
        "finish.",
    )
    trials: int = Field(8, ge=1, le=10_000, description="Number of trials in all (pbt: at the same time).")
    metric: str = Field(
        "episode_reward_mean", min_length=1, description="Metric to compare: a field of iteration events, by its path."
    )
    mode: Annotated[Mode, AnyCase] = Field("max", description="Whether to maximise or minimise the metric.")
    concurrent: int | None = Field(None, ge=1, le=64, description="Trials at the same time; None: one per core.")
    decision_steps: int | None = Field(
        None,
        ge=1,
        description="asha: env steps that every trial gets; pbt: env steps between exchanges. "
        "None: a ninth, a tenth of a trial.",
    )


class SearchPlan(Section):
    """Everything needed to start a search, and to start it again."""

    version: Literal[1] = 1
    search_id: str
    config: RunConfig  # resolved: worker, algorithm and steps are known
    settings: TuneSettings
    concurrent: int = Field(ge=1)
    working_folder: str  # where python:MODULE:NAME is looked up

    @property
    def steps(self) -> int:
        steps = self.config.training.total_timesteps
        assert steps is not None, "make_plan saw to it"
        return steps

    @property
    def report_every_steps(self) -> int:
        return max(1, self.steps // _REPORTS)

    @property
    def decision_steps(self) -> int:
        asked = self.settings.decision_steps
        return max(1, self.steps // _DECISIONS[self.settings.scheduler]) if asked is None else asked

    def space(self) -> Space:
        training = self.config.training
        assert training.worker is not None, "the configuration is resolved"
        assert training.algorithm is not None, "the configuration is resolved"
        return parse_space(self.settings.search, load_worker(training.worker), training.algorithm, training.params)


def make_plan(config: RunConfig, settings: TuneSettings, cores: int, working_folder: str) -> SearchPlan:
    """Make a plan, checked in every way that is possible before a run has begun."""
    config = choose(config)
    if not settings.search:
        raise InputError(
            "Name what to search: --search learning_rate=log:1e-5..1e-2 --search n_steps='32|64|128'. The options: "
            f"mosaic schema {config.training.worker} {config.training.algorithm}"
        )
    if config.training.total_timesteps is None:
        raise InputError("Limit the length of a trial: --steps N env steps.")
    if config.run_id is not None:
        raise InputError("A search names its runs itself. Leave run_id out.")
    if None in config.training.params.values():
        empty = next(name for name, value in config.training.params.items() if value is None)
        raise InputError(f"training.params.{empty} is null, which the best options' file cannot hold. Leave it out.")
    plan = SearchPlan(
        search_id=new_run_id(config.environment.id, time.time(), secrets.randbelow),
        config=config,
        settings=settings,
        concurrent=min(settings.concurrent or cores, settings.trials, 64),
        working_folder=working_folder,
    )
    plan.space()
    _check_decisions(plan)
    if settings.scheduler == "pbt":
        _check_population(plan)
    return plan


def _check_decisions(plan: SearchPlan) -> None:
    if plan.decision_steps > plan.steps:
        raise InputError(
            f"decision_steps is {plan.decision_steps:,} and a trial ends after {plan.steps:,} env steps: "
            "nothing would ever be decided. Ask for fewer, or leave it out."
        )


def _check_population(plan: SearchPlan) -> None:
    """Check that a trial can continue from another's checkpoint: the worker says so, and checkpoints are written."""
    worker = plan.config.training.worker
    info = load_worker(str(worker)).info
    if not info.population:
        able = [name for name in plugins("mosaic.workers") if _declares_population(name)]
        raise InputError(
            f"The worker {worker} does not continue from another run's checkpoint with other options, which "
            f"population-based training requires. These do: {', '.join(able)}. Type: --scheduler asha"
        )
    _check_shapes(plan)
    if plan.settings.trials < 2:
        raise InputError("A population has at least 2 members. Type: --trials 4")
    if not plan.config.checkpoint.at_end:
        raise InputError("Population-based training needs what a run saves at its end: leave checkpoint.at_end true.")


def _declares_population(name: str) -> bool:
    try:
        return load_worker(name).info.population
    except MissingExtraError:
        return False


def _check_shapes(plan: SearchPlan) -> None:
    """Refuse options that would make a copied trial fail in the middle of the search."""
    training = plan.config.training
    fields = options_model(load_worker(str(training.worker)), str(training.algorithm)).model_fields
    for name, spec in plan.settings.search.items():
        if SHAPES_CHECKPOINTS in fields[name].metadata:
            raise InputError(
                f"--search {name}={spec}: in population-based training a trial continues from another trial's "
                f"checkpoint, which fits no other '{name}'. Type: --scheduler asha, or give all trials the same: "
                f"--set training.params.{name}=VALUE"
            )
