"""Hostile requests: none of them is answered with a 2xx, and none of them does anything."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import WebSocketDenialResponse
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from mosaic.runs.trainer import Trainer
from mosaic.server.auth.hosts import allowed_hosts, is_loopback, same_origin, split_host
from mosaic.server.auth.token import COOKIE, ensure_token
from tests.server.auth.test_programs import FORMS
from tests.server.server_kit import NOTHING_STARTS, ServerProcess, app_client, toy

NAME = "127.0.0.1:8642"
ALL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "INVENTED")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guard") / "home"


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[TestClient]:
    with app_client(home) as client:
        yield client


@pytest.fixture(scope="module")
def run_id(api: TestClient) -> str:
    return str(api.post("/runs", json=toy()).json()["run_id"])


@pytest.fixture(scope="module")
def server(home: Path, run_id: str) -> Iterator[ServerProcess]:
    """The same store behind a real socket; its limits let nothing start."""
    with ServerProcess(home, limits=NOTHING_STARTS) as process:
        yield process


REQUESTS = [
    ("GET", "/runs"), ("POST", "/runs"), ("GET", "/runs/{run}"), ("DELETE", "/runs/{run}"),
    ("POST", "/runs/{run}/stop"), ("POST", "/runs/{run}/resume"), ("GET", "/runs/{run}/metrics"),
    ("GET", "/runs/{run}/log"), ("GET", "/envs"), ("GET", "/doctor"), ("GET", "/health"), ("GET", "/openapi.json"),
    ("GET", "/nowhere"), ("OPTIONS", "/runs"),
]  # fmt: skip
HOSTILE: dict[str, tuple[int, dict[str, str | None]]] = {
    "foreign Host": (421, {"Host": "evil.example"}),
    "foreign Host with our port": (421, {"Host": "evil.example:8642"}),
    "our address inside a foreign Host": (421, {"Host": "127.0.0.1.evil.example"}),
    "a Host with our address before an @": (421, {"Host": "127.0.0.1@evil.example"}),
    "another address": (421, {"Host": "192.0.2.7"}),
    "foreign Origin": (403, {"Origin": "http://evil.example"}),
    "Origin of another port": (403, {"Origin": "http://127.0.0.1:9999"}),
    "Origin null": (403, {"Origin": "null"}),
    "Origin that only begins like ours": (403, {"Origin": f"http://{NAME}.evil.example"}),
    "no token": (401, {"Authorization": None}),
    "wrong token": (401, {"Authorization": "Bearer " + "x" * 43}),
    "empty token": (401, {"Authorization": "Bearer "}),
    "token of another scheme": (401, {"Authorization": "Basic {token}"}),
    "token that is not ASCII": (401, {"Authorization": "Bearer \u00fc\u00fc"}),
    "wrong cookie": (401, {"Authorization": None, "Cookie": f"{COOKIE}=wrong"}),
    "token in the address alone": (401, {"Authorization": None}),
}


def hostile_headers(api: TestClient, change: dict[str, str | None]) -> dict[str, str]:
    token = api.headers["Authorization"].removeprefix("Bearer ")
    headers: dict[str, Any] = {"Authorization": f"Bearer {token}", **change}
    return {name: value.replace("{token}", token) for name, value in headers.items() if value is not None}


@pytest.mark.parametrize(("method", "path"), REQUESTS)
@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_requests_are_refused(
    api: TestClient, home: Path, run_id: str, attack: str, method: str, path: str
) -> None:
    status, change = HOSTILE[attack]
    headers = hostile_headers(api, change)
    address = path.replace("{run}", run_id)
    if "address" in attack:
        address += f"?token={ensure_token(home)}"
    plain = TestClient(api.app, base_url=f"http://{NAME}")
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = plain.request(method, address, headers=encoded)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert [run.state for run in Trainer(home).runs()] == ["queued"]


@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_listeners_are_refused(api: TestClient, run_id: str, attack: str) -> None:
    status, change = HOSTILE[attack]
    plain = TestClient(api.app, base_url=f"http://{NAME}")
    headers = {name: value.encode("latin-1") for name, value in hostile_headers(api, change).items()}
    if "Host" not in change:
        headers["Host"] = NAME.encode()
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        plain.websocket_connect(f"/runs/{run_id}/events", headers=headers),  # type: ignore[arg-type]
    ):
        pass
    assert refused.value.status_code == status


def test_the_cookie_opens_too_but_alone_changes_nothing(api: TestClient, home: Path) -> None:
    """A browser adds it to whatever a page asks for; then it also says which page that was."""
    plain = TestClient(api.app, base_url=f"http://{NAME}", cookies={COOKIE: ensure_token(home)})
    assert plain.get("/health").status_code == 200
    refused = plain.post("/runs", json=toy())
    assert refused.status_code == 403
    assert refused.json() == {"error": "With the cookie alone, a request must name its Origin."}
    assert plain.post("/runs", json={}, headers={"Origin": f"http://{NAME}"}).status_code == 400


@pytest.mark.parametrize(
    "ref",
    ["..", "%2e%2e", "..%2f..%2fetc", "%2fetc%2fpasswd", "../../token", "..%5c..", ".staged-x", "%00", "a%00b", "."],
)
@pytest.mark.parametrize("rest", ["", "/log", "/metrics", "/curve?metric=x"])
def test_no_path_leads_out_of_the_store(server: ServerProcess, home: Path, ref: str, rest: str) -> None:
    """Sent as written: clients would tidy such addresses up."""
    assert not 200 <= raw_status(server, home, f"GET /runs/{ref}{rest} HTTP/1.1") < 300


def test_a_large_body_is_refused(api: TestClient, server: ServerProcess, home: Path) -> None:
    large = b'{"name": "' + b"x" * 1_000_000 + b'"}'
    answer = api.post("/runs", content=large)
    assert answer.status_code == 413
    assert answer.json() == {"error": "The body is larger than 1000000 bytes."}
    pieces = (large[start : start + 65536] for start in range(0, len(large), 65536))
    assert api.post("/runs", content=pieces).status_code == 413  # without Content-Length
    assert raw_status(server, home, "POST /runs HTTP/1.1", "Content-Length: 100000000") == 413
    assert raw_status(server, home, "POST /runs HTTP/1.1", "Content-Length: 99999999999999999999999") in (400, 413)


def test_a_hundred_megabytes_are_not_taken(server: ServerProcess, home: Path) -> None:
    """Neither announced nor in pieces; the server closes long before the end."""
    for announce, chunk in (
        ("Content-Length: 100000000", b"x" * 65536),
        ("Transfer-Encoding: chunked", b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    ):
        with connected(server, home, "POST /runs HTTP/1.1", announce) as stream:
            sent = 0
            try:
                while sent < 100_000_000:
                    sent += stream.send(chunk)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert sent < 100_000_000
    with server.client() as client:
        assert client.health().status == "ok"


@pytest.mark.parametrize("form", FORMS)
def test_programs_are_refused(api: TestClient, home: Path, form: str) -> None:
    expected, parts = FORMS[form]
    body = {"environment": {"env_id": "gym/CartPole-v1"}, **parts}
    answer = api.post("/runs", json=body)
    assert answer.status_code == 403
    assert "--allow-programs" in answer.json()["error"]
    assert expected in answer.json()["error"]
    assert len(Trainer(home).runs()) == 1


def test_the_owner_may_allow_programs(tmp_path: Path) -> None:
    with app_client(tmp_path / "open", allow_programs=True) as client:
        env = {"env_id": "python:mosaic.testing.toys:Crowd"}
        assert client.post("/runs", json={**toy(), "environment": env}).status_code == 201


def connected(server: ServerProcess, home: Path, *lines: str) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    head = [*lines, f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {ensure_token(home)}", "", ""]
    stream.sendall("\r\n".join(head).encode())
    return stream


def raw_status(server: ServerProcess, home: Path, *lines: str) -> int:
    with connected(server, home, *lines) as stream:
        return int(stream.recv(4096).split()[1])


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:80", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:8642", "::1"),
        ("[::1]", "::1"),
        ("box.", "box"),
        ("", None),
        (":80", None),
        ("a b", None),
        ("[evil]", None),
        ("[::1]x", None),
        ("localhost:80:90", None),
        ("localhost:x", None),
        ("user@localhost", None),
    ],
)
def test_host_headers(header: str, host: str | None) -> None:
    assert split_host(header) == host


def test_names_of_a_public_server() -> None:
    public, local = allowed_hosts("Box.Example"), allowed_hosts()
    for name in ("192.0.2.7:80", "[2001:db8::1]", "box.example", socket.gethostname(), "localhost"):
        assert public.allow(name)
    assert not public.allow("evil.example")
    assert not local.allow("192.0.2.7")
    assert is_loopback("127.8.8.8")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.evil.example")


@given(st.text(max_size=30), st.text(max_size=30))
def test_only_one_origin_is_ours(origin: str, host: str) -> None:
    assert same_origin(f"http://{NAME}", NAME)
    ours = {f"{scheme}://{host.strip().lower()}" for scheme in ("http", "https")}
    assert same_origin(origin, host) == (origin.strip().lower() in ours)


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (401, {"Authorization": "Bearer wrong"}),
        (421, {"Host": "evil.example"}),
        (403, {"Origin": "http://evil.example"}),
    ],
)
def test_every_route_and_method_is_guarded(api: TestClient, status: int, change: dict[str, str]) -> None:
    """Also those that are added later: the app itself is asked what it has."""
    paths = api.app.openapi()["paths"]  # type: ignore[attr-defined]
    assert len(paths) > 25
    for path in ("/openapi.json", *paths):
        for method in ALL_METHODS:
            reply = api.request(method, re.sub(r"{[^}]+}", "1", path), headers=change)
            assert reply.status_code == status, (method, path)


def test_a_message_that_is_too_long_closes_its_socket(server: ServerProcess, home: Path) -> None:
    asked = {"environment": {"env_id": "classic/tictactoe_v3"}, "agents": {"*": "human"}}
    headers = {"Authorization": f"Bearer {ensure_token(home)}"}
    match_id = httpx.post(f"{server.url}/matches", json=asked, headers=headers, timeout=60.0).json()["match_id"]
    address = f"{server.url.replace('http', 'ws', 1)}/matches/{match_id}/stream"
    with connect(address, additional_headers=headers) as socket:
        socket.recv()
        socket.send("x" * (1 << 16) + "x")
        with pytest.raises(ConnectionClosed) as gone:
            list(iter(lambda: socket.recv(timeout=60.0), None))
    assert gone.value.rcvd is not None
    assert gone.value.rcvd.code == 1009
