"""Folder of a search: its layout, creation and lookup."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mosaic.config.run import LATEST
from mosaic.core.errors import FormatError, InputError, nearest
from mosaic.core.reference import explain
from mosaic.runs.tuning.plan import SearchPlan
from mosaic.store.atomic import write_atomic
from mosaic.store.lock import RunLock
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store

SEARCHES = "searches"


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """`$MOSAIC_HOME/searches/<search_id>`."""

    path: Path

    @property
    def search_id(self) -> str:
        return self.path.name

    @property
    def home(self) -> Path:
        return self.path.parent.parent

    @property
    def plan(self) -> Path:
        return self.path / "search.json"

    @property
    def tune(self) -> Path:
        return self.path / "tune"  # Ray Tune's own

    @property
    def ray(self) -> Path:
        return self.path / "ray.json"  # exists as long as there may be Ray processes

    @property
    def best(self) -> Path:
        return self.path / "best.toml"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def cleanup_log(self) -> Path:
        return self.path / "keeper.log"

    def lock(self) -> RunLock:
        """Return the lock, held by the process that drives the search."""
        return RunLock(RunFolder(self.path))

    def read_plan(self) -> SearchPlan:
        try:
            return SearchPlan.model_validate(json.loads(self.plan.read_text()))
        except ValidationError as error:
            raise FormatError(f"{self.plan}: {explain(error, SearchPlan)}") from error
        except ValueError as error:
            raise FormatError(f"{self.plan} is damaged: {error}.") from error


def create_search(store: Store, plan: SearchPlan) -> SearchFolder:
    folder = SearchFolder(store.home / SEARCHES / plan.search_id)
    folder.path.mkdir(parents=True)
    write_atomic(folder.plan, plan.model_dump_json(indent=1) + "\n")
    return folder


def find_search(store: Store, reference: str) -> SearchFolder:
    """Find a search by its id, a unique prefix of it, or `latest`."""
    ids = sorted(path.parent.name for path in (store.home / SEARCHES).glob("*/search.json"))
    if not ids:
        raise InputError("There are no searches yet. Type: mosaic tune ENV --search NAME=VALUES")
    if reference == LATEST:
        return SearchFolder(store.home / SEARCHES / ids[-1])
    fitting = [name for name in ids if name == reference] or [name for name in ids if name.startswith(reference)]
    if len(fitting) == 1:
        return SearchFolder(store.home / SEARCHES / fitting[0])
    if fitting:
        raise InputError(
            f"{len(fitting)} searches begin with '{reference}': {', '.join(fitting)}. Type more of the id."
        )
    near = nearest(reference, ids)
    meant = f" Did you mean '{near}'?" if near else ""
    raise InputError(f"There is no search '{reference}'.{meant} The newest: {', '.join(ids[:-6:-1])}.")
