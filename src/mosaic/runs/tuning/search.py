"""A search from its first trial to its best configuration, and on after an interruption."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.tuning.cleanup import kept
from mosaic.runs.tuning.clearing import clear_search
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.runs.tuning.outcome import write_outcome
from mosaic.runs.tuning.ray_env import remembered
from mosaic.runs.tuning.standing import Standing, is_over
from mosaic.runtimes.ray.session import Record, check_installed, ray_session
from mosaic.store.atomic import write_atomic


class InterruptedSearchError(MosaicError):
    """Ctrl-C: what was done is kept."""


def run_search(folder: SearchFolder, watch: Callable[[Sequence[Standing]], None]) -> dict[str, Any]:
    """The document of the outcome. Finished trials of an earlier session are kept, unfinished ones go on.

    Nothing is alive when it returns, raises or is killed. After Ctrl-C it raises InterruptedSearchError.
    """
    check_installed()
    plan = folder.read_plan()
    with folder.lock() as lock:
        if not lock.try_acquire():
            raise InputError(f"Somebody is already driving the search {folder.search_id}.")
        clear_search(folder)
        with kept(folder), remembered(), ray_session(1, record=partial(_record, folder), prints=False):
            from mosaic.runs.tuning.ray_tune import drive

            standings = drive(folder, plan, watch)
        document = write_outcome(folder, plan, standings)
    if not is_over(standings, plan.settings.trials):
        raise InterruptedSearchError(f"The search {folder.search_id} was interrupted.")
    return document


def _record(folder: SearchFolder, record: Record) -> None:
    write_atomic(folder.ray, json.dumps(record) + "\n")
