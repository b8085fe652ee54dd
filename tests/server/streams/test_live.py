"""Matches and evaluations of a server, watched by those who have no page open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse

from mosaic.envs.catalog import make_env
from mosaic.store.live_sessions import SessionPictures, find_session, list_sessions
from mosaic.telemetry.frames.paths import ring_paths
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.pictures.message import FrameMessage, unpack
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import ServerProcess, app_client, eventually

TICTACTOE = "classic/tictactoe_v3"
PENDULUM = {"environment": {"env_id": "gym/Pendulum-v1"}, "agents": {"*": "random"}, "record": False}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client
    assert list_sessions(tmp_path) == []
    assert not (tmp_path / "live").exists() or list((tmp_path / "live").iterdir()) == []


def stream(client: TestClient, session_id: str) -> Any:
    return client.websocket_connect(
        f"ws://127.0.0.1:8642/live/{session_id}/frames?rate=100", headers=dict(client.headers)
    )


def next_picture(socket: Any) -> FrameMessage:
    socket.send_text("next")
    while True:
        message = unpack(socket.receive_bytes())
        if message.picture:
            return message


def ids(client: TestClient) -> list[str]:
    return [row["id"] for row in client.get("/live").json()]


def test_a_match_is_watched_without_a_page_and_goes_on_for_it(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "random"})
    (row,) = client.get("/live").json()
    assert {key: row[key] for key in ("id", "kind", "env", "policies")} == {
        "id": match_id,
        "kind": "match",
        "env": TICTACTOE,
        "policies": {"*": "random"},
    }
    with stream(client, match_id) as socket:
        first, second = next_picture(socket), next_picture(socket)
        assert first.facts.agent == "player_1=0, player_2=0"
        assert second.facts.step > first.facts.step  # while nobody looks, time stands still
        client.delete(f"/matches/{match_id}")
        assert socket_end(socket) == {"type": "websocket.close", "code": 1000, "reason": "finished"}
    assert ids(client) == []


def socket_end(socket: Any) -> Any:
    while (message := socket.receive())["type"] != "websocket.close":
        pass
    return message


def test_who_comes_while_a_person_thinks_sees_the_board(client: TestClient, tmp_path: Path) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "random"})
    with screen(client, match_id) as seat:
        seat.until(lambda s: s["chooser"] is not None)
        with closing(SessionPictures(find_session(tmp_path, match_id), FrameRequest(100))) as pictures:
            found: list[Any] = []
            eventually(lambda: bool(found or found.extend(filter(None, [pictures.newest()]))), "a picture")
        assert found[0].step == 0


def test_a_match_that_nobody_looks_at_from_outside_is_drawn_for_its_page_alone(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    env_class = type(make_env(TICTACTOE))
    render = env_class.render
    monkeypatch.setattr(env_class, "render", lambda self: drawn.append(1) or render(self))
    match_id = open_match(client, TICTACTOE, {"*": "random"})
    assert drawn == []
    with screen(client, match_id) as seat:
        seat.until_frame(lambda h: h.step >= 2)
        assert not any(path.exists() for path in ring_paths(find_session(tmp_path, match_id).path))
        assert len(drawn) <= seat.state["step"] + 2


def test_an_evaluation_is_watched_and_stopped_without_a_trace(client: TestClient, tmp_path: Path) -> None:
    asked = client.post("/evaluate", json={**PENDULUM, "episodes": 5000})
    assert asked.status_code == 201, asked.text
    examination_id = asked.json()["examination_id"]
    eventually(lambda: examination_id in ids(client), "the evaluation's show")
    show = find_session(tmp_path, examination_id)
    with stream(client, examination_id) as socket:
        first, second = next_picture(socket), next_picture(socket)
        assert (first.facts.width, first.facts.height) == (500, 500)
        assert second.facts.number > first.facts.number
        client.post(f"/evaluate/{examination_id}/stop")
        assert socket_end(socket)["code"] == 1000
    assert ids(client) == []
    assert not any(path.exists() for path in ring_paths(show.path))


def test_what_is_not_played_is_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDenialResponse) as refused, stream(client, "nothing"):
        pass
    assert refused.value.status_code == 404
    assert "There is no running game named 'nothing'." in refused.value.json()["error"]


@pytest.mark.slow
@pytest.mark.chosen
def test_a_client_watches_and_a_killed_server_leaves_nothing_after_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ServerProcess(home) as server, server.client() as client:
        request = {"environment": {"env_id": TICTACTOE}, "agents": {"*": "random"}}
        match_id = client.send("POST", "/matches", json=request).json()["match_id"]
        assert [row.id for row in client.sessions()] == [match_id]
        with closing(client.session(match_id).pictures(FrameRequest(50))) as pictures:
            eventually(lambda: pictures.newest() is not None, "a picture")
        show = find_session(home, match_id)
        assert any(path.exists() for path in ring_paths(show.path))
        server.kill()
    assert list_sessions(home) == []
    assert show.path.exists()
    with app_client(home):
        assert list((home / "live").iterdir()) == []
        assert not any(path.exists() for path in ring_paths(show.path))
