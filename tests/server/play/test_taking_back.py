"""Moves taken back, and matches that begin in a position of a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from mosaic.core.episode import EpisodeNote, PolicyChange
from mosaic.core.errors import FormatError
from mosaic.envs.catalog import make_env
from mosaic.runners.local import LocalEnvRunner, play_episode
from mosaic.runners.record import episode_from_json, episode_to_json, replay
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client

TICTACTOE = "classic/tictactoe_v3"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def _record(client: TestClient, match_id: str) -> Any:
    return episode_from_json(client.get(f"/matches/{match_id}/episode").json())


def test_undo_takes_back_the_move_and_the_reply_and_the_record_says_so(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"}, seed=3)
    with screen(client, match_id) as seat:
        seat.send("undo")
        assert seat.until_refused() == "You have not made a move that could be taken back."
        seat.move("cell5")
        seat.until(lambda s: s["step"] == 2)
        board = seat.state["board"]
        seat.move("cell1" if not board[0][0] else "cell3")
        seat.until(lambda s: s["step"] == 4)
        seat.send("undo")
        seat.until(lambda s: s["step"] == 2 and s["phase"] == "playing")
        assert seat.state["board"] == board
        assert [move["step"] for move in seat.state["moves"]] == [1, 2]
        assert seat.state["chooser"] == "player_1"
        seat.move("cell8" if not board[2][1] else "cell6")
        seat.until(lambda s: s["step"] == 4)
    record = _record(client, match_id)
    assert record.notes == [EpisodeNote(2, "player_1", "took_back", 2)]
    assert record.changes == []
    with closing(make_env(TICTACTOE)) as env:
        assert replay(env, record) is None


def test_undo_after_the_end_and_by_request(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"}, seed=3)
    for cell in (1, 4, 2, 5, 3):
        position = client.post(f"/matches/{match_id}/moves", json={"move": f"cell {cell}"}).json()
    assert position["phase"] == "over"
    position = client.post(f"/matches/{match_id}/undo", json={}).json()
    assert (position["phase"], position["step"], position["agent"]) == ("playing", 4, "player_1")
    assert "cell 3" in position["legal_actions"]


def test_a_move_is_not_taken_back_over_that_of_another_person(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id, "player_1") as first, screen(client, match_id, "player_2") as second:
        first.move("cell5")
        second.move("cell1")
        first.until(lambda s: s["step"] == 2)
        first.send("undo")
        assert first.until_refused() == "player_2 has moved since your last move."
        second.send("undo")
        first.until(lambda s: s["step"] == 1)


def test_real_time_is_not_taken_back(client: TestClient) -> None:
    match_id = open_match(client, "gym/CartPole-v1", {"*": "human"})
    with screen(client, match_id) as seat:
        seat.send("undo")
        assert seat.until_refused() == "Moves of a game in real time cannot be taken back."


def test_hidden_information_is_not_taken_back(client: TestClient) -> None:
    match_id = open_match(client, "classic/leduc_holdem_v4", {"*": "human"})
    with screen(client, match_id, "player_0", "player_1") as seat:
        while seat.until(lambda s: s["chooser"] or s["phase"] != "playing")["phase"] == "playing":
            step = seat.state["step"]
            names = {spot["label"]: spot["id"] for spot in seat.state["spots"]}
            seat.send("press", spot=names.get("call") or names["check"])
            assert not seat.until(lambda s, step=step: s["step"] > step)["undo"]
        seat.send("undo")  # everybody has seen all cards now
        assert seat.until_refused() == "Moves of a game with hidden information cannot be taken back."


def test_play_on_from_a_position_of_a_replay(client: TestClient) -> None:
    with closing(make_env("classic/connect_four_v3")) as env:
        episode = play_episode(env, {"*": "random"}, 7)
    replay_id = client.post("/replays", json={"episode": episode_to_json(episode)}).json()["replay_id"]
    asked = {"step": 5, "agents": {"player_0": "random", "player_1": "human"}}
    answer = client.post(f"/replays/{replay_id}/matches", json=asked)
    assert answer.status_code == 201, answer.text
    match_id = answer.json()["match_id"]
    with screen(client, match_id) as seat:
        assert (seat.state["step"], seat.state["chooser"], len(seat.state["moves"])) == (5, "player_1", 5)
        seat.move(seat.state["spots"][0]["id"])
        seat.until(lambda s: s["step"] == 7)
    record = _record(client, match_id)
    assert record.actions[:5] == episode.actions[:5]
    assert (record.seed, record.policy_of("player_1", 3), record.policy_of("player_1", 5)) == (7, "random", "human")
    assert record.changes == [PolicyChange(5, "player_1", "human")]
    assert record.notes == [EpisodeNote(5, "", "continued")]
    over = client.post(f"/replays/{replay_id}/matches", json={**asked, "step": episode.env_steps})
    assert over.json()["error"] == f"The game is over at step {episode.env_steps}: choose an earlier position."
    beyond = client.post(f"/replays/{replay_id}/matches", json={**asked, "step": 99})
    assert beyond.json()["error"].startswith("There is no step 99; the episode has steps 0 to")


class _Counter:
    """Remembers how many decisions it has made."""

    def __init__(self) -> None:
        self.seen = 0

    def begin(self, agents: tuple[str, ...], seed: int) -> None:
        self.seen = 0

    def act(self, turn: Any) -> dict[str, int]:
        self.seen += 1
        return {agent: int(turn.action_masks[agent].argmax()) for agent in turn.observations}

    def forget(self, agent: str) -> None:
        pass

    def close(self) -> None:
        pass


def test_policies_with_a_memory_see_the_opening_and_a_wrong_one_is_refused() -> None:
    with closing(make_env(TICTACTOE)) as env:
        opening = play_episode(env, {"*": "random"}, 5, max_steps=4)
        counter = _Counter()
        runner = LocalEnvRunner(env, {"player_1": "counter", "player_2": "random"}, controllers={"counter": counter})
        steps = [runner.record.env_steps for _ in runner.turns(5, digests=True, opening=opening, max_steps=5)]
        assert steps == [0, 1, 2, 3, 4, 5]
        assert counter.seen == 3
        assert runner.record.actions[:4] == opening.actions
        opening.digests[2] += 1
        with pytest.raises(FormatError, match="The position cannot be restored: step 2: observations differ"):
            list(runner.turns(5, digests=True, opening=opening))
