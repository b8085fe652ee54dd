"""Search from its first trial to its best configuration, resumable after an interruption."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from mosaic.config.file_formats import write_toml
from mosaic.config.loading import dump_run_config
from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.cleanup import cleanup_process, clear_search
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.runs.tuning.plan import Mode, SearchPlan
from mosaic.runtimes.ray.session import Record, check_installed, ray_session
from mosaic.store.atomic import write_atomic

TrialState: TypeAlias = Literal["waiting", "running", "paused", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class TrialStanding:
    trial: int
    state: TrialState
    options: Mapping[str, object]
    score: float | None = None  # the last one
    env_steps: int = 0
    run_id: str | None = None  # the newest of its runs
    reason: str = ""  # why it failed

    def document(self, metric: str) -> dict[str, object]:
        row = asdict(self)
        score = row.pop("score")
        return {**row, metric: score}


def best_of(standings: Iterable[TrialStanding], mode: Mode) -> TrialStanding | None:
    """Return the trial with the best last score; ties go to the first."""
    sign = 1 if mode == "max" else -1
    rated = [each for each in standings if each.score is not None and each.state != "failed"]
    return max(rated, key=lambda each: (sign * (each.score or 0.0), -each.trial), default=None)


def is_over(standings: Iterable[TrialStanding], trials: int) -> bool:
    """Return whether every planned trial has ended."""
    return sum(each.state in ("done", "stopped", "failed") for each in standings) >= trials


_OF_THE_RUN = ("run_id", "name", "tags")


def write_outcome(folder: SearchFolder, plan: SearchPlan, standings: Sequence[TrialStanding]) -> dict[str, Any]:
    """Write the outcome and return the document that `mosaic tune --json` prints."""
    metric, mode = plan.settings.metric, plan.settings.mode
    best = best_of(standings, mode)
    document = {
        "search_id": plan.search_id,
        "env": plan.config.environment.id,
        "worker": plan.config.training.worker,
        "algorithm": plan.config.training.algorithm,
        "scheduler": plan.settings.scheduler,
        "metric": metric,
        "mode": mode,
        "trials": [standing.document(metric) for standing in standings],
        "best": None if best is None else {**best.document(metric), "config": str(folder.best)},
    }
    if best is not None and best.run_id is not None:
        write_atomic(folder.best, _best_config(folder, best.run_id, metric, best.score))
    write_atomic(folder.result, json.dumps(document, indent=1) + "\n")
    return document


def _best_config(folder: SearchFolder, run_id: str, metric: str, score: float | None) -> str:
    config = dump_run_config(Trainer(folder.home).run(run_id).config)
    kept = {key: value for key, value in config.items() if key not in _OF_THE_RUN}
    kept["training"]["preset"] = False  # its options are already here
    return f"# {metric} {score:.6g} in the run {run_id}\n{write_toml(kept)}"


class InterruptedSearchError(MosaicError):
    """Error for a search interrupted by Ctrl-C; completed work is kept."""


def run_search(folder: SearchFolder, watch: Callable[[Sequence[TrialStanding]], None]) -> dict[str, Any]:
    """Run the search and return the document of its outcome.

    Finished trials of an earlier session are kept, unfinished ones are resumed. No process is left when this returns,
    raises or is killed. Raises InterruptedSearchError after Ctrl-C.
    """
    check_installed()
    plan = folder.read_plan()
    with folder.lock() as lock:
        if not lock.try_acquire():
            raise InputError(f"Another process is already running the search {folder.search_id}.")
        clear_search(folder)
        with cleanup_process(folder), remembered(), ray_session(1, record=partial(_record, folder), prints=False):
            from mosaic.runs.tuning.ray_tune import drive

            standings = drive(folder, plan, watch)
        document = write_outcome(folder, plan, standings)
    if not is_over(standings, plan.settings.trials):
        raise InterruptedSearchError(f"The search {folder.search_id} was interrupted.")
    return document


def _record(folder: SearchFolder, record: Record) -> None:
    write_atomic(folder.ray, json.dumps(record) + "\n")


_NAMES = "MOSAIC_TUNE_VARIABLES"


@contextmanager
def remembered() -> Iterator[None]:
    """Record the names of the user's environment variables, for Ray to be started with.

    Ray adds variables to its processes that would change a run (threads, addresses, the mark by which a session's
    leftovers are found and killed), and moves them to folders that vanish.
    """
    os.environ[_NAMES] = "\n".join(os.environ)
    try:
        yield
    finally:
        os.environ.pop(_NAMES, None)


def return_to(working_folder: str) -> None:
    """Restore the user's variables and working folder in an actor, before it starts a run."""
    kept = os.environ.get(_NAMES)
    if kept is not None:
        names = set(kept.split("\n"))
        for name in [name for name in os.environ if name not in names]:
            del os.environ[name]
    os.chdir(working_folder)
