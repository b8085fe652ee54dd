"""What the tests of matches share: a screen that talks to a match over its WebSocket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.testclient import TestClient
from starlette.testclient import WebSocketTestSession

from mosaic.telemetry.pictures.message import FrameHeader, FrameMessage, unpack


class Screen:
    """Acknowledges every picture, keeps the newest state."""

    def __init__(self, session: WebSocketTestSession) -> None:
        self._session = session
        self.state: dict[str, Any] = {}
        self.refused: list[str] = []
        self.frames: list[FrameMessage] = []
        self.until(lambda state: bool(state))

    def send(self, kind: str, **parts: Any) -> None:
        self._session.send_text(json.dumps({"type": kind, **parts}))

    def receive(self) -> None:
        message = self._session.receive()
        self._session._raise_on_close(message)
        if message.get("bytes") is not None:
            self.frames.append(unpack(message["bytes"]))
            self.send("seen")
            return
        data = json.loads(message["text"])
        if data["type"] == "refused":
            self.refused.append(data["text"])
        else:
            self.state = data

    def until(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Listens until the state is as wanted. A test that waits in vain is ended by its time limit."""
        while not self.state or not true(self.state):
            self.receive()
        return self.state

    def until_refused(self) -> str:
        while not self.refused:
            self.receive()
        return self.refused.pop(0)

    def until_frame(self, true: Callable[[FrameHeader], bool]) -> FrameHeader:
        while not self.frames or not true(self.frames[-1].facts):
            self.receive()
        return self.frames[-1].facts

    def click(self, spot_id: str) -> None:
        """In the middle of a spot that is offered now, or that would begin anew."""
        (rect,) = [s["rect"] for s in (*self.state["spots"], *self.state["others"]) if s["id"] == spot_id]
        x, y, width, height = rect
        self.send("click", x=x + width / 2, y=y + height / 2)

    def move(self, *spots: str) -> None:
        """Presses spot after spot with clicks, and waits until the step is made."""
        step = self.until(lambda state: state["chooser"] is not None)["step"]
        for number, spot in enumerate(spots):
            self.until(lambda state, number=number: state["step"] == step and len(state["path"]) == number)
            self.click(spot)
        self.until(lambda state: state["step"] > step)

    def agent(self, name: str) -> dict[str, Any]:
        (row,) = [row for row in self.state["agents"] if row["agent"] == name]
        found: dict[str, Any] = row
        return found


OWNER_KEYS: dict[str, str] = {}  # by match


def open_match(client: TestClient, env: str, agents: dict[str, str], **parts: Any) -> str:
    """Opens a match of seed 0: policies that choose among equal moves must choose the same ones in each test."""
    asked = {"environment": {"env_id": env}, "agents": agents, "seed": 0, "ready_screen": False, **parts}
    answer = client.post("/matches", json=asked)
    assert answer.status_code == 201, answer.text
    match_id: str = answer.json()["match_id"]
    OWNER_KEYS[match_id] = answer.json()["owner_key"]
    return match_id


@contextmanager
def screen(
    client: TestClient, match_id: str, *agents: str, headers: dict[str, str] | None = None, owner: bool = True
) -> Iterator[Screen]:
    """A viewer; without agents of its own the match's owner."""
    query = "&".join(f"agent={agent}" for agent in agents)
    address = f"ws://127.0.0.1:8642/matches/{match_id}/stream?{query}"
    with client.websocket_connect(address, headers=headers or dict(client.headers)) as session:
        seat = Screen(session)
        if owner and not agents and match_id in OWNER_KEYS:
            seat.send("identify", key=OWNER_KEYS[match_id])
            seat.until(lambda state: state["owner"])
        yield seat
