"""Board games in a match: moves by clicks on the picture, for every legal move and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.runners.record import episode_from_json, replay
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client

TICTACTOE = "classic/tictactoe_v3"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def test_a_whole_game_by_clicks_against_minimax(client: TestClient) -> None:
    """The person takes the first free cell each time; minimax does not lose."""
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        while seat.until(lambda s: s["chooser"] is not None or s["phase"] == "over")["phase"] != "over":
            assert seat.agent("player_1")["acting"]
            seat.click(seat.state["spots"][0]["id"])
            step = seat.state["step"]
            seat.until(lambda s, step=step: s["step"] > step)
        assert seat.state["result"] in ("player_2 (minimax) wins.", "A draw.")
        assert [move["agent"] for move in seat.state["moves"][:2]] == ["player_1", "player_2"]
        assert seat.state["moves"][0]["text"] == "cell 1"
        facts = seat.until_frame(lambda h: h.step == seat.state["step"])
        picture = seat.frames[-1].frame()
        assert picture is not None
        assert (facts.format, (facts.height, facts.width)) == ("webp", picture.pixels.shape[:2])
        returns = {agent["agent"]: agent["return"] for agent in seat.state["agents"]}
        assert facts.agent == ", ".join(f"{agent}={value:.4g}" for agent, value in returns.items())
        seat.send("click", x=0.5, y=0.5)
        assert seat.until_refused() == "The episode is over. Restart to play again."
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    assert episode.policies == {"player_1": "human", "player_2": "minimax"}
    env = make_env(EnvironmentConfig.model_validate(episode.environment))
    assert replay(env, episode) is None
    env.close()


def test_chess_by_two_people_with_castling_en_passant_and_promotion(client: TestClient) -> None:
    match_id = open_match(client, "classic/chess_v6", {"*": "human"})
    with screen(client, match_id, "player_0") as white, screen(client, match_id, "player_1") as black:
        line = "e2e4 a7a6 g1f3 a6a5 f1c4 a5a4 e1g1 a4a3 e4e5 d7d5 e5d6 a3b2 d6c7 b2a1"
        for number, move in enumerate(line.split()):
            mover, other = (white, black) if number % 2 == 0 else (black, white)
            mover.until(lambda s: s["chooser"] is not None)
            step = mover.state["step"]
            mover.move(*_spots(move, "n" if move == "b2a1" else ""))
            other.until(lambda s, step=step: s["step"] > step)
        white.move("c7", "d8", "=q")
        texts = [move["text"] for move in white.state["moves"]]
        assert texts == [*line.replace("b2a1", "b2a1n").split(), "c7d8q"]
        black.until(lambda s: s["step"] == len(texts))
        assert [spot["id"] for spot in black.state["spots"]] == ["e8"]  # in check by the new queen
        assert not white.state["spots"]
    record = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    assert _final_position(record).split()[0] == "rnbQkbnr/1p2pppp/8/8/2B5/5N2/P1PP1PPP/nNBQ1RK1"


def _spots(move: str, promotion: str) -> list[str]:
    return [move[:2], move[2:4], *([f"={promotion}"] if promotion else [])]


def _final_position(episode: Any) -> str:
    env = make_env(EnvironmentConfig.model_validate(episode.environment))
    turn = env.reset(episode.seed)
    for actions in episode.actions:
        turn = env.step(actions)
    env.close()
    (agent,) = turn.observations
    return str(turn.infos[agent]["fen"])


def test_opening_moves_against_stockfish(client: TestClient) -> None:
    agents = {"player_0": "human", "player_1": "stockfish:nodes=200"}
    match_id = open_match(client, "classic/chess_v6", agents)
    with screen(client, match_id) as white:
        white.move("e2", "e4")
        white.until(lambda s: s["step"] == 2 and s["chooser"] == "player_0")
        white.move("g1", "f3")
        white.until(lambda s: s["step"] == 4)
        assert [move["policy"] for move in white.state["moves"]] == ["human", "stockfish:nodes=200"] * 2


def test_another_piece_can_be_chosen_and_a_choice_taken_back(client: TestClient) -> None:
    match_id = open_match(client, "classic/chess_v6", {"*": "human"})
    with screen(client, match_id) as both:
        both.click("e2")
        both.until(lambda s: s["path"] == ["e2"])
        assert {spot["id"] for spot in both.state["spots"]} == {"e3", "e4"}
        assert [spot["id"] for spot in both.state["selected"]] == ["e2"]
        both.click("g1")
        both.until(lambda s: s["path"] == ["g1"])
        both.send("press", spot="g1")
        both.until(lambda s: s["path"] == [])
        both.send("press", spot="e2")
        both.until(lambda s: s["path"] == ["e2"])
        both.send("press", spot="e5")
        assert both.until_refused() == "'e5' cannot be chosen here after e2. You can choose: e3, e4."
        both.send("click", x=0.1, y=0.4)
        assert "no legal move on that spot" in both.until_refused()


def test_promotion_offers_four_pieces_below_each_other(client: TestClient) -> None:
    match_id = open_match(client, "classic/chess_v6", {"*": "human"})
    with screen(client, match_id) as both:
        for move in ["a2a4", "h7h6", "a4a5", "h6h5", "a5a6", "h5h4", "a6b7", "h4h3"]:
            both.move(move[:2], move[2:])
        both.click("b7")
        both.until(lambda s: s["path"] == ["b7"])
        both.click("a8")
        both.until(lambda s: len(s["path"]) == 2)
        offered = {spot["id"]: spot["rect"] for spot in both.state["spots"]}
        assert {key: rect[1] * 8 for key, rect in offered.items()} == {
            "=q": 0,
            "=n": 1,
            "=r": 2,
            "=b": 3,
        }
        both.send("key", code="KeyR", key="r", down=True)
        both.until(lambda s: s["step"] == 9)
        assert both.state["moves"][-1]["text"] == "b7a8r"


@pytest.mark.parametrize("game", ["tictactoe_v3", "connect_four_v3", "chess_v6", "go_v5"])
def test_the_picture_changes_where_the_spots_lie(game: str) -> None:
    """Of each legal first move: pixels outside its spots stay as they were."""
    import numpy as np

    from mosaic.server.play.clicks import choices

    made = make_env(f"classic/{game}")
    turn = made.reset(0)
    (agent,) = turn.observations
    offered = choices(made.spec, turn, agent)
    for choice in (offered[0], offered[len(offered) // 2], [c for c in offered if c.label != "pass"][-1]):
        made.reset(0)
        before = made.render()
        made.step({agent: choice.action})
        after = made.render()
        assert before is not None
        assert after is not None
        rows, columns = np.nonzero((before != after).any(axis=-1))
        assert len(rows), choice.label
        height, width = before.shape[:2]
        rects = [spot.rect for spot in choice.spots if spot.rect]
        slack = 0.02  # anti-aliased edges and env margins
        inside = np.zeros(len(rows), bool)
        for x, y, w, h in rects:
            across = (columns / width >= x - slack) & (columns / width <= x + w + slack)
            inside |= across & (rows / height >= y - slack) & (rows / height <= y + h + slack)
        assert inside.all(), choice.label
        mark = choice.spots[-1].mark
        assert mark is not None
        x, y, w, h = rects[-1]
        distance = np.hypot(columns / width - (x + mark[0] * w), rows / height - (y + mark[1] * h))
        assert distance.min() < 0.05, choice.label
    made.close()
