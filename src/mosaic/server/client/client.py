"""HTTP client for runs on a server, with the same verbs as for local runs."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel, TypeAdapter
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect, unix_connect

from mosaic.config.loading import dump_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, MosaicError, UnknownNameError
from mosaic.core.ids import JsonObject
from mosaic.runs.run import WaitedTooLongError
from mosaic.server.client.address import UnreachableError, check_url, find_token
from mosaic.server.client.pictures import RemotePictures
from mosaic.server.client.ssh import Tunnel, open_tunnel
from mosaic.server.machine_load import MachineLoad
from mosaic.server.schemas import EnvRow, Events, FindingRow, Health, PolicyRow, QueuedRow, WorkerRow
from mosaic.store.labels import LabelChange
from mosaic.store.logs import Stream
from mosaic.store.projects.registry import ProjectDetails, ProjectRow
from mosaic.store.state import State
from mosaic.store.views import CurvePoints, LiveRow, LogPart, RunDetails, RunRow, UnreadableRun
from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.workers.resolution import ResolvedConfig

T = TypeVar("T", bound=BaseModel)
Query: TypeAlias = Mapping[str, str | int | float | Sequence[str]]

_KEEPALIVE_S = 2.0  # the server closes idle connections after 5 s: one must not be reused in that instant
_DEGRADED = 503  # of GET /health
TIMEOUT_S = 60.0
RECONNECT_S = 30.0  # how long to try to reconnect a lost stream
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_NOTHING_YET = 2**62  # a seq that no run reaches: only the end is awaited
_ENDED, _OWN_CODES = 1000, 4000  # close codes


class RequestParts(TypedDict, total=False):
    """Optional parts of a request besides its method and path."""

    params: Query
    json: object
    content: bytes
    headers: Mapping[str, str]


class ServerError(MosaicError):
    """Error for a request that the server could not carry out."""


class Client:
    """Client of one server. `url` is http://HOST:PORT, or ssh://HOST for a tunnel that is closed with the client."""

    def __init__(
        self, url: str, token: str | None = None, *, home: Path | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.url = url
        self._tunnel: Tunnel | None = None
        if url.startswith("ssh:"):
            self._tunnel, self._token = open_tunnel(url, token)
            self._root = "http://localhost"
        else:
            self._root = check_url(url)
            self._token = find_token(url, token, home)
        transport = httpx.HTTPTransport(
            uds=str(self._tunnel.socket) if self._tunnel else None,
            limits=httpx.Limits(keepalive_expiry=_KEEPALIVE_S),
        )
        self._http = httpx.Client(
            base_url=self._root, transport=transport, headers=self._headers(), timeout=timeout_s, trust_env=False
        )

    def submit(
        self, config: RunConfig | ResolvedConfig | Mapping[str, object], *, group: str = "", key: str | None = None
    ) -> RemoteRun:
        """Queue a run. With a key, the same request can safely be sent again if the response got lost.

        Of a resolved configuration the server gets what was asked, and resolves it there.
        """
        asked = config.asked if isinstance(config, ResolvedConfig) else config
        document = dump_run_config(asked) if isinstance(asked, RunConfig) else dict(asked)
        headers = {"Idempotency-Key": key or secrets.token_urlsafe(16)}
        params = {"group": group} if group else {}
        made = self.ask(RunDetails, "POST", "/runs", json=document, headers=headers, params=params)
        return RemoteRun(self, made.run_id)

    def submit_group(self, config: RunConfig | ResolvedConfig, seeds: int) -> list[RemoteRun]:
        """Queue runs that differ only in the seed."""
        from mosaic.runs.trainer import group_members

        group, members = group_members(config.asked if isinstance(config, ResolvedConfig) else config, seeds)
        return [self.submit(member, group=group) for member in members]

    def runs(
        self, *, states: tuple[State, ...] = (), project: str | None = None, hidden: bool = False, limit: int = 1000
    ) -> list[RunRow]:
        wanted: Query = {"state": [str(state) for state in states], "limit": limit, "hidden": hidden}
        return self._list(RunRow, "/runs", wanted if project is None else {**wanted, "project": project})

    def unreadable_runs(self) -> list[UnreadableRun]:
        """Return the runs that `runs` leaves out, because their files are damaged or missing."""
        return self._list(UnreadableRun, "/unreadable-runs", {})

    def projects(self) -> list[ProjectRow]:
        """Return the projects that the server knows, the last used first."""
        return self._list(ProjectRow, "/projects", {})

    def project(self, name: str) -> ProjectDetails:
        """Return a project with the settings of its presets."""
        return self.ask(ProjectDetails, "GET", f"/projects/{_quoted(name)}")

    def forget_project(self, name: str) -> None:
        """Remove a project from the server's list; its folder and its runs stay."""
        self.send("DELETE", f"/projects/{_quoted(name)}")

    def run(self, ref: str) -> RemoteRun:
        """Find a run by id, unique prefix, name or `latest`."""
        return RemoteRun(self, self.ask(RunDetails, "GET", f"/runs/{_quoted(ref)}").run_id)

    def sessions(self) -> list[LiveRow]:
        """Return what is being played now apart from runs."""
        return self._list(LiveRow, "/live", {})

    def session(self, session_id: str) -> RemoteSession:
        return RemoteSession(self, session_id)

    def envs(self, family: str | None = None) -> list[EnvRow]:
        return self._list(EnvRow, "/envs", {"family": family} if family else {})

    def workers(self) -> list[WorkerRow]:
        return self._list(WorkerRow, "/workers", {})

    def policies(self) -> list[PolicyRow]:
        return self._list(PolicyRow, "/policies", {})

    def doctor(self) -> list[FindingRow]:
        return self._list(FindingRow, "/doctor", {})

    def queue(self) -> list[QueuedRow]:
        """Return the queued runs in the order in which they will start, and why each waits."""
        return self._list(QueuedRow, "/queue", {})

    def machine(self) -> MachineLoad:
        """Return the load of the server's machine."""
        return self.ask(MachineLoad, "GET", "/machine")

    def health(self) -> Health:
        """Return the server's health; a degraded server sends the same document with status 503."""
        response = self._request("GET", "/health")
        if response.status_code != _DEGRADED:
            check_response(response)
        return Health.model_validate_json(response.content)

    def schema(self, worker: str | None = None, algorithm: str = "") -> JsonObject:
        """Return the schema of a run's configuration, or of a worker's options."""
        path = "/schemas/run" if worker is None else f"/schemas/workers/{_quoted(worker)}/{_quoted(algorithm)}"
        found: JsonObject = self.send("GET", path).json()
        return found

    def close(self) -> None:
        self._http.close()
        if self._tunnel is not None:
            self._tunnel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, model: type[T], method: str, path: str, **what: Unpack[RequestParts]) -> T:
        """Send a request and parse the response as `model`."""
        return model.model_validate_json(self.send(method, path, **what).content)

    def send(self, method: str, path: str, **what: Unpack[RequestParts]) -> httpx.Response:
        """Send any request; raise with the server's own message if it is refused."""
        return check_response(self._request(method, path, **what))

    def _request(self, method: str, path: str, **what: Unpack[RequestParts]) -> httpx.Response:
        try:
            return self._http.request(method, path, **what)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def stream(self, path: str) -> ClientConnection:
        """Open a WebSocket."""
        address = f"ws{self._root.removeprefix('http')}{path}"
        try:
            if self._tunnel is None:
                return connect(address, additional_headers=self._headers(), compression=None, max_size=None, proxy=None)
            near_end = str(self._tunnel.socket)
            return unix_connect(near_end, address, additional_headers=self._headers(), compression=None, max_size=None)
        except InvalidStatus as error:
            raise _complaint(error.response.status_code, bytes(error.response.body or b"")) from error
        except (OSError, EOFError, InvalidHandshake) as error:
            raise self._unreachable(error) from error

    def _list(self, model: type[T], path: str, params: Query) -> list[T]:
        rows: list[T] = TypeAdapter(list[model]).validate_json(self.send("GET", path, params=params).content)  # type: ignore[valid-type]
        return rows

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _unreachable(self, error: Exception) -> UnreachableError:
        why = str(error) or type(error).__name__
        return UnreachableError(f"There is no Mosaic server at {self.url}: {why}. Start one there: mosaic serve")


