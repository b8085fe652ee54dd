"""Protocols of what the terminal app reads and asks for; this machine and a server implement them alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mosaic.core.ids import Json, JsonObject

if TYPE_CHECKING:
    from mosaic.config.export import ExportRequest
    from mosaic.runs.exporting.record import ExportRow
    from mosaic.server.client.matches import MatchLink
    from mosaic.server.client.replays import ReplayLink
    from mosaic.server.evaluations.job import ExaminationRow
    from mosaic.server.evaluations.request import Kind
    from mosaic.server.machine_load import MachineLoad
    from mosaic.server.play.replay_views import EpisodeRow, ReplayAsked
    from mosaic.server.schemas import EnvRow, FindingRow, WorkerRow
    from mosaic.store.demos.summary import DemoDetails, DemoRow
    from mosaic.store.folders import FilePurpose, FolderRow
    from mosaic.store.projects.registry import ProjectDetails, ProjectRow
    from mosaic.store.views import LiveRow, LogPart, RunRow
    from mosaic.telemetry.frames.reader import Pictures
    from mosaic.ui.cli.backend import BackendRun
    from mosaic.ui.series import ManySeries, SeriesQuery
    from mosaic.ui.web.data.draft import Checked
    from mosaic.ui.web.data.env_info import EnvOffer
    from mosaic.ui.web.data.schema_fields import SchemaField


@dataclass(frozen=True, slots=True)
class StartedRuns:
    """Runs that were created; `queued`: they wait until a server starts them."""

    run_ids: tuple[str, ...]
    queued: bool


class RunSource(Protocol):
    def rows(self, *, hidden: bool = False) -> list[RunRow]:
        """Return the runs, newest first; with `hidden`, also those that are hidden from lists."""
        ...

    def run(self, ref: str) -> BackendRun: ...

    def start(self, document: Mapping[str, Json], seeds: int, *, queue: bool) -> StartedRuns:
        """Create one run per seed and start them; with `queue`, leave that to a server."""
        ...

    def start_queued(self, ref: str) -> None:
        """Start a run that waits in the queue."""
        ...

    def queue(self) -> dict[str, str]:
        """Return the queued runs in the order in which they will start, and why each waits."""
        ...

    def check(self, document: Mapping[str, Json]) -> Checked:
        """Resolve a draft, or say what is wrong with it."""
        ...


class MetricSource(Protocol):
    def names(self, ref: str) -> tuple[str, ...]:
        """Return every metric that a run has reported."""
        ...

    def series(self, asked: SeriesQuery) -> ManySeries: ...


class MachineSource(Protocol):
    def load(self) -> MachineLoad: ...

    def doctor(self) -> list[FindingRow]: ...


class ProjectSource(Protocol):
    def rows(self) -> list[ProjectRow]: ...

    def details(self, name: str) -> ProjectDetails: ...

    def create(self, folder: str, name: str, env: str) -> str:
        """Create a project, or open the one that the folder has; return its name. A server chooses the folder."""
        ...

    def rename(self, name: str, new_name: str) -> None: ...

    def forget(self, name: str) -> None:
        """Remove a project from the list; its folder and its runs stay."""
        ...


class PresetSource(Protocol):
    def here(self) -> JsonObject | None:
        """Return the settings of the project of the working directory; None where there is none."""
        ...

    def save(self, project: str, preset: str, document: Mapping[str, Json]) -> None:
        """Write a training preset into a project's mosaic.toml."""
        ...


class CatalogSource(Protocol):
    def envs(self) -> list[EnvRow]: ...

    def workers(self) -> list[WorkerRow]: ...

    def look(self, env: str) -> EnvOffer:
        """Return what a form needs to know about an env; this creates the env."""
        ...

    def options(self, worker: str, algorithm: str) -> list[SchemaField]:
        """Return the fields of `training.params`."""
        ...

    def complaints(self, worker: str, algorithm: str, values: Mapping[str, Json]) -> dict[str, str]:
        """Return what is wrong with options, by their name."""
        ...


class ExportSource(Protocol):
    """Exports; `ExportJobs` and `RemoteExports` have these verbs."""

    def start(self, request: ExportRequest) -> ExportRow: ...

    def rows(self, run: str | None = None) -> list[ExportRow]: ...

    def cancel(self, reference: str, *, wait: bool = True) -> ExportRow: ...

    def delete(self, reference: str) -> str: ...

    def log(self, reference: str) -> LogPart: ...

    def download(self, reference: str, name: str, to: Path) -> None: ...


class MatchSource(Protocol):
    """Matches to play or to watch, and other games that are being played."""

    def open(self, request: Mapping[str, Json]) -> MatchLink:
        """Open a match and join it; it says why it cannot begin when its first message is awaited."""
        ...

    def sessions(self) -> list[LiveRow]:
        """Return what is being played now apart from runs."""
        ...

    def join(self, session_id: str) -> MatchLink | None:
        """Join a match; None where it can only be watched, as one of another process of this machine."""
        ...

    def pictures(self, session_id: str, rate_hz: float) -> Pictures: ...


class EvaluationSource(Protocol):
    """Evaluations and tournaments: policies alone, without pictures."""

    def begin(self, kind: Kind, request: Mapping[str, Json]) -> ExaminationRow: ...

    def row(self, kind: Kind, examination_id: str) -> ExaminationRow: ...

    def rows(self) -> list[ExaminationRow]:
        """Return all, newest first, without their results."""
        ...

    def stop(self, kind: Kind, examination_id: str) -> ExaminationRow: ...


class ReplaySource(Protocol):
    """Recorded episodes, and replays of these and of demonstrations."""

    def episodes(self) -> list[EpisodeRow]:
        """Return the recorded matches, newest first."""
        ...

    def open(self, asked: ReplayAsked) -> ReplayLink: ...


class DemoSource(Protocol):
    """Demonstrations; `KeptDemos` and `RemoteDemos` have these verbs."""

    def rows(self) -> tuple[list[DemoRow], list[str]]: ...

    def details(self, name: str) -> DemoDetails: ...

    def drop(self, name: str, episodes: Collection[int] = (), last: int | None = None) -> DemoDetails: ...

    def trim(self, name: str, episode: int | None, first: int, last: int | None) -> DemoDetails: ...

    def filter(self, name: str, agent: str | None, least: float | None, most: float | None) -> DemoDetails: ...

    def delete(self, name: str) -> None: ...


class FileSource(Protocol):
    """Files to choose from: of this machine, or of the folders that a server shows."""

    place: str

    def show(self, folder: str, purpose: FilePurpose) -> FolderRow:
        """List a folder; "" is where to begin."""
        ...

    def read_config(self, file: str) -> str: ...


class AppBackend(Protocol):
    """Everything that the terminal app shows and does comes from here."""

    @property
    def place(self) -> str:
        """Return `this machine`, or the address of the server."""
        ...

    @property
    def exports(self) -> ExportSource: ...

    @property
    def matches(self) -> MatchSource: ...

    @property
    def evaluations(self) -> EvaluationSource: ...

    @property
    def replays(self) -> ReplaySource: ...

    @property
    def demos(self) -> DemoSource: ...

    @property
    def files(self) -> FileSource: ...

    runs: RunSource
    metrics: MetricSource
    machine: MachineSource
    projects: ProjectSource
    presets: PresetSource
    catalog: CatalogSource
