"""Cached facts about runs and this machine, read at most once a second for any number of tabs."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from threading import Lock
from time import monotonic
from typing import TypeVar, cast

from nicegui import run as threads

from mosaic.config.loading import parse_run_config
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import EnvID, Json
from mosaic.server.context import ServerContext
from mosaic.server.env_trial import check_environment
from mosaic.server.machine_load import MachineLoad, MachineMeter
from mosaic.server.schemas import FindingRow
from mosaic.store.index.summary import RunSummary
from mosaic.store.projects.registry import ProjectDetails, ProjectRow
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import LIVE
from mosaic.store.views import CurvePoints, RunDetails, curve_of, details_of
from mosaic.telemetry.curves.curves import Curves
from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.events.journal import whole_events
from mosaic.ui.cli.group_results import settings_key
from mosaic.ui.series import seed_group
from mosaic.ui.web.data.draft import Checked, check
from mosaic.ui.web.data.env_info import EnvLook, look_at
from mosaic.ui.web.data.progress import Iteration

_BYTES = 256 << 10
_COMPILING = "compiling"
_START_BYTES = 32 << 10  # has the start of a run


def _newest(folder: RunFolder, *kinds: str) -> Iterator[MetricEvent]:
    """Yield events of these kinds, from the newest on, as far as the end of the file has them."""
    if not folder.metrics.exists():
        return
    with folder.metrics.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(max(0, length - _BYTES))
        lines = file.read(_BYTES).split(b"\n")
    whole = lines[:-1] if length <= _BYTES else lines[1:-1]  # the first may be cut off, the last is still being written
    words = [f'"{kind}"'.encode() for kind in kinds]
    named = [line for line in whole if any(word in line for word in words)]
    for event in reversed(_readable(named)):
        if event["kind"] in kinds:
            yield event


def _readable(lines: Iterable[bytes]) -> list[MetricEvent]:
    """Return the events of these lines, without damaged ones."""
    return whole_events(b"".join(line + b"\n" for line in lines)).found


def last_iteration(folder: RunFolder) -> Iteration:
    """Return the newest iteration event; empty where the end of the file has none.

    Reports by the clock, and before the first sample, do not know how the time is spent: then it is that of the last
    iteration that ended, if there is one.
    """
    found: Iteration = {}
    for event in _newest(folder, "iteration"):
        iteration = cast(Iteration, event)
        found = found or iteration
        if iteration.get("trigger") != "clock" and event.get("env_steps"):
            return {**found, "time_split": iteration.get("time_split") or {}}
    found.pop("time_split", None)
    return found


def settings_of(folder: RunFolder) -> tuple[str, Mapping[str, Json]]:
    config = json.loads(folder.config.read_bytes())
    return settings_key(config), config


def start_phases(folder: RunFolder, queued_at: float) -> list[tuple[float, str]]:
    """Return when each part of the first attempt's start began, until its first env steps."""
    found = [(queued_at, "Submitted")]
    if not folder.metrics.exists():
        return found
    with folder.metrics.open("rb") as file:
        lines = file.read(_START_BYTES).split(b"\n")[:-1]
    for event in _readable(lines):
        match event["kind"]:
            case "started":
                found.append((event["timestamp"], "The worker's process has started"))
            case "compiling" if found[-1][1].startswith(_COMPILING):  # the last one says how long it took
                found[-1] = (found[-1][0], str(event.get("message")))
            case "stage" | "compiling" | "equipped" if event.get("message"):
                found.append((event["timestamp"], str(event.get("message"))))
            case "iteration" if event.get("env_steps"):
                found.append((event["timestamp"], f"First report, at {event['env_steps']:,} env steps"))
                break
    return found


T = TypeVar("T")
REWARD = "episode_reward_mean"
_FRESH_S = 1.0
_NAMES_FRESH_S = 2.0
_UNREADABLE_FRESH_S = 4.0
_SPARK_POINTS = 40
_TREND_POINTS, _TREND_FRESH_S = 120, 5.0
_MOST_KEPT = 2000


