"""Pictures over a WebSocket: only the newest, only as many as were asked for, and how the writer is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from mosaic.core.errors import MosaicError, UnknownNameError
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.server.routes.frames import MOST_CREDITS
from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.writer import FrameWriter
from mosaic.telemetry.pictures.message import FrameMessage, pack, unpack
from tests.server.server_kit import NOTHING_STARTS, ServerProcess, eventually, toy


def stream(api: TestClient, run: Run, query: str = "") -> Any:
    return api.websocket_connect(f"ws://127.0.0.1:8642/runs/{run.id}/frames{query}", headers=dict(api.headers))


def board(number: int) -> NDArray[np.uint8]:
    picture = np.full((48, 64, 3), 240, np.uint8)
    picture[:, : number % 64] = (number, 10, 20)
    return picture


def next_picture(socket: Any) -> FrameMessage:
    """What is said of the writer in between is passed over."""
    while True:
        message = unpack(socket.receive_bytes())
        if message.picture:
            return message


def next_word(socket: Any) -> FrameMessage:
    """A picture, or that there is none."""
    while True:
        message = unpack(socket.receive_bytes())
        if message.picture or message.facts.state == "stalled":
            return message


def test_the_newest_picture_comes_for_a_credit_and_none_without(api: TestClient, run: Run) -> None:
    with FrameWriter(run.folder.path) as lane, stream(api, run, "?rate=100&env=3&grid=2") as socket:
        assert unpack(socket.receive_bytes()).facts.state == "waiting"
        assert lane.request() is None  # without a credit nobody looks: the run need not draw
        socket.send_text("next")
        eventually(lane.wanted, "that the server looks")
        assert lane.request() == FrameRequest(100.0, 3, 2)
        lane.publish(board(1), step=7, episode=2, env=3, agent="red=1.5, blue=-2", reward=0.5, ret=-0.5)
        first = next_picture(socket)
        assert np.array_equal(first.frame().pixels, board(1))  # type: ignore[union-attr]
        facts = first.facts
        assert (facts.format, facts.width, facts.height, facts.number) == ("webp", 64, 48, 1)
        assert (facts.step, facts.episode, facts.env, facts.agent) == (7, 2, 3, "red=1.5, blue=-2")
        assert (facts.reward, facts.ret) == (0.5, -0.5)
        for number in range(2, 9):
            lane.publish(board(number))
        socket.send_bytes(b"")  # whatever it says, it is a credit
        assert next_picture(socket).facts.number == 8
        for number in range(9, 12):
            lane.publish(board(number))
        socket.send_text("next")
        assert next_picture(socket).facts.number == 11


def test_credits_can_be_given_ahead_but_not_hoarded(api: TestClient, run: Run) -> None:
    with FrameWriter(run.folder.path) as lane, stream(api, run, "?rate=100") as socket:
        for _ in range(200):
            socket.send_text("next")
        eventually(lane.wanted, "that the server looks")
        got: list[int] = []
        while len(got) < 200:
            lane.publish(board(len(got) + 1))
            message = next_word(socket)
            if message.facts.state == "stalled":
                break  # the credits are used up: what is shown now is not sent
            got.append(message.facts.number)
        assert got == list(range(1, len(got) + 1))
        assert MOST_CREDITS <= len(got) < 200
        socket.send_text("next")
        assert next_picture(socket).facts.number == len(got) + 1


def test_the_end_brings_the_last_picture_and_the_runs_state(api: TestClient, run: Run) -> None:
    lane = FrameWriter(run.folder.path)
    with stream(api, run) as socket:
        assert unpack(socket.receive_bytes()).facts.state == "waiting"
        lane.publish(board(5))
        assert unpack(socket.receive_bytes()).facts.state == "live"
        lane.close()
        assert unpack(socket.receive_bytes()).facts.state == "finished"
        run.stop()
        last = next_picture(socket)
        assert (last.facts.number, last.facts.state) == (1, "finished")
        assert socket.receive() == {"type": "websocket.close", "code": 1000, "reason": "stopped"}


def test_a_writer_that_gives_up_is_named(api: TestClient, run: Run) -> None:
    lane = FrameWriter(run.folder.path)
    with stream(api, run) as socket:
        assert unpack(socket.receive_bytes()).facts.state == "waiting"
        lane.close(finished=False)
        assert unpack(socket.receive_bytes()).facts.state == "writer died"


def test_a_run_that_ended_shows_nothing(api: TestClient, run: Run) -> None:
    run.stop()
    with stream(api, run) as socket:
        assert unpack(socket.receive_bytes()) == FrameMessage(unpack(pack("waiting")).facts, b"")
        assert socket.receive() == {"type": "websocket.close", "code": 1000, "reason": "stopped"}


def test_only_who_has_the_token_sees_pictures(api: TestClient, run: Run) -> None:
    plain = TestClient(api.app, base_url="http://127.0.0.1:8642")
    with pytest.raises(WebSocketDenialResponse) as refused, stream(plain, run):
        pass
    assert refused.value.status_code == 401


def test_what_cannot_be_asked_for_is_refused(api: TestClient, run: Run) -> None:
    for query in ("?rate=0", "?rate=1000", "?env=-1", "?grid=0", "?rate=nan"):
        with pytest.raises((WebSocketDenialResponse, WebSocketDisconnect)), stream(api, run, query):
            pass


@pytest.mark.slow
@pytest.mark.chosen
def test_a_client_sees_pictures_of_a_run_on_a_server(home: Path) -> None:
    with ServerProcess(home, limits=NOTHING_STARTS) as server, server.client() as client:
        run = Trainer(home).submit(toy(), start=False)
        with pytest.raises(UnknownNameError, match="There is no run 'nothing'"):
            type(client.run(run.id))(client, "nothing").pictures(FrameRequest())
        lane = FrameWriter(run.folder.path)
        pictures = client.run(run.id).pictures(FrameRequest(60.0, 1))
        eventually(lane.wanted, "that the server looks")
        seen: list[Frame] = []

        def look() -> bool:
            frame = pictures.newest()
            seen.extend([frame] if frame is not None else [])
            return bool(seen) and seen[-1].step == goal

        for goal in (1, 2, 3, 4, 5, 6):
            lane.publish(board(goal), step=goal, ret=float("nan"))
            eventually(look, "a picture")
        assert [frame.step for frame in seen] == [1, 2, 3, 4, 5, 6]
        assert np.array_equal(seen[-1].pixels, board(6))
        assert np.isnan(seen[-1].ret)
        lane.close()
        run.stop()
        eventually(lambda: pictures.newest() is None and pictures.state == "finished", "the end")
        pictures.close()
        other = Trainer(home).submit(toy(), start=False)
        broken = client.run(other.id).pictures(FrameRequest())
        server.kill()
        with pytest.raises(MosaicError, match="The server has stopped sending pictures"):
            eventually(lambda: broken.newest() is not None, "the end")
        broken.close()
