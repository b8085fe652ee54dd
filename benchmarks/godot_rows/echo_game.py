#!/usr/bin/env python3
"""A game that computes nothing: every message is answered with precomputed bytes, of the Orchard's sizes."""

from __future__ import annotations

import json
import socket
import sys


def framed(message: dict[str, object]) -> bytes:
    payload = json.dumps(message, separators=(",", ":")).encode()
    return len(payload).to_bytes(4, "little") + payload


BOTH = 2
OBS = [{"obs": [-0.247979, 0.491073, 0.238325, -0.742537, -1.0, sign]} for sign in (-1.0, 1.0)]
MOVE, ACT = {"size": 2, "action_type": "continuous"}, {"size": 2, "action_type": "discrete"}
INFO = {
    "type": "env_info", "n_agents": BOTH, "agent_policy_names": ["picker", "dog"], "seeded_reset": True,
    "observation_space": [{"obs": {"size": [6], "space": "box"}}] * BOTH,
    "action_space": [{"move": MOVE, "act": ACT}] * BOTH,
}  # fmt: skip
STEP = {
    "type": "step", "reward": [0.0] * BOTH, "done": [False] * BOTH, "truncated": [False] * BOTH,
    "info": [{"reached": 0}] * BOTH, "obs": OBS,
}  # fmt: skip
ANSWERS = {
    b"env_info": framed(INFO),
    b"reset": framed({"type": "reset", "obs": OBS, "info": [{}] * BOTH}),
    b"action": framed(STEP),
}


def main() -> None:
    port = next(int(word.partition("=")[2]) for word in sys.argv if word.startswith("--port="))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        unread = b""
        while data := connection.recv(65536):
            unread += data
            while len(unread) >= 4 and len(unread) >= (end := 4 + int.from_bytes(unread[:4], "little")):
                kind = unread[4:40].partition(b'"type":"')[2].partition(b'"')[0]
                unread = unread[end:]
                if kind in ANSWERS:
                    connection.sendall(ANSWERS[kind])


if __name__ == "__main__":
    main()
