"""Backend on a server: the HTTP API, through the client that the command line uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import TypeAdapter

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError, MissingExtraError, MosaicError, UnknownNameError
from mosaic.core.ids import Json, JsonObject
from mosaic.server.client.client import Client, RemoteRun
from mosaic.server.client.demos import RemoteDemos
from mosaic.server.client.exports import RemoteExports
from mosaic.server.schemas import CheckedRun
from mosaic.store.projects.registry import ProjectDetails, ProjectRow
from mosaic.ui.series import ManySeries, SeriesQuery
from mosaic.ui.tui.backend.evaluations import RemoteEvaluations
from mosaic.ui.tui.backend.files import RemoteFiles
from mosaic.ui.tui.backend.local import LocalCatalog
from mosaic.ui.tui.backend.matches import RemoteMatches
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
from mosaic.ui.tui.backend.replays import RemoteReplays

if TYPE_CHECKING:
    from mosaic.server.machine_load import MachineLoad
    from mosaic.server.schemas import EnvRow, FindingRow, WorkerRow
    from mosaic.store.views import RunRow
    from mosaic.ui.cli.backend import BackendRun
    from mosaic.ui.web.data.draft import Checked
    from mosaic.ui.web.data.env_info import EnvOffer
    from mosaic.ui.web.data.schema_fields import SchemaField

_NAMES = TypeAdapter(tuple[str, ...])


class RemoteBackend:
    def __init__(self, client: Client) -> None:
        self.place = client.url
        self.runs: RunSource = _RemoteRuns(client)
        self.metrics: MetricSource = _RemoteMetrics(client)
        self.machine: MachineSource = _RemoteMachine(client)
        self.projects: ProjectSource = _RemoteProjects(client)
        self.presets: PresetSource = _RemotePresets(client)
        self.catalog: CatalogSource = _RemoteCatalog(client)
        self.exports: ExportSource = RemoteExports(client)
        self.matches: MatchSource = RemoteMatches(client)
        self.replays: ReplaySource = RemoteReplays(client)
        self.demos: DemoSource = RemoteDemos(client)
        self.files: FileSource = RemoteFiles(client)
        self.evaluations: EvaluationSource = RemoteEvaluations(client)


class _RemoteRuns:
    def __init__(self, client: Client) -> None:
        self._client = client

    def rows(self, *, hidden: bool = False) -> list[RunRow]:
        return self._client.runs(hidden=hidden)

    def run(self, ref: str) -> BackendRun:
        return self._client.run(ref)

    def start(self, document: Mapping[str, Json], seeds: int, *, queue: bool) -> StartedRuns:
        """Queue the runs: a server starts them as soon as its limits allow."""
        made = [self._client.submit(document)] if seeds == 1 else self._group(document, seeds)
        return StartedRuns(tuple(run.id for run in made), queued=True)

    def _group(self, document: Mapping[str, Json], seeds: int) -> list[RemoteRun]:
        return self._client.submit_group(parse_run_config(document), seeds)

    def start_queued(self, ref: str) -> None:
        raise InputError("The server starts its queued runs itself, as soon as its limits allow.")

    def queue(self) -> dict[str, str]:
        return {row.run_id: row.reason for row in self._client.queue()}

    def check(self, document: Mapping[str, Json]) -> Checked:
        """Let the server resolve the document; one that has no pages does so when the run is started."""
        from mosaic.ui.web.data.draft import Checked

        try:
            checked = self._client.ask(CheckedRun, "POST", "/form/check", json=dict(document))
        except UnknownNameError as error:
            _require_no_pages(error)
            return _check_here(document)
        return Checked(None if checked.config is None else parse_run_config(checked.config), checked.error)


class _RemoteMetrics:
    def __init__(self, client: Client) -> None:
        self._client = client

    def names(self, ref: str) -> tuple[str, ...]:
        run_id = self._client.run(ref).id
        return _NAMES.validate_json(self._client.send("GET", f"/runs/{run_id}/metric-names").content)

    def series(self, asked: SeriesQuery) -> ManySeries:
        params: dict[str, str | int | float | Sequence[str]] = {"ref": asked.refs, "metric": asked.metrics}
        params |= {"x": asked.x, "points": asked.points}
        params |= {} if asked.start is None else {"start": asked.start}
        params |= {} if asked.stop is None else {"stop": asked.stop}
        try:
            return self._client.ask(ManySeries, "GET", "/series", params=params)
        except UnknownNameError as error:
            _require_no_pages(error)
            raise InputError("This server sends no charts: it was started with --no-pages.") from error


class _RemoteMachine:
    def __init__(self, client: Client) -> None:
        self._client = client

    def load(self) -> MachineLoad:
        return self._client.machine()

    def doctor(self) -> list[FindingRow]:
        return self._client.doctor()


class _RemoteProjects:
    def __init__(self, client: Client) -> None:
        self._client = client

    def rows(self) -> list[ProjectRow]:
        return self._client.projects()

    def details(self, name: str) -> ProjectDetails:
        return self._client.project(name)

    def create(self, folder: str, name: str, env: str) -> str:
        """Create a project in the server's own folder; another one is named only where its owner allows that."""
        named = name or PurePosixPath(folder).name
        if not named:
            raise InputError("A project needs a name.")
        asked: JsonObject = {"name": named, "env": env or None, "folder": folder or None}
        return self._client.ask(ProjectDetails, "POST", "/projects", json=asked).name

    def rename(self, name: str, new_name: str) -> None:
        self._client.send("PATCH", f"/projects/{quote(name, safe='')}", json={"name": new_name})

    def forget(self, name: str) -> None:
        self._client.forget_project(name)


class _RemotePresets:
    def __init__(self, client: Client) -> None:
        self._client = client

    def here(self) -> JsonObject | None:
        return None  # the folder of this terminal is not one of the server's

    def save(self, project: str, preset: str, document: Mapping[str, Json]) -> None:
        path = f"/projects/{quote(project, safe='')}/presets/{quote(preset, safe='')}"
        self._client.send("POST", path, json=dict(document))


class _RemoteCatalog:
    def __init__(self, client: Client) -> None:
        self._client, self._here = client, LocalCatalog()

    def envs(self) -> list[EnvRow]:
        return self._client.envs()

    def workers(self) -> list[WorkerRow]:
        return self._client.workers()

    def look(self, env: str) -> EnvOffer:
        """Ask the server, which creates the env; one without pages assigns the policies of agents at the start."""
        from mosaic.ui.web.data.env_info import EnvOffer

        try:
            return TypeAdapter(EnvOffer).validate_json(
                self._client.send("GET", "/form/env", params={"id": env}).content
            )
        except UnknownNameError as error:
            _require_no_pages(error)
            return EnvOffer(None, {})

    def options(self, worker: str, algorithm: str) -> list[SchemaField]:
        from mosaic.ui.web.data.schema_fields import fields_of_schema

        return fields_of_schema(self._client.schema(worker, algorithm))

    def complaints(self, worker: str, algorithm: str, values: Mapping[str, Json]) -> dict[str, str]:
        """Check with this machine's worker; options of one that only the server has are checked there, at the start."""
        try:
            return self._here.complaints(worker, algorithm, values)
        except (UnknownNameError, MissingExtraError):
            return {}


def _require_no_pages(error: UnknownNameError) -> None:
    """Raise the error unless it is that of a server without pages, which has not these routes."""
    if "Not Found" not in str(error):
        raise error


def _check_here(document: Mapping[str, Json]) -> Checked:
    from mosaic.ui.web.data.draft import Checked

    try:
        return Checked(parse_run_config(document))
    except MosaicError as error:
        return Checked(None, str(error))
