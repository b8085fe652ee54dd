"""Connections that never send a whole request are closed; those whose answer takes long are not."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest
import uvicorn
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from mosaic.server.auth.guard import Guard, with_security_headers
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.serve import SteadyWebSocket, TimedProtocol, run_server

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Impatient(TimedProtocol):
    within_s = 0.3


async def slow_answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await asyncio.sleep(1.0)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(slow_answer, http=Impatient, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def connected(port: int) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", port), timeout=30.0))


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: local"])
def test_a_request_that_is_half_sent_is_given_up(port: int, sent: bytes) -> None:
    with connected(port) as client:
        client.sendall(sent)
        assert client.recv(100) == b""


def test_an_answer_may_take_its_time_and_a_half_sent_second_request_is_given_up(port: int) -> None:
    with connected(port) as client:
        client.sendall(WHOLE)
        answer = b""
        while not answer.endswith(b"ok"):
            answer += client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 200")
        client.sendall(WHOLE[:10])
        assert client.recv(100) == b""


def test_a_body_that_does_not_come_is_given_up() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(slow_answer, token="t", hosts=allowed_hosts(), body_within_s=0.05)
    headers = [(b"host", b"127.0.0.1:1"), (b"authorization", b"Bearer t"), (b"content-length", b"9")]
    asyncio.run(guard({"type": "http", "method": "POST", "headers": headers}, receive, send))
    assert sent[0]["status"] == 408
    assert b"0.05 s" in sent[1]["body"]


@pytest.mark.parametrize(("kind", "policy"), [("text/html", "script-src 'self'"), ("application/json", "'none'")])
def test_answers_tell_browsers_what_they_may_do_with_them(kind: str, policy: str) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]}
    asyncio.run(with_security_headers(send)(start))
    headers = Headers(scope=sent[0])
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert policy in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_reading_stops_only_while_a_message_waits() -> None:
    async def converse() -> list[str]:
        config = uvicorn.Config(slow_answer)
        socket = SteadyWebSocket(config, ServerState(), {}, asyncio.get_running_loop())
        done: list[str] = []
        socket.transport = SimpleNamespace(
            pause_reading=lambda: done.append("pause"), resume_reading=lambda: done.append("resume")
        )  # type: ignore[assignment]
        for number in range(3):
            socket.handle_bytes(Frame(Opcode.BINARY, bytes([number])))
            done.append(f"came {number}")
        done.extend([f"taken {(await socket.receive())['bytes'][0]}" for _ in range(3)])  # type: ignore[typeddict-item]
        socket.handle_bytes(Frame(Opcode.BINARY, b"x"))
        return done

    assert asyncio.run(converse()) == ["came 0", "pause", "came 1", "came 2", "resume", "taken 0", "taken 1", "taken 2"]


def test_what_was_loaded_before_is_not_searched_for_garbage() -> None:
    frozen = []

    class Server:
        def run(self, sockets: list[socket.socket]) -> None:
            frozen.append(gc.get_freeze_count())

    loaded = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    before, usual = gc.get_freeze_count(), gc.get_threshold()
    with socket.socket() as listener:
        run_server(Server(), listener)  # type: ignore[arg-type]
    searched_after = gc.get_threshold()[0]
    gc.set_threshold(*usual)
    assert frozen[0] >= before + len(loaded)
    assert searched_after > 64 * 100  # containers that the messages of 64 clients may need
