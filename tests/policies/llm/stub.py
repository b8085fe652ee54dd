"""An endpoint for chat completions that answers as a test tells it to, and injects faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "stub-1"


class Endpoint:
    """Server on a port of its own. `reply(body)` returns a text, a document, bytes, or a `Fault`."""

    def __init__(self, reply: Callable[[dict[str, Any]], Any]) -> None:
        self.reply = reply
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def policy(self, *options: str, model: str = MODEL) -> str:
        return ",".join([f"llm:{model}", f"url={self.url}", *options])

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Fault:
    """A response that is not a chat completion."""

    def __init__(self, status: int = 200, body: str = "", headers: dict[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, headers or {}
        self.silent = self.reset = self.short = False

    @classmethod
    def silence(cls) -> Fault:
        fault = cls()
        fault.silent = True
        return fault

    @classmethod
    def disconnection(cls) -> Fault:
        fault = cls()
        fault.reset = True
        return fault

    @classmethod
    def cut_off(cls, body: str) -> Fault:
        """Announce more bytes than are sent."""
        fault = cls(200, body)
        fault.short = True
        return fault


def refusal(status: int, message: str, **headers: str) -> Fault:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(status, json.dumps({"error": {"message": message, "type": "invalid_request_error"}}), told)


def completion(text: str | None, model: str = MODEL, finish: str = "stop", usage: bool = True) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    document: dict[str, Any] = {"model": model, "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    if usage:
        document["usage"] = {"prompt_tokens": 100, "completion_tokens": 7}
    return document


def legal(body: dict[str, Any]) -> list[str]:
    """Return the legal actions that a question lists."""
    text = next(message["content"] for message in body["messages"] if message["role"] == "user")
    return [name.strip() for name in text.rpartition("Legal actions: ")[2].split(", ")]


def first_legal(body: dict[str, Any]) -> str:
    return json.dumps({"action": legal(body)[0]})


@contextmanager
def endpoint(reply: Callable[[dict[str, Any]], Any] = first_legal) -> Iterator[Endpoint]:
    made = Endpoint(reply)
    try:
        yield made
    finally:
        made.close()


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.endpoint.asked.append(body)
        self.endpoint.headers.append(dict(self.headers))
        self.close_connection = True
        answer = self.endpoint.reply(body)
        if isinstance(answer, str):
            answer = completion(answer)
        fault = answer if isinstance(answer, Fault) else Fault(200, json.dumps(answer))
        if fault.silent:
            self.endpoint.closing.wait()
            return
        if fault.reset:
            return
        data = fault.body.encode()
        self.send_response(fault.status)
        self.send_header("Content-Length", str(len(data) + 100 * fault.short))
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass
