"""Minimal HTTP server of one network, without tokens, sessions or checks: plain_server.py MODEL.zip sb3|rllib."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


def decider(path: str, kind: str) -> Callable[[Any], int]:
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    model = PPO.load(path, device="cpu")
    if kind == "sb3":
        return lambda row: int(model.predict(row, deterministic=True)[0])
    sys.path.insert(0, __file__.rpartition("/")[0] + "/..")
    from inference import by_rllib

    decide = by_rllib(model)
    return lambda row: decide(row[None])[0]


class Answering(asyncio.Protocol):
    def __init__(self, decide: Callable[[Any], int]) -> None:
        self.decide, self.data = decide, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        self.data = b""
        action = self.decide(np.array(json.loads(body), np.float32))
        reply = json.dumps({"action": action}).encode()
        self.transport.write(HEAD + str(len(reply)).encode() + b"\r\n\r\n" + reply)


async def main() -> None:
    decide = decider(sys.argv[1], sys.argv[2])
    server = await asyncio.get_running_loop().create_server(lambda: Answering(decide), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"{sys.argv[2]} listens on http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        from uvloop import run
    except ModuleNotFoundError:
        from asyncio import run
    run(main())
