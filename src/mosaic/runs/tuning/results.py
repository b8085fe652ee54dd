"""Results of searches, while they run and afterwards: trials, the best one, and which options mattered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mosaic.core.errors import MosaicError
from mosaic.runs.tuning.folder import SEARCHES, SearchFolder, find_search
from mosaic.runs.tuning.plan import Mode, SearchPlan
from mosaic.runs.tuning.trial import value_at
from mosaic.store.index.summary import last_metrics
from mosaic.store.lock import held
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import LIVE, State
from mosaic.store.store import Store

Floats: TypeAlias = NDArray[np.float64]
SearchState: TypeAlias = Literal["running", "finished", "interrupted"]
_LEAST_TRIALS = 4  # with fewer, the importance of an option is chance
_TRIAL_STATES = {State.FINISHED: "done", State.QUEUED: "waiting", State.FAILED: "failed", State.LOST: "failed"}


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class SearchTrial(_Result):
    trial: int
    state: str = Field(description="waiting, running, paused, done, stopped or failed.")
    options: dict[str, Any]
    score: float | None = Field(None, description="Last value of the metric.")
    env_steps: int = 0
    run_id: str | None = None
    reason: str = Field("", description="Why it failed.")


class SearchDetails(_Result):
    search_id: str
    state: SearchState
    env: str
    worker: str | None
    algorithm: str | None
    scheduler: str
    metric: str
    mode: Mode
    planned: int = Field(description="Number of trials in all.")
    options: tuple[str, ...] = Field(description="Options that are searched.")
    trials: tuple[SearchTrial, ...] = Field(description="Best first; those without a score last.")
    importance: dict[str, float] = Field(
        description="Share of the order of the scores that each option explains alone, 0 to 1; empty with few trials."
    )

    @property
    def best(self) -> SearchTrial | None:
        return self.trials[0] if self.trials and self.trials[0].score is not None else None


def list_searches(store: Store) -> list[SearchDetails]:
    """Return all searches, newest first; those that cannot be read are left out."""
    found = []
    for path in sorted((store.home / SEARCHES).glob("*/search.json"), reverse=True):
        try:
            found.append(read_search(store, path.parent.name))
        except (MosaicError, OSError, ValueError):  # deleted meanwhile, or of another version
            continue
    return found


def read_search(store: Store, reference: str) -> SearchDetails:
    folder = find_search(store, reference)
    plan = folder.read_plan()
    settings, training = plan.settings, plan.config.training
    running = held(RunFolder(folder.path))
    trials = _of_runs(store, plan) if running or not folder.result.exists() else _of_result(folder, settings.metric)
    ended = sum(trial.state in ("done", "stopped", "failed") for trial in trials)
    sign = 1 if settings.mode == "max" else -1
    trials.sort(key=lambda each: (each.score is None, -sign * (each.score or 0.0), each.trial))
    return SearchDetails(
        search_id=plan.search_id,
        state="running" if running else "finished" if ended >= settings.trials else "interrupted",
        env=plan.config.environment.id,
        worker=training.worker,
        algorithm=training.algorithm,
        scheduler=settings.scheduler,
        metric=settings.metric,
        mode=settings.mode,
        planned=settings.trials,
        options=tuple(settings.search),
        trials=tuple(trials),
        importance=importance_of([each for each in trials if each.score is not None], tuple(settings.search)),
    )


def _of_result(folder: SearchFolder, metric: str) -> list[SearchTrial]:
    """Return the trials of a search that has ended, as it recorded them."""
    document = json.loads(folder.result.read_text())
    return [SearchTrial(**{**trial, "score": trial.pop(metric, None)}) for trial in document["trials"]]


def _of_runs(store: Store, plan: SearchPlan) -> list[SearchTrial]:
    """Return the trials of a search that has not recorded them, by the newest run of each."""
    found: dict[int, SearchTrial] = {}
    for row in store.index.list(tags=(plan.search_id,)):
        number = row.run_id.removeprefix(f"{plan.search_id}-").partition("-")[0]
        if not number.isdigit() or int(number) in found:
            continue
        folder = store.folder(row.run_id)
        params = folder.read_config().training.params
        state = "running" if row.state in LIVE else _TRIAL_STATES.get(row.state, "stopped")
        found[int(number)] = SearchTrial(
            trial=int(number),
            state=state,
            options={name: params.get(name) for name in plan.settings.search},
            score=value_at(last_metrics(folder.metrics).event, plan.settings.metric),
            env_steps=row.env_steps,
            run_id=row.run_id,
        )
    return list(found.values())


def importance_of(trials: Sequence[SearchTrial], options: Sequence[str]) -> dict[str, float]:
    """Return how much of the variance of the scores' ranks each option explains alone, the most important first.

    For numbers this is the square of Spearman's correlation, for other values the correlation ratio.
    """
    if len(trials) < _LEAST_TRIALS:
        return {}
    scores = _ranks([float(trial.score or 0.0) for trial in trials])
    found = {name: _explained([trial.options.get(name) for trial in trials], scores) for name in options}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _explained(values: Sequence[object], scores: Floats) -> float:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if scores.std() == 0 or len({json.dumps(value, default=str) for value in values}) < 2:
        return 0.0
    if len(numbers) == len(values):
        return float(np.corrcoef(_ranks(numbers), scores)[0, 1] ** 2)
    groups: dict[str, list[float]] = {}
    for value, score in zip(values, scores.tolist(), strict=True):
        groups.setdefault(json.dumps(value, default=str), []).append(score)
    between = sum(len(group) * (np.mean(group) - scores.mean()) ** 2 for group in groups.values())
    return float(between / ((scores - scores.mean()) ** 2).sum())


def _ranks(values: Sequence[float]) -> Floats:
    """Return ranks from 0; equal values share the mean of theirs."""
    array = np.asarray(values, float)
    return np.array([(np.sum(array < value) + np.sum(array <= value) - 1) / 2 for value in array])