class RemoteSession:
    def __init__(self, client: Client, session_id: str) -> None:
        self._client, self.id = client, session_id

    def pictures(self, request: FrameRequest) -> RemotePictures:
        return RemotePictures(self._client.stream(f"/live/{_quoted(self.id)}/frames?rate={request.rate_hz:g}"))


class RemoteRun:
    def __init__(self, client: Client, run_id: str) -> None:
        self._client, self.id = client, run_id
        self._path = f"/runs/{_quoted(run_id)}"

    @property
    def state(self) -> State:
        return self.show().state

    def show(self) -> RunDetails:
        return self._ask(RunDetails, "GET", "")

    def stop(self, patience_s: float | None = None, *, wait: bool = True) -> None:
        """End the run, whatever it is doing: saved if possible within its patience, by force if not."""
        said = {} if patience_s is None else {"patience_s": patience_s}
        self._ask(RunDetails, "POST", "/stop", params=said)
        if wait:
            self.wait()

    def pause(self) -> RunDetails:
        return self._ask(RunDetails, "POST", "/pause")

    def resume(self, *, resources: Mapping[str, object] | None = None, settings: Sequence[str] = ()) -> RunDetails:
        """Continue the run; `resources` and `settings` (SECTION.KEY=VALUE) can change only once it has ended."""
        body = {"resources": dict(resources or {}), "settings": list(settings)}
        return self._ask(RunDetails, "POST", "/resume", json=body)

    def checkpoint(self) -> RunDetails:
        return self._ask(RunDetails, "POST", "/checkpoint")

    def label(self, change: LabelChange) -> RunDetails:
        """Change the labels that `change` sets: name, tags, note, hidden."""
        return self._ask(RunDetails, "PATCH", "", json=change.model_dump(mode="json", exclude_none=True))

    def delete(self) -> None:
        self._client.send("DELETE", self._path)

    def log(self, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart:
        params: Query = {"size": size, "stream": stream} | ({} if after is None else {"after": after})
        return self._ask(LogPart, "GET", "/log", params=params)

    def metrics(self, after_seq: int = 0, limit: int = 1000) -> Events:
        """Return stored events, at most `limit`."""
        return self._ask(Events, "GET", "/metrics", params={"after_seq": after_seq, "limit": limit})

    def curve(self, metric: str, **query: str | int | float) -> CurvePoints:
        return self._ask(CurvePoints, "GET", "/curve", params={"metric": metric, **query})

    def pictures(self, request: FrameRequest, source: str | None = None) -> RemotePictures:
        """Stream the newest pictures; poll it as often as they are displayed."""
        query = f"rate={request.rate_hz:g}&env={request.env}&grid={request.grid}"
        query += f"&source={_quoted(source)}" if source else ""
        return RemotePictures(self._client.stream(f"{self._path}/frames?{query}"))

    def events(
        self, after_seq: int = 0, *, reconnect_s: float = RECONNECT_S, timeout_s: float | None = None
    ) -> Iterator[MetricEvent]:
        """Yield every event, past and future, each once, until the run has ended.

        A broken stream is reconnected at the last event seen; a server that stays unreachable for `reconnect_s` seconds
        raises UnreachableError, a run that has not ended after `timeout_s` TimeoutError.
        """
        deadline_s = None if timeout_s is None else monotonic() + timeout_s
        away_since, pause_s = monotonic(), _FIRST_PAUSE_S
        while True:
            try:
                with self._client.stream(f"{self._path}/events?after_seq={after_seq}") as socket:
                    while True:
                        for event in _received(socket, deadline_s):
                            after_seq = event["seq"]
                            yield event
                        away_since, pause_s = monotonic(), _FIRST_PAUSE_S
            except ConnectionClosed as closed:
                end = closed.rcvd
                if end is not None and end.code == _ENDED:
                    return
                if end is not None and end.code >= _OWN_CODES:
                    raise ServerError(end.reason) from closed
            except UnreachableError:
                if monotonic() - away_since > reconnect_s:
                    raise
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def wait(self, timeout_s: float | None = None, *, reconnect_s: float = RECONNECT_S) -> State:
        """Wait until the run has ended and return its state."""
        try:
            for _ in self.events(_NOTHING_YET, reconnect_s=reconnect_s, timeout_s=timeout_s):
                pass
        except TimeoutError as error:
            raise WaitedTooLongError(f"The run {self.id} did not end within {timeout_s:g} s.") from error
        return self.state

    def _ask(self, model: type[T], method: str, rest: str, **what: Unpack[RequestParts]) -> T:
        return self._client.ask(model, method, self._path + rest, **what)


def _received(socket: ClientConnection, deadline_s: float | None) -> list[MetricEvent]:
    """Receive the events of the next message. Raises TimeoutError at the deadline."""
    message = socket.recv(None if deadline_s is None else max(0.0, deadline_s - monotonic()))
    text = message if isinstance(message, str) else message.decode()
    return [json.loads(line) for line in text.split("\n")]


def _quoted(part: str) -> str:
    return quote(part, safe="")


def check_response(response: httpx.Response) -> httpx.Response:
    """Return the response; raise with the server's own message if the request was refused."""
    if not response.is_success:
        raise _complaint(response.status_code, response.content)
    return response


def _complaint(status: int, body: bytes) -> MosaicError:
    try:
        text = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        text = f"The server answered {status}."
    match status:
        case 404:
            return UnknownNameError(text)
        case 400 | 401 | 403 | 409 | 413 | 422:
            return InputError(text)
        case _:
            return ServerError(text)
