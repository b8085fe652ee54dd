"""Matches after a restart of the server: the same position, the same links, or the true reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.server.auth.programs import ProgramRule
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.registry import Matches
from mosaic.server.play.requests import MoveRequest, RestartRequest, make_move, restart
from mosaic.server.play.saved import SavedMatches
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client

TICTACTOE = "classic/tictactoe_v3"
UNSEEDED = """
import random
import gymnasium
from gymnasium import spaces


class Unseeded(gymnasium.Env):
    observation_space, action_space = spaces.Discrete(10**6), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return random.SystemRandom().randrange(10**6), {}

    def step(self, action):
        return random.SystemRandom().randrange(10**6), 0.0, False, False, {}
"""


def seen(client: TestClient, match_id: str) -> dict[str, object]:
    answer = client.get(f"/matches/{match_id}")
    assert answer.status_code == 200, answer.text
    return {part: answer.json()[part] for part in ("env", "episode", "seed", "step", "board", "moves", "agents")}


def test_a_match_continues_where_the_server_stopped(tmp_path: Path) -> None:
    with app_client(tmp_path) as client:
        match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
        with screen(client, match_id) as seat:
            seat.send("restart", seed=7)
            seat.until(lambda s: s["episode"] == 1 and s["step"] == 0 and s["chooser"] is not None)
            seat.move("cell1")
            seat.until(lambda s: s["step"] == 2 and s["chooser"] is not None)
            seat.send("assign", agent="player_2", policy="random")
            seat.until(lambda s: s["agents"][1]["policy"] == "random")
            before = seen(client, match_id)
            free = seat.state["spots"][0]["id"]
    with app_client(tmp_path) as client:
        assert seen(client, match_id) == before
        with screen(client, match_id, "player_1") as seat:  # a player's link
            seat.move(free)
        assert client.delete(f"/matches/{match_id}").status_code == 204
    with app_client(tmp_path) as client:
        assert client.get(f"/matches/{match_id}").status_code == 404


def test_an_episode_that_was_over_is_restored_and_kept_once(tmp_path: Path) -> None:
    with app_client(tmp_path) as client:
        match_id = open_match(client, "classic/leduc_holdem_v4", {"*": "random"}, record=True)
        with screen(client, match_id) as seat:
            result = seat.until(lambda s: s["phase"] == "over" and s["kept"])["result"]
    with app_client(tmp_path) as client:
        restored = client.get(f"/matches/{match_id}").json()
        assert (restored["phase"], restored["result"]) == ("over", result)
        assert len(client.get("/episodes").json()) == 1


def test_a_killed_server_loses_no_move(tmp_path: Path) -> None:
    killed = Matches(tmp_path)
    request = MatchRequest.model_validate({"environment": {"env_id": "classic/hanabi_v5"}, "agents": {"*": "human"}})
    match = killed.open(request)
    make_move(match, MoveRequest(move="play card 1", wait_s=20))
    again = Matches(tmp_path)
    restored = again.find(match.id)
    assert restored is not match
    assert (restored.state.episode.step, restored.state.episode.moves) == (1, match.state.episode.moves)
    assert restored.state.episode.seed == match.state.episode.seed
    again.close()
    killed.close()


def test_clocks_continue_after_a_restart(tmp_path: Path) -> None:
    request = MatchRequest.model_validate(
        {"environment": {"env_id": TICTACTOE}, "agents": {"*": "human"}, "clock": {"initial_s": 60}}
    )
    matches = Matches(tmp_path)
    match = matches.open(request)
    clocks = match.state.pace.clocks
    assert clocks is not None
    clocks.carry_over({"player_1": 20.0, "player_2": 30.0})
    restart(match, RestartRequest(wait_s=20))
    make_move(match, MoveRequest(move="cell 1", wait_s=20))
    matches.close()
    again = Matches(tmp_path)
    restored = again.find(match.id).state.pace.clocks
    assert restored is not None
    left_s = restored.left_s()
    assert left_s["player_1"] == 20.0
    assert left_s["player_2"] <= 30.0
    again.close()


def test_words_for_a_match_that_cannot_be_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unseeded_game.py").write_text(UNSEEDED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "unseeded_game", raising=False)
    request = MatchRequest.model_validate(
        {"environment": {"env_id": "python:unseeded_game:Unseeded"}, "agents": {"*": "human"}, "pace": "turns"}
    )
    rule = ProgramRule(tmp_path / "home", allowed=True)
    matches = Matches(tmp_path / "home", programs=rule)
    match = matches.open(request)
    make_move(match, MoveRequest(move="1", wait_s=20))
    match_id = match.id
    matches.close()
    with pytest.raises(Exception, match="cannot be restored: The position cannot be restored: step 0: observations"):
        Matches(tmp_path / "home", programs=rule).find(match_id)
    file = tmp_path / "home" / "matches" / f"{match_id}.match.json"
    file.write_text(file.read_text().replace('"reproducible":true', '"reproducible":false')[:-9])
    with pytest.raises(Exception, match=f"Match {match_id} cannot be restored: its file {file.name} is damaged"):
        SavedMatches(tmp_path / "home").find(match_id)
