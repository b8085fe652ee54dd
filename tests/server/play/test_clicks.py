"""What a person reads beside the picture of a match: names of actions, and words where there is no picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from mosaic.envs.action_names import action_names, names_of
from mosaic.envs.catalog import make_env
from mosaic.server.play.clicks import choices
from mosaic.server.play.rendering import picture_of
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


@pytest.mark.parametrize(
    ("env_id", "agent", "said"),
    [
        ("mpe/simple_speaker_listener_v4", "speaker_0", ["say 0", "say 1", "say 2"]),
        ("mpe/simple_speaker_listener_v4", "listener_0", ["rest", "left", "right", "down", "up"]),
        ("mpe/simple_crypto_v3", "bob_0", ["say 0", "say 1", "say 2", "say 3"]),
    ],
)
def test_agents_that_speak_are_not_told_that_they_move(env_id: str, agent: str, said: list[str]) -> None:
    env = make_env(env_id)
    turn = env.reset(0)
    assert [choice.label for choice in choices(env.spec, turn, agent)] == said
    env.close()


def test_an_agent_that_moves_and_speaks_has_a_button_for_both_at_once() -> None:
    env = make_env("mpe/simple_reference_v3")
    found = choices(env.spec, env.reset(0), "agent_0")
    env.close()
    assert [found[place].label for place in (1, 5, 49)] == ["left", "say 1, rest", "say 9, up"]
    assert [choice.action for choice in found] == list(range(50))


def test_cards_have_names_where_the_game_numbers_them() -> None:
    env = make_env("classic/gin_rummy_v4")
    turn = env.reset(0)
    (agent,) = turn.observations
    names = names_of("classic/gin_rummy_v4", 110)
    assert [names[action] for action in (2, 3, 6, 57, 58, 109)] == [
        *("draw", "take the discard", "discard AS", "discard KC", "knock with AS", "knock with KC"),
    ]
    legal = {names[action]: int(action) for action in np.flatnonzero(turn.action_masks[agent])}
    assert action_names(env.spec, turn, agent) == legal
    env.close()


def test_names_are_left_out_where_options_change_the_actions() -> None:
    assert len(names_of("classic/hanabi_v5", 20)) == 20
    assert names_of("classic/hanabi_v5", 30) == ()


def test_a_game_without_a_picture_is_filmed_as_text() -> None:
    env = make_env("classic/hanabi_v5")
    env.reset(0)
    drawn = picture_of(env)
    assert drawn is not None
    assert drawn.shape[1] > 400
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 2
    env.close()


def test_hanabi_is_played_by_what_is_shown(client: TestClient) -> None:
    match_id = open_match(client, "classic/hanabi_v5", {"*": "human"})
    with screen(client, match_id) as seat:
        labels = [spot["label"] for spot in seat.state["spots"]]
        assert labels[:5] == [f"play card {place}" for place in range(1, 6)]
        seat.send("press", spot=seat.state["spots"][0]["id"])
        seat.until(lambda state: state["step"] == 1)
        assert seat.state["note"] == ""


def test_our_own_tic_tac_toe_is_clicked_on_its_picture(client: TestClient) -> None:
    match_id = open_match(client, "mosaic/tictactoe", {"*": "human"})
    with screen(client, match_id) as seat:
        assert len(seat.state["spots"]) == 9
        seat.send("click", x=0.9, y=0.1)
        seat.until(lambda state: state["step"] == 1)
        assert seat.state["moves"][0]["text"] == "cell 3"
        assert "cell3" not in [spot["id"] for spot in seat.state["spots"]]
