"""Load generator: clients that each wait for an action before they ask for the next, over bare sockets.

The clients share one process and its event loop, and write prepared bytes, so that they take as little as possible of
the machine that the measured server runs on. Settings come as JSON on standard input: python load.py CORE
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import struct
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import psutil

HELLO = (
    "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
POST = "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n"


PING, PONG = 9, 10


def frame(payload: bytes, *, text: bool) -> bytes:
    """A client's WebSocket frame; its mask is zero, which leaves the payload as it is."""
    kind = 0x81 if text else 0x82
    size = len(payload)
    head = struct.pack("!BB", kind, 0x80 | size) if size < 126 else struct.pack("!BBH", kind, 0xFE, size)
    return head + bytes(4) + payload


def unframe(data: bytes) -> bytes | None:
    """The payload of a server's frame, once all of it has come."""
    if len(data) < 2:
        return None
    size, start = data[1], 2
    if size == 126:
        if len(data) < 4:
            return None
        size, start = struct.unpack("!H", data[2:4])[0], 4
    return data[start : start + size] if len(data) >= start + size else None


def unwrap(data: bytes) -> bytes | None:
    """The body of an HTTP response, once all of it has come."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return None
    size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return body if len(body) >= size else None


class Asking(asyncio.Protocol):
    """One client: greets, prepares, then asks until the time is over."""

    def __init__(self, asked: dict[str, Any], number: int) -> None:
        self.way, self.number = asked["way"], number
        self.asked, self.times, self.next = asked, list[tuple[float, float]](), 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.data, self.sent_at, self.until = b"", 0.0, 0.0
        self.pause = asked["clients"] / asked["per_s"] if asked.get("per_s") else 0.0
        self.take: Callable[[bytes], bytes | None] = unframe if self.way == "ws" else unwrap
        self.steps = self._steps()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        next(self.steps)

    def data_received(self, data: bytes) -> None:
        self.data = self.data + data if self.data else data
        if self.take is unframe and self.data.startswith(b"HTTP/1.1 101"):
            _, end, self.data = self.data.partition(b"\r\n\r\n")
            assert end
            self.steps.send(b"")
            return
        reply = self.take(self.data)
        if reply is None:
            return
        if self.take is unframe and self.data[0] & 0x0F == PING:  # sent every 20 s, which a busy machine may reach
            self.data = self.data[2 + len(reply) :]
            self.transport.write(bytes([0x80 | PONG, 0x80 | len(reply)]) + bytes(4) + reply)
            if self.data:
                self.data_received(b"")
            return
        self.data = b""
        self.steps.send(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.ready, self.done):
            if not future.done():
                future.set_exception(exc or ConnectionError(f"the server closed the connection: {self.data!r}"))

    def begin(self, until: float) -> None:
        self.until, self.done = until, asyncio.get_running_loop().create_future()
        self.due = perf_counter() + self.pause * self.number / self.asked["clients"]
        asyncio.get_running_loop().call_later(self.due - perf_counter(), self._ask)

    def _ask(self) -> None:
        self.sent_at = perf_counter()
        self._send()

    def _send(self) -> None:
        """Ask for the next of its episodes."""
        self.next = (self.next + 1) % len(self.questions)
        self.transport.write(self.questions[self.next])

    def _ask_next(self, now: float) -> None:
        """Ask at once, or, with a pace, when it is due; what is late counts from when it was due."""
        self.due += self.pause
        if self.pause and now < self.due:
            asyncio.get_running_loop().call_later(self.due - now, self._ask)
            return
        self.sent_at = self.due if self.pause else now
        self._send()

    def _steps(self) -> Any:
        """Send what is due and wait for each reply; then `begin` starts the measured part."""
        asked = self.asked
        if self.way == "ws":
            self.transport.write(HELLO.format(**asked).encode())
            yield
        count = asked.get("episodes", 1)
        self.questions: list[bytes] = []
        for number in range(self.number * count, (self.number + 1) * count):
            episode = f"bench-{number:06d}"
            if asked.get("packed"):  # MessagePack, prepared with an id of the same length
                call = {"call": "start_episode", "episode_id": episode}
                self.transport.write(frame(json.dumps(call).encode(), text=True))
                reply = yield
                assert b'"error"' not in reply, reply
                packed = bytes.fromhex(asked["packed"]).replace(b"EPISODE_ID__", episode.encode())
                self.questions.append(frame(packed, text=False))
                continue
            if asked["start"]:
                self.transport.write(self._message(asked["start"], asked["start_path"]))
                episode = json.loads((yield))["episode_id"]
            self.questions.append(self._message(asked["question"].replace("EPISODE_ID__", episode), asked["path"]))
        self.ready.set_result(None)
        while True:
            reply = yield
            now = perf_counter()
            assert asked["expect"].encode() in reply, reply
            self.times.append((self.sent_at, now))
            if now < self.until:
                self._ask_next(now)
            else:
                self.done.set_result(None)

    def _message(self, text: str, path: str) -> bytes:
        body = text.encode()
        if self.way == "ws":
            return frame(body, text=True)
        head = POST.format(**{**self.asked, "path": path})
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


async def ask(asked: dict[str, Any]) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    clients, began = [Asking(asked, number) for number in range(asked["clients"])], perf_counter()
    before = cpu_s(asked["pid"])
    for client in clients:
        await loop.create_connection(lambda client=client: client, asked["host"], asked["port"])
        await client.ready
    opened_s, opening_s = perf_counter() - began, cpu_s(asked["pid"]) - before
    for client in clients:  # the server compiles what it needs for one decision and for many
        client.begin(0.0)
    await asyncio.gather(*(client.done for client in clients))
    start = perf_counter() + asked["warm_s"]
    used = [0.0]
    loop.call_later(asked["warm_s"], lambda: used.append(cpu_s(asked["pid"])))
    for client in clients:
        client.begin(start + asked["measure_s"])
    await asyncio.gather(*(client.done for client in clients))
    used.append(cpu_s(asked["pid"]))
    spent = sorted(end - begun for client in clients for begun, end in client.times if begun >= start)
    if not spent:
        raise SystemExit("no reply came while it was measured: the machine is too busy")
    last = max(end for client in clients for _, end in client.times)
    return {
        "per_s": len(spent) / (last - start),
        "p50_ms": 1000 * spent[len(spent) // 2],
        "p99_ms": 1000 * spent[int(len(spent) * 0.99)],
        "opened_s": opened_s,
        "opening_us": 1e6 * opening_s / sum(len(client.questions) for client in clients),
        "cpu_us": 1e6 * (used[-1] - used[-2]) / len(spent),
    }


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):  # macOS has none
        os.sched_setaffinity(0, {int(sys.argv[1])})
    gc.disable()  # its pauses would be counted as the server's
    try:
        from uvloop import run
    except ModuleNotFoundError:
        from asyncio import run
    print(json.dumps(run(ask(json.load(sys.stdin)))))
