"""Boards as viewers see them: sides, results in words, marks, own descriptions, names of keys, places of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gymnasium.spaces import Discrete

from mosaic.core.errors import InputError
from mosaic.envs.agent_places import agent_places
from mosaic.envs.board_cells import Board, board_of
from mosaic.envs.catalog import make_env
from mosaic.envs.chess import action_of
from mosaic.server.play.keys import key_map
from mosaic.ui.tui.play.side import side_text
from mosaic.ui.tui.play.view import MatchView
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def test_chess_in_words(client: TestClient) -> None:
    match_id = open_match(client, "classic/chess_v6", {"*": "human"})
    with screen(client, match_id) as white, screen(client, match_id, "player_1") as black:
        for move in ("f2f3", "e7e5", "g2g4", "d8h4"):
            agent = "player_1" if move[1] in "78" else "player_0"
            (black if agent == "player_1" else white).move(move[:2], move[2:])
        for seat, verdict in ((white, "You lost"), (black, "You won")):
            state = seat.until(lambda s: s["phase"] == "over")
            assert (state["verdict"], state["reason"]) == (verdict, "Black won: checkmate.")
        assert [move["san"] for move in state["moves"]] == ["f3", "e5", "g4", "Qh4#"]
        assert "4 player_1 Qh4#" in side_text(MatchView.model_validate(state), 0, 40).plain  # in the terminal
        assert [row["side"] for row in state["agents"]] == ["White", "Black"]
        assert state["last"] == [[3 / 8, 0, 1 / 8, 1 / 8], [7 / 8, 4 / 8, 1 / 8, 1 / 8]]
        assert state["layout"]["turns"]
        assert (state["layout"]["row_names"][0], state["layout"]["column_names"][0]) == ("8", "a")
        assert client.get(f"/matches/{match_id}").json()["verdict"] == "Black won"
    replay_id = client.post("/replays", json={"match_id": match_id}).json()["replay_id"]
    client.get(f"/replays/{replay_id}/pictures/4")  # waits until it is reached
    replayed = client.get(f"/replays/{replay_id}").json()
    assert replayed["moves"] == ["player_0: f3", "player_1: e5", "player_0: g4", "player_1: Qh4#"]
    assert [move["text"] for move in replayed["board_moves"]] == [move["san"] for move in state["moves"]]
    assert replayed["sides"] == {"player_0": "White", "player_1": "Black"}


def test_connect_four_marks_the_landing_cell_and_the_line(client: TestClient) -> None:
    match_id = open_match(client, "classic/connect_four_v3", {"*": "human"})
    with screen(client, match_id) as seat:
        for step in range(7):
            seat.move(f"column{1 + step % 2}")
        state = seat.until(lambda s: s["phase"] == "over")
        assert state["layout"]["line"] == [[2, 0], [3, 0], [4, 0], [5, 0]]
        x, y, width, height = state["last"][0]
        left, top, whole_width, whole_height = state["layout"]["area"]
        assert (x, width) == pytest.approx((left, whole_width / 7))
        assert (y, height) == pytest.approx((top + 2 * whole_height / 6, whole_height / 6))


def test_moves_of_chess_as_players_write_them() -> None:
    env = make_env("classic/chess_v6")
    turn, found = env.reset(0), []
    for number, move in enumerate(
        ("e2e4", "a7a6", "e4e5", "d7d5", "e5d6", "a6a5", "g1f3", "a5a4", "f1c4", "a4a3", "e1g1")
    ):
        (agent,) = turn.observations
        turn = env.step({agent: action_of(move, white=number % 2 == 0)})
        board = board_of(env)
        assert board is not None
        found.append(board.last_move)
    env.close()
    assert found == ["e4", "a6", "e5", "d5", "exd6", "a5", "Nf3", "a4", "Bc4", "a3", "O-O"]


def _env(**parts: Any) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(env_id="python:mine:make"), **parts)


def test_an_env_describes_its_own_board_and_places() -> None:
    given = {"sides": ["Red", "Blue"], "column_names": "abc", "area": [0, 0, 1, 0.5], "in_a_row": 3}
    env = _env(metadata={"board": given}, board_cells=lambda: [["R", "R", "R"], ["", "B", "B"]])
    board = board_of(env)
    assert isinstance(board, Board)
    assert (board.sides, board.column_names, board.area) == (("Red", "Blue"), ("a", "b", "c"), (0.0, 0.0, 1.0, 0.5))
    assert board.line == ((0, 0), (0, 1), (0, 2))
    assert board_of(_env(metadata={})) is None
    with pytest.raises(
        InputError, match=r"metadata\['board'\] of python:mine:make .* mapping of some of sides, row_names"
    ):
        board_of(_env(metadata={"board": {"colour": 1}}))
    with pytest.raises(InputError, match="'area' of the board of python:mine:make has four numbers"):
        board_of(_env(metadata={"board": {"area": [1]}}))
    places = agent_places(_env(agent_places=lambda: {"a": [0, 0.5, 0.1, 0.1]}))
    assert places == {"a": (0.0, 0.5, 0.1, 0.1)}


@pytest.mark.parametrize(
    ("env_id", "labels"),
    [
        ("gym/LunarLander-v3", {"KeyW": "main engine", "ArrowLeft": "left engine", "KeyD": "right engine"}),
        ("butterfly/knights_archers_zombies", {"KeyW": "forward", "KeyA": "turn left", "Space": "attack"}),
        ("butterfly/pistonball", {"ArrowUp": "piston up", "ArrowDown": "piston down"}),
    ],
)
def test_keys_are_named_by_what_they_do(env_id: str, labels: dict[str, str]) -> None:
    env = make_env(env_id)
    try:
        env.reset(0)
        agent = env.possible_agents[0]
        found = {"+".join(binding.keys): binding.label for binding in key_map(env, env.action_spaces[agent]).both}
        assert labels.items() <= found.items()
        if env_id.startswith("butterfly/"):
            x, y, width, height = agent_places(env)[agent]
            assert 0 <= x < x + width <= 1
            assert 0 <= y < y + height <= 1
    finally:
        env.close()


def test_an_atari_like_env_names_its_own_actions() -> None:
    env: Any = _env(get_action_meanings=lambda: ["NOOP", "FIRE", "UP", "UPRIGHT"])
    env.spec.facts = SimpleNamespace(config=SimpleNamespace(family="python"))
    found = key_map(env, Discrete(4))
    assert [(binding.keys, binding.label) for binding in found.left] == [(("KeyW",), "up"), (("Space",), "fire")]
    assert found.rest == 0
