"""Store of runs, which creates and finds their folders."""

from __future__ import annotations

import os
import secrets
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.config.run import RunConfig, check_run_id
from mosaic.core.errors import InputError, unknown
from mosaic.store.archives.signature import RUNS, run_digest, seal
from mosaic.store.checkpoint_folder import place_elsewhere, undo_placement
from mosaic.store.errors import StorageError
from mosaic.store.index.index import Index
from mosaic.store.run_folder import RunFolder, new_run_id
from mosaic.store.staging import TakenError, staged
from mosaic.store.state import RunState, State, write_state

if TYPE_CHECKING:
    from mosaic.store.projects.registry import ProjectRegistry


def home() -> Path:
    """Return $MOSAIC_HOME, or the platform's folder for user data."""
    from platformdirs import user_data_path

    chosen = os.environ.get("MOSAIC_HOME")
    return Path(chosen).expanduser().absolute() if chosen else user_data_path("mosaic", appauthor=False)


class Store:
    def __init__(self, path: Path | None = None) -> None:
        """Open the store at `path`, by default the user's home of Mosaic; nothing is created before the first run."""
        self.home = home() if path is None else Path(path).absolute()
        self.runs = self.home / RUNS

    @cached_property
    def index(self) -> Index:
        return Index(self.home)

    @cached_property
    def projects(self) -> ProjectRegistry:
        from mosaic.store.projects.registry import ProjectRegistry  # starting a run does without it

        return ProjectRegistry(self.home)

    def folder(self, run_id: str) -> RunFolder:
        """Return the folder for a complete id, whether the run exists or not."""
        try:
            return RunFolder(self.runs / check_run_id(run_id))
        except ValueError as error:
            raise InputError(f"'{run_id}' is not a valid run id: {error}.") from error

    def project_names(self, project: str | None) -> set[str]:
        """Return the names that the runs of a project carry, its earlier ones too; none, which means all, for None."""
        if project is None:
            return set()
        known = {entry.name for entry in self.projects.entries()}
        if project not in known:  # a run may have been imported, or its project's entry deleted
            known |= {run.project for run in self.index.list() if run.project}
        if project not in known:
            raise unknown("project", project, known)
        return self.projects.names(project)

    def resolve(self, reference: str) -> RunFolder:
        """Find a run by its id, a unique prefix of it, its name, or `latest`."""
        return self.index.resolve(reference)

    def create(
        self, config: RunConfig, *, group: str = "", now: float | None = None, asked: RunConfig | None = None
    ) -> RunFolder:
        """Create a queued run, requested from the working directory, with a unique id. It appears once it is complete.

        `asked` is the configuration before Mosaic filled in what it leaves open.
        """
        from mosaic.store.origin import origin_here, packages_of, write_origin

        now = time.time() if now is None else now
        self.index.prepare()
        with staged(self.runs) as made:
            made.folder.write_config(config)
            write_origin(made.folder, origin_here((asked or config).model_dump(mode="json"), packages_of(config)))
            while True:
                run_id = config.run_id or new_run_id(config.environment.id, now, secrets.randbelow)
                state = RunState(
                    run_id=run_id,
                    state=State.QUEUED,
                    queued_at=now,
                    updated=now,
                    group=group,
                    working_folder=os.getcwd(),
                    seal=seal(made.folder, run_digest(run_id)),
                )
                write_state(made.folder, state)
                if config.checkpoint.folder is not None:
                    place_elsewhere(made.folder, run_id, config.checkpoint.folder)
                try:
                    return made.publish(run_id)
                except StorageError as error:
                    undo_placement(made.folder)
                    if not isinstance(error, TakenError):
                        raise
                    if config.run_id:
                        raise InputError(f"{error} Choose another run_id, or leave it out.") from error
