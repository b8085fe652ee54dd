"""Backend on this machine's store: the functions that the server's routes call too. Imports wait until first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mosaic.core.ids import Json, JsonObject
from mosaic.ui.tui.backend.protocol import (
    CatalogSource,
    DemoSource,
    EvaluationSource,
    ExportSource,
    FileSource,
    MachineSource,
    MatchSource,
    MetricSource,
    PresetSource,
    ProjectSource,
    ReplaySource,
    RunSource,
    StartedRuns,
)

if TYPE_CHECKING:
    from mosaic.runs.trainer import Trainer
    from mosaic.server.machine_load import MachineLoad, MachineMeter
    from mosaic.server.schemas import EnvRow, FindingRow, WorkerRow
    from mosaic.store.projects.registry import ProjectDetails, ProjectRow
    from mosaic.store.store import Store
    from mosaic.store.views import RunRow
    from mosaic.ui.cli.backend import BackendRun
    from mosaic.ui.series import ManySeries, SeriesQuery
    from mosaic.ui.web.data.draft import Checked
    from mosaic.ui.web.data.env_info import EnvOffer
    from mosaic.ui.web.data.schema_fields import SchemaField


class LocalBackend:
    place = "this machine"

    def __init__(self, say: Callable[[str], None]) -> None:
        """Read the store of $MOSAIC_HOME; `say` takes notes for users, such as a run that cannot be read."""
        self._home = home = _Home()
        self.runs: RunSource = _LocalRuns(home, say)
        self.metrics: MetricSource = _LocalMetrics(home)
        self.machine: MachineSource = _LocalMachine()
        self.projects: ProjectSource = _LocalProjects(home)
        self.presets: PresetSource = _LocalPresets(home, say)
        self.catalog: CatalogSource = LocalCatalog()

    @cached_property
    def exports(self) -> ExportSource:
        from mosaic.runs.exporting.jobs import ExportJobs

        return ExportJobs(self._home.store)

    @cached_property
    def matches(self) -> MatchSource:
        from mosaic.ui.tui.backend.matches import LocalMatches

        return LocalMatches(self._home.store.home)

    @cached_property
    def evaluations(self) -> EvaluationSource:
        from mosaic.ui.tui.backend.evaluations import LocalEvaluations

        return LocalEvaluations(self._home.store.home)

    @cached_property
    def replays(self) -> ReplaySource:
        from mosaic.ui.tui.backend.replays import LocalReplays

        return LocalReplays(self._home.store.home)

    @cached_property
    def demos(self) -> DemoSource:
        from mosaic.store.demos.kept import KeptDemos

        return KeptDemos(self._home.store.home)

    @cached_property
    def files(self) -> FileSource:
        from mosaic.ui.tui.backend.files import LocalFiles

        return LocalFiles()


class _Home:
    @cached_property
    def store(self) -> Store:
        from mosaic.store.store import Store

        return Store()

    @cached_property
    def trainer(self) -> Trainer:
        from mosaic.runs.trainer import Trainer

        return Trainer(self.store.home)


class _LocalRuns:
    def __init__(self, home: _Home, say: Callable[[str], None]) -> None:
        self._home, self._say = home, say
        self._said: set[str] = set()

    def rows(self, *, hidden: bool = False) -> list[RunRow]:
        """Return the runs; what is wrong with others is said once, and again only when it has changed."""
        from mosaic.store.views import row_of

        index = self._home.store.index
        rows = [row_of(summary) for summary in index.list() if hidden or not summary.hidden]
        notes, index.notes = index.notes, []
        for text in sorted({*notes} - self._said):
            self._say(text)
        self._said = {*notes}
        return rows

    def run(self, ref: str) -> BackendRun:
        from mosaic.ui.cli.backend import LocalRun

        return LocalRun(self._home.trainer.run(ref))

    def start(self, document: Mapping[str, Json], seeds: int, *, queue: bool) -> StartedRuns:
        from mosaic.config.loading import parse_run_config
        from mosaic.workers.resolution import resolve

        resolved = resolve(parse_run_config(document))
        trainer = self._home.trainer
        if seeds > 1:
            made = trainer.submit_group(resolved, seeds, start=not queue)
        else:
            made = [trainer.submit(resolved, start=not queue)]
        return StartedRuns(tuple(run.id for run in made), queue)

    def start_queued(self, ref: str) -> None:
        self._home.trainer.run(ref).start()

    def queue(self) -> dict[str, str]:
        """Return the queued runs in the order in which a server of this machine would start them."""
        from mosaic.server.queue.policy import Demand, in_order
        from mosaic.store.state import LIVE, State

        def demands(states: Collection[State]) -> list[Demand]:
            runs = self._home.store.index.list(states=states)
            return [Demand(run.run_id, queued_at=run.queued_at, owner=run.group) for run in runs]

        queued = in_order(demands({State.QUEUED}), demands(LIVE))
        return dict.fromkeys((demand.run_id for demand in queued), "r starts it now; so does a server: mosaic serve")

    def check(self, document: Mapping[str, Json]) -> Checked:
        from mosaic.ui.web.data.draft import check

        return check(document)


class _LocalMetrics:
    def __init__(self, home: _Home) -> None:
        self._home = home

    def names(self, ref: str) -> tuple[str, ...]:
        from mosaic.telemetry.curves.curves import Curves

        return Curves(self._home.store.resolve(ref).path).names()

    def series(self, asked: SeriesQuery) -> ManySeries:
        from mosaic.ui.series import read_series

        return read_series(self._home.store, asked)


class _LocalMachine:
    @cached_property
    def _meter(self) -> MachineMeter:
        from mosaic.server.machine_load import MachineMeter

        return MachineMeter()

    def load(self) -> MachineLoad:
        return self._meter.read()

    def doctor(self) -> list[FindingRow]:
        from mosaic.server.schemas import FindingRow
        from mosaic.ui.health import examine

        return [FindingRow.model_validate(finding, from_attributes=True) for finding in examine()]


class _LocalProjects:
    def __init__(self, home: _Home) -> None:
        self._home = home

    def rows(self) -> list[ProjectRow]:
        return self._home.store.projects.rows()

    def details(self, name: str) -> ProjectDetails:
        return self._home.store.projects.details(name)

    def create(self, folder: str, name: str, env: str) -> str:
        from mosaic.core.errors import InputError
        from mosaic.store.projects.project import PROJECT_FILE, read_project

        if not folder:
            raise InputError("A project needs a folder.")
        path, projects = Path(folder).expanduser().absolute(), self._home.store.projects
        if not (path / PROJECT_FILE).exists():
            return projects.create(path, name or None, env=env or None).name
        project = read_project(path)
        projects.register(project)
        return project.name

    def rename(self, name: str, new_name: str) -> None:
        self._home.store.projects.rename(name, new_name)

    def forget(self, name: str) -> None:
        self._home.store.projects.forget(name)


class _LocalPresets:
    def __init__(self, home: _Home, say: Callable[[str], None]) -> None:
        self._home, self._say = home, say

    def here(self) -> JsonObject | None:
        """Return the project's settings, and enter it into the list of known ones, as training in it does."""
        from mosaic.core.errors import InputError

        projects = self._home.store.projects
        project = projects.here()
        if project is None:
            return None
        try:
            projects.register(project)
        except InputError as error:
            self._say(f"This project is not listed. {error}")
        return cast(JsonObject, project.settings())

    def save(self, project: str, preset: str, document: Mapping[str, Json]) -> None:
        from mosaic.store.projects.project import add_preset

        projects = self._home.store.projects
        here = projects.here()
        add_preset(here if here is not None and here.name == project else projects.find(project), preset, document)


class LocalCatalog:
    def envs(self) -> list[EnvRow]:
        from mosaic.envs import catalog
        from mosaic.server.schemas import EnvRow

        return [EnvRow.model_validate(entry, from_attributes=True) for entry in catalog.entries(None)]

    def workers(self) -> list[WorkerRow]:
        from mosaic.core.plugins import plugins
        from mosaic.server.schemas import worker_row

        return [worker_row(name) for name in plugins("mosaic.workers")]

    def look(self, env: str) -> EnvOffer:
        from mosaic.ui.web.data.env_info import EnvOffer, look_at, usual_algorithms

        return EnvOffer(look_at(env), usual_algorithms(env))

    def options(self, worker: str, algorithm: str) -> list[SchemaField]:
        from mosaic.ui.web.data.schema_fields import fields_of
        from mosaic.workers.registry import load_worker, options_model

        return fields_of(options_model(load_worker(worker), algorithm))

    def complaints(self, worker: str, algorithm: str, values: Mapping[str, Json]) -> dict[str, str]:
        from mosaic.ui.web.data.schema_fields import complaints
        from mosaic.workers.registry import load_worker, options_model

        return complaints(options_model(load_worker(worker), algorithm), values)