class Facts:
    """Cached, thread-safe facts, at most a second old by default."""

    def __init__(self, context: ServerContext, clock: Callable[[], float] = monotonic) -> None:
        self._context, self._clock = context, clock
        self._kept: dict[Hashable, tuple[float, object]] = {}
        self._lock = Lock()
        self._meter = MachineMeter(gpus=False)

    def rows(self, *, hidden: bool = False) -> list[RunSummary]:
        """Return the runs, newest first, without those hidden from lists unless they are asked for."""
        every = self._fresh("rows", self._context.store.index.list)
        return every if hidden else [row for row in every if not row.hidden]

    def unreadable(self) -> dict[str, str]:
        """Return the runs whose files are damaged or missing, and why."""
        return self._fresh("unreadable", self._context.store.index.unreadable, _UNREADABLE_FRESH_S)

    def queue(self) -> dict[str, str]:
        """Return the queued runs in the order in which they will start, and why each waits."""
        return self._fresh("queue", self._context.dispatcher.queue)

    def settings(self, row: RunSummary) -> tuple[str, Mapping[str, Json]]:
        """Return a key that runs with the same settings except their seed share, and the configuration."""
        folder = self._context.store.folder(row.run_id)
        return self._fresh(("settings", row.run_id), lambda: settings_of(folder), 60.0)

    def projects(self) -> list[ProjectRow]:
        """Return the known projects, the last used first; a list that cannot be read is one row that says why."""
        return self._fresh("projects", self._projects)

    def _projects(self) -> list[ProjectRow]:
        try:
            return self._context.store.projects.rows()
        except MosaicError as error:
            home = str(self._context.store.home)
            return [ProjectRow(name="projects.json", folder=home, state="invalid", problem=str(error), used=0.0)]

    def project(self, name: str) -> ProjectDetails:
        return self._context.store.projects.details(name)

    def project_names(self, name: str) -> set[str]:
        """Return the names that runs of a project carry; of one that is not known, its own."""
        return self._fresh(("project names", name), lambda: self._context.store.projects.names(name))

    def running(self) -> int:
        return sum(row.state in LIVE for row in self.rows())

    def group(self, name: str) -> list[RunSummary]:
        """Return the runs that differ only in their seed."""
        return [row for row in self.rows() if name and row.group == name] if self.is_seed_group(name) else []

    def is_seed_group(self, name: str) -> bool:
        """Return whether the runs of a group differ only in their seed, so that a mean over them has a meaning."""
        return self._fresh(("seed group", name), lambda: self._is_seed_group(name))

    def _is_seed_group(self, name: str) -> bool:
        try:
            return bool(name and seed_group(self._context.store, name))
        except InputError:
            return False

    def details(self, run_id: str) -> RunDetails:
        return self._fresh(("details", run_id), lambda: details_of(self._context.folder(run_id)))

    def iteration(self, run_id: str) -> Iteration:
        """Return the run's newest iteration event."""
        return self._fresh(("iteration", run_id), lambda: last_iteration(self._context.folder(run_id)))

    def phases(self, details: RunDetails) -> list[tuple[float, str]]:
        """Return when each part of the run's start began."""
        folder = self._context.folder(details.run_id)
        return self._fresh(("phases", details.run_id), lambda: start_phases(folder, details.queued_at))

    def names(self, run_id: str) -> tuple[str, ...]:
        """Return the name of every metric that the run has reported so far."""
        return self._fresh(("names", run_id), lambda: Curves(self._context.folder(run_id).path).names(), _NAMES_FRESH_S)

    def spark(self, row: RunSummary) -> list[float | None]:
        """Return the run's score so far in a few points; it changes only when the run does."""
        key = ("spark", row.run_id, row.state, row.env_steps, row.measure)
        return self._fresh(key, lambda: self._spark(row), 3600.0)

    def trend(self, run_id: str) -> CurvePoints:
        """Return the reward so far in more points, at most a few seconds old."""
        read = partial(curve_of, self._context.folder(run_id), REWARD, buckets=_TREND_POINTS)
        return self._fresh(("trend", run_id), read, _TREND_FRESH_S)

    async def aside(self, ask: Callable[[str], T], run_id: str) -> T | None:
        """Return `details` or `names` from the cache, else from a thread; None if the server is shutting down."""
        with self._lock:
            fresh_until, value = self._kept.get((ask.__name__, run_id), (float("-inf"), None))
        if self._clock() < fresh_until:
            return cast(T, value)
        return await threads.io_bound(ask, run_id)

    def forget_names(self, run_id: str) -> None:
        """Drop cached names: there is no later request after a run's end, so the last result must be the newest."""
        self._forget(("names", run_id))

    def forget_rows(self) -> None:
        """Drop cached rows: an address may name runs that were just created."""
        self._forget("rows")
        self._forget("unreadable")

    def look(self, env: EnvID) -> EnvLook:
        """Create an env named in an address or form, if that is allowed; raise MosaicError otherwise."""
        self._context.programs.check_match(EnvironmentConfig(env_id=env), {})
        return look_at(env)

    def check(self, document: Mapping[str, Json]) -> Checked:
        """Check a draft; stop at once if it names code that a form must not name."""
        try:
            self.require_allowed(document)
        except MosaicError as error:
            return Checked(None, str(error))
        return check(document)

    def require_allowed(self, document: Mapping[str, Json]) -> None:
        """Raise for a draft that names code on a server that does not allow it, or an env that is too large."""
        config = parse_run_config(document)
        self._context.programs.check_run(config)
        check_environment(config.environment)

    def machine(self) -> MachineLoad:
        return self._fresh("machine", self._meter.read)

    def doctor(self, *, again: bool = False) -> list[FindingRow]:
        if again:
            with self._lock:
                self._kept.pop("doctor", None)
        return self._fresh("doctor", self._doctor, 600.0)

    def _doctor(self) -> list[FindingRow]:
        return [FindingRow.model_validate(finding, from_attributes=True) for finding in self._context.doctor()]

    def _spark(self, row: RunSummary) -> list[float | None]:
        return curve_of(self._context.store.folder(row.run_id), row.measure, buckets=_SPARK_POINTS).mean

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _fresh(self, key: Hashable, read: Callable[[], T], for_s: float = _FRESH_S) -> T:
        with self._lock:
            fresh_until, value = self._kept.get(key, (float("-inf"), None))
        if self._clock() < fresh_until:
            return cast(T, value)
        value = read()
        with self._lock:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (self._clock() + for_s, value)
        return value
