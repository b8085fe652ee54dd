"""Matches recorded as demonstrations, with takeovers; demonstrations over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic import make_env, play_episode
from mosaic.runners.record import episode_to_json
from mosaic.server.play import keeping
from mosaic.store.demos.reference import load_trajectories
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client, eventually
from tests.store.demos.demo_cases import record_games

pytest.importorskip("minari", reason="the extra 'demos' is not installed")

TICTACTOE = "classic/tictactoe_v3"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def test_a_takeover_in_mid_episode_is_labelled_in_the_dataset(client: TestClient, tmp_path: Path) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"}, demo="taken")
    with screen(client, match_id) as one:
        one.move("cell1")
        one.until(lambda s: s["chooser"] == "player_1")  # minimax has taken the middle
        one.send("assign", agent="player_2", policy="human")
        one.until(lambda s: s["agents"][1]["human"])
        one.move("cell2")
        one.move("cell9")  # as player_2, which lets player_1 win
        one.send("assign", agent="player_2", policy=None)
        one.until(lambda s: not s["agents"][1]["human"])
        one.move("cell3")
        ended = one.until(lambda s: s["phase"] == "over" and s["in_demo"])
    assert (ended["demo"], ended["demo_episodes"]) == ("taken", 1)
    (first,), (second,) = (load_trajectories(f"demo:taken/player_{number}", home=tmp_path) for number in (1, 2))
    assert first.controllers == ("human", "human", "human")
    assert second.controllers == ("minimax", "human")
    assert list(second.actions) == [4, 8]
    assert (first.total, second.total) == (1, -1)
    (row,) = client.get("/demos/taken").json()["episode_rows"]
    assert row["controllers"] == {"player_1": ["human"], "player_2": ["minimax", "human"]}
    replayed = client.post("/replays", json={"demo": "taken", "number": 0}).json()
    assert replayed["env_steps"] == 5
    for unclear in ({}, {"demo": "taken", "match_id": match_id}, {"match_id": match_id, "number": 0}):
        assert client.post("/replays", json=unclear).json()["error"].startswith("Name what to replay: one of")
    assert client.post("/replays", json={"demo": "taken", "episodes": 0}).status_code == 422


def test_an_episode_is_saved_after_it_ended_once(client: TestClient, tmp_path: Path) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as one:
        for cell in (1, 4, 2, 5, 3):
            one.move(f"cell{cell}")
        one.until(lambda s: s["phase"] == "over")
        for _ in range(2):
            one.send("demo", name="after")
            one.send("demo", name=None)
        one.until(lambda s: s["in_demo"] and s["demo"] is None)
        one.send("restart")
        one.until(lambda s: s["episode"] == 1 and len(s["spots"]) == 9)
        assert not one.state["in_demo"]
        one.move("cell5")
        one.send("demo", name="after")
        one.until(lambda s: s["demo"] == "after")
        one.send("restart")  # cut: player_1's move has no outcome, and no agent has a whole step
        one.until(lambda s: s["episode"] == 2 and len(s["spots"]) == 9)
        one.move("cell1")
        one.move("cell2")
        one.move("cell3")
        one.send("restart")
        one.until(lambda s: s["episode"] == 3 and s["demo_episodes"] == 2)
    rows = client.get("/demos/after").json()["episode_rows"]
    assert [(row["env_steps"], row["agent_steps"]) for row in rows] == [(5, 5), (3, 2)]


def test_a_demonstration_of_another_env_is_refused(client: TestClient, tmp_path: Path) -> None:
    record_games(tmp_path, "pole", "gym/CartPole-v1", {"*": "random"}, episodes=1)
    asked = {"environment": {"env_id": TICTACTOE}, "agents": {"*": "human"}, "demo": "pole"}
    answer = client.post("/matches", json=asked)
    assert answer.status_code == 400
    assert "was recorded in gym/CartPole-v1, not in classic/tictactoe_v3" in answer.json()["error"]
    assert client.post("/matches", json={**asked, "demo": "../x"}).status_code == 400
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as one:
        one.send("demo", name="pole")
        assert "Choose another name." in one.until_refused()
        one.send("demo", name="../x")
        assert "does not understand this message" in one.until_refused()
        assert one.state["demo"] is None


def test_an_episode_with_too_many_observations_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_UNASKED_BYTES", 40)
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as one:
        for cell in (1, 4, 2, 5, 3):
            one.move(f"cell{cell}")
        one.until(lambda s: s["phase"] == "over")
        one.send("demo", name="long")
        one.until(lambda s: s["note"].startswith("This episode has too many observations for a demonstration."))
    assert client.get("/demos").json()["demonstrations"] == []


def test_demonstrations_are_edited_over_http(client: TestClient, tmp_path: Path) -> None:
    record_games(tmp_path, "games", episodes=4)
    (row,) = client.get("/demos").json()["demonstrations"]
    assert (row["name"], row["episodes"], row["env"]) == ("games", 4, TICTACTOE)
    assert client.post("/demos/games/drop", json={}).json()["episodes"] == 3
    assert client.post("/demos/games/drop", json={"episodes": [0]}).json()["episodes"] == 2
    assert client.post("/demos/games/drop", json={"episodes": [0], "last": 1}).status_code == 400
    left = client.post("/demos/games/trim", json={"episode": 0, "last": 2}).json()
    assert left["episode_rows"][0]["agent_steps"] == 2
    answer = client.post("/demos/games/filter", json={"agent": "player_1", "min_return": 99})
    assert (answer.status_code, "nothing was changed" in answer.json()["error"]) == (400, True)
    assert client.post("/demos/games/filter", json={"agent": "player_1", "min_return": -99}).json()["episodes"] == 2
    archive = client.get("/demos/games/archive")
    assert archive.headers["content-type"] == "application/zip"
    assert client.post("/demos/copy/archive", content=archive.content).json()["episodes"] == 2
    for damaged in (archive.content[:500], bytes(1_500_000)):  # more than other requests may have
        reply = client.post("/demos/copy/archive", content=damaged)
        assert "is not a complete .zip file" in reply.json()["error"]
    assert client.delete("/demos/games").status_code == 204
    assert client.get("/demos/games").status_code == 404
    assert client.get("/demos/..%2F..%2Fetc").status_code in (400, 404)


def test_a_recorded_episode_is_added_over_http(client: TestClient, tmp_path: Path) -> None:
    episode = episode_to_json(play_episode(make_env(TICTACTOE), {"*": "random"}, 3))
    assert client.post("/demos/sent/episodes", json=episode).json()["episodes"] == 1
    own = {**episode, "environment": {"family": "python", "env_id": "python:evil:make"}}
    answer = client.post("/demos/sent/episodes", json=own)
    assert answer.status_code == 403, answer.text
    assert "python:evil" in answer.json()["error"]


def test_an_evaluation_is_recorded_over_http(client: TestClient, tmp_path: Path) -> None:
    asked = {"environment": {"env_id": TICTACTOE}, "agents": {"*": "random"}, "episodes": 2, "demo": "measured"}
    assert client.post("/evaluate", json={**asked, "demo": "a/b"}).status_code == 400
    job = client.post("/evaluate", json=asked)
    assert job.status_code == 201, job.text
    address = f"/evaluate/{job.json()['examination_id']}"
    eventually(lambda: client.get(address).json()["state"] == "finished", "the evaluation's end")
    assert client.get("/demos/measured").json()["episodes"] == 2
