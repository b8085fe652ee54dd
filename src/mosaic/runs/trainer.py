"""Where runs are asked for and found again: the API that scripts and screens use."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from mosaic.config.file_formats import read_document
from mosaic.config.loading import load_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.runs.groups import group_members
from mosaic.runs.mentioned import check_mentioned_runs
from mosaic.runs.run import Run
from mosaic.store.archives.trust import require_trust_in_file
from mosaic.store.index.summary import RunSummary
from mosaic.store.store import Store
from mosaic.workers.registry import resolve

Asked: TypeAlias = RunConfig | Mapping[str, Any] | str | PathLike[str]


class Trainer:
    """The runs of one store. Nothing has to stay open: a run lives by itself once it is started."""

    def __init__(self, home: Path | None = None) -> None:
        """In `home`, or else where $MOSAIC_HOME says."""
        self.store = Store(home)

    def submit(self, config: Asked, *, start: bool = True, group: str | None = None) -> Run:
        """A new run of a configuration, a document, or a file that holds one. The same asked twice is two runs."""
        return self._submit(read_config(config), start, group or "")

    def submit_group(self, config: Asked, seeds: int, *, start: bool = True) -> list[Run]:
        """Runs that differ in nothing but the seed, so that their curves can be put together."""
        group, members = group_members(read_config(config), seeds)
        return [self._submit(member, start, group) for member in members]

    def run(self, reference: str) -> Run:
        """By its id, a unique beginning of it, its name, or `latest`."""
        return Run(self.store, self.store.resolve(reference))

    def runs(self, **wanted: Any) -> list[Run]:
        """The newest first; `wanted` as for `summaries`."""
        return [Run(self.store, self.store.folder(each.run_id)) for each in self.summaries(**wanted)]

    def summaries(self, **wanted: Any) -> list[RunSummary]:
        """One line for each run, the newest first. `wanted`: states, tags, env, worker, group."""
        return self.store.index.list(**wanted)

    def _submit(self, asked: RunConfig, start: bool, group: str) -> Run:
        config = resolve(asked)
        check_mentioned_runs(config, self.store)
        run = Run(self.store, self.store.create(config, group=group, asked=asked))
        if start:
            run.start()
        return run


def read_config(asked: Asked) -> RunConfig:
    match asked:
        case RunConfig():
            return asked
        case str() | PathLike():
            require_trust_in_file(Path(asked), read_document(asked))
            return load_run_config(asked)
        case _:
            return parse_run_config(asked)
