"""Many listeners and viewers of one run cost one reader, and each still gets all that is its."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from mosaic.runs.run import Run
from mosaic.server.streams import events as event_feed
from mosaic.server.streams import frames as frame_stages
from mosaic.server.streams.shared import Shared
from mosaic.telemetry.events.reader import EventTail
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.frames.run_pictures import RunPictures
from mosaic.telemetry.frames.writer import FrameWriter
from mosaic.telemetry.pictures.message import unpack
from tests.server.server_kit import eventually


def connect(api: TestClient, run: Run, what: str) -> Any:
    return api.websocket_connect(f"ws://127.0.0.1:8642/runs/{run.id}/{what}", headers=dict(api.headers))


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, kind: type) -> list[object]:
    made: list[object] = []

    def make(*arguments: Any) -> Any:
        made.append(arguments)
        return kind(*arguments)

    monkeypatch.setattr(module, name, make)
    return made


def seqs_until(socket: Any, last: int) -> list[int]:
    got: list[int] = []
    while not got or got[-1] < last:
        got += [json.loads(line)["seq"] for line in socket.receive_text().split("\n")]
    return got


def test_listeners_of_a_run_share_its_reader_wherever_they_begin(
    api: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = counted(monkeypatch, event_feed, "EventTail", EventTail)
    with EventWriter(run.folder.metrics, 1) as writer, ExitStack() as open_sockets:
        for step in range(10):
            writer.report(kind="iteration", env_steps=step)
        after = (0, 0, 3, 10)
        sockets = [open_sockets.enter_context(connect(api, run, f"events?after_seq={seq}")) for seq in after]
        assert [seqs_until(socket, 10) for socket in sockets[:3]] == [list(range(seq + 1, 11)) for seq in after[:3]]
        for step in range(10, 40):
            writer.report(kind="iteration", env_steps=step)
        assert [seqs_until(socket, 40) for socket in sockets] == [list(range(11, 41))] * 4
        run.stop()
        ends = [socket.receive() for socket in sockets]
        assert ends == [{"type": "websocket.close", "code": 1000, "reason": "stopped"}] * 4
    assert len(readers) == 1


def test_what_the_feed_forgot_is_read_from_the_file(api: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "REMEMBERED", 3)
    with EventWriter(run.folder.metrics, 1) as writer, connect(api, run, "events") as socket:
        writer.report(kind="iteration", env_steps=0)
        assert seqs_until(socket, 1) == [1]
        for step in range(1, 200):
            writer.report(kind="iteration", env_steps=step)
        assert seqs_until(socket, 200) == list(range(2, 201))


def test_viewers_of_the_same_sight_share_its_reader_and_each_has_its_own_credits(
    api: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = counted(monkeypatch, frame_stages, "RunPictures", RunPictures)
    with FrameWriter(run.folder.path) as lane, ExitStack() as open_sockets:
        first, second = (open_sockets.enter_context(connect(api, run, "frames?rate=100")) for _ in range(2))
        for socket in (first, second):
            assert unpack(socket.receive_bytes()).facts.state == "waiting"
        first.send_text("next")
        eventually(lane.wanted, "that the server looks")
        lane.publish(np.zeros((48, 64, 3), np.uint8), step=1)
        assert picture_step(first) == 1
        second.send_text("next")
        assert picture_step(second) == 1  # the newest there is, though somebody else saw it before
        second.send_text("next")
        lane.publish(np.zeros((48, 64, 3), np.uint8), step=2)
        assert picture_step(second) == 2
        lane.publish(np.zeros((48, 64, 3), np.uint8), step=3)
        first.send_text("next")
        seen = [picture_step(first)]
        while seen[-1] != 3:  # the shared reader may not have looked since: then the picture before comes first
            first.send_text("next")
            seen.append(picture_step(first))
        assert seen in ([3], [2, 3])
    assert len(readers) == 1


def picture_step(socket: Any) -> int:
    while not (message := unpack(socket.receive_bytes())).picture:
        pass
    return message.facts.step


class Told:
    def __init__(self, key: str) -> None:
        self.key, self.closed = key, False
        self.over: asyncio.Task[Any] = asyncio.create_task(asyncio.Event().wait())

    def close(self) -> None:
        self.closed = True
        self.over.cancel()


@pytest.mark.asyncio
async def test_a_thing_is_shared_until_the_last_has_left_or_it_is_over() -> None:
    shared: Shared[str, Told] = Shared(Told)
    with shared.use("a") as one, shared.use("b") as other:
        assert one is not other
        with shared.use("a") as again:
            assert again is one
        assert not one.closed
        one.over.cancel()
        await asyncio.wait([one.over])
        with shared.use("a") as anew:
            assert anew is not one
        assert anew.closed
        assert not one.closed
    assert one.closed
    assert other.closed
    with shared.use("a") as later:
        assert later is not one
