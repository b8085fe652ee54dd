"""Where runs are asked for and found again: the API that scripts and screens use."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from mosaic.config.loading import load_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.runs.run import Run
from mosaic.store.home import Store
from mosaic.store.run_ids import new_run_id
from mosaic.store.summary import RunSummary
from mosaic.workers.registry import resolve

Asked: TypeAlias = RunConfig | Mapping[str, Any] | str | PathLike[str]


class Trainer:
    """The runs of one store. Nothing has to stay open: a run lives by itself once it is started."""

    def __init__(self, home: Path | None = None) -> None:
        """In `home`, or else where $MOSAIC_HOME says."""
        self.store = Store(home)

    def submit(self, config: Asked, *, start: bool = True, group: str | None = None) -> Run:
        """A new run of a configuration, a document, or a file that holds one. The same asked twice is two runs."""
        return self._submit(resolve(read_config(config)), start, group or "")

    def submit_group(self, config: Asked, seeds: int, *, start: bool = True) -> list[Run]:
        """Runs that differ in nothing but the seed, so that their curves can be put together."""
        if seeds < 1:
            raise InputError(f"A group has at least one run, not {seeds}.")
        one = resolve(read_config(config))
        group = one.run_id or new_run_id(one.environment.id, time.time(), secrets.randbelow)
        return [self._submit(_member(one, number), start, group) for number in range(1, seeds + 1)]

    def run(self, reference: str) -> Run:
        """By its id, a unique beginning of it, its name, or `latest`."""
        return Run(self.store, self.store.resolve(reference))

    def runs(self, **wanted: Any) -> list[Run]:
        """The newest first; `wanted` as for `summaries`."""
        return [Run(self.store, self.store.folder(each.run_id)) for each in self.summaries(**wanted)]

    def summaries(self, **wanted: Any) -> list[RunSummary]:
        """One line for each run, the newest first. `wanted`: states, tags, env, worker, group."""
        return self.store.index.list(**wanted)

    def _submit(self, config: RunConfig, start: bool, group: str) -> Run:
        run = Run(self.store, self.store.create(config, group=group))
        if start:
            run.start()
        return run


def read_config(asked: Asked) -> RunConfig:
    match asked:
        case RunConfig():
            return asked
        case str() | PathLike():
            return load_run_config(asked)
        case _:
            return parse_run_config(asked)


def _member(config: RunConfig, number: int) -> RunConfig:
    """The seeds come from the configuration's own, each by its number: a larger group holds the smaller one's runs."""
    changes: dict[str, Any] = {"seed": child_seed(config.seed, "group", number)}
    for key, text in (("run_id", config.run_id), ("name", config.name)):
        if text:
            changes[key] = f"{text}-{number}"
    return parse_run_config({**config.model_dump(mode="json"), **changes})
