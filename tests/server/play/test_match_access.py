"""Who may give an agent to another policy: the match's owner and the person who holds it, with their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from tests.server.match_kit import OWNER_KEYS, Screen, open_match, screen
from tests.server.server_kit import app_client

TICTACTOE = "classic/tictactoe_v3"
REFUSED = "Only the person who holds '{}' or the match's owner may give it to another policy."


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def _refused_everything(stranger: Screen, agents: tuple[str, ...]) -> None:
    for agent in agents:
        for policy in ("random", "human", None):
            stranger.send("assign", agent=agent, policy=policy)
            assert stranger.until_refused() == REFUSED.format(agent)
    stranger.send("swap")
    assert stranger.until_refused() == REFUSED.format("player_1")
    stranger.send("rate", hz=9)
    assert stranger.until_refused() == "Only the match's owner may change the speed."


def test_a_stranger_reassigns_nothing_and_learns_no_key(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as owner, screen(client, match_id, owner=False) as stranger:
        _refused_everything(stranger, ("player_1", "player_2"))
        for key in ("", "x" * 22, "ключ"):
            stranger.send("identify", key=key)
            assert stranger.until_refused().startswith("The key in this link belongs to another match")
        keys = [OWNER_KEYS[match_id], *(row["key"] for row in owner.state["agents"])]
        assert all(len(key) > 20 for key in keys)
        seen = json.dumps(stranger.state) + client.get("/matches").text + client.get(f"/matches/{match_id}").text
        assert not any(key in seen for key in keys)
        assert not any(row["may_assign"] for row in stranger.state["agents"])
        with screen(client, match_id, "player_2") as claiming:  # a claim without the key gives no right
            _refused_everything(claiming, ("player_1", "player_2"))
        assert owner.agent("player_1")["policy"] == "human"
        assert owner.state["news"] == []


def test_a_spectator_does_not_control_the_match_of_others(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    agents = ("player_1", "player_2")
    with screen(client, match_id, *agents, owner=False) as player, screen(client, match_id, owner=False) as spectator:
        for kind, more in (
            ("pause", {"on": True}),
            ("step", {}),
            ("restart", {}),
            ("record", {"on": True}),
            ("demo", {"name": "mine"}),
        ):
            spectator.send(kind, **more)
            assert spectator.until_refused() == "You watch this match: its players and its owner control it."
        player.send("pause", on=True)
        spectator.until(lambda s: s["paused"])
        with screen(client, match_id) as owner:
            owner.send("pause", on=False)
            spectator.until(lambda s: not s["paused"])
    policies_alone = open_match(client, TICTACTOE, {"*": "random"})
    with screen(client, policies_alone, owner=False) as spectator:
        spectator.send("pause", on=True)
        spectator.until(lambda s: s["paused"])


def test_the_holder_and_the_owner_reassign_and_both_are_told(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as owner:
        key = owner.agent("player_2")["key"]
        with screen(client, match_id, owner=False) as holder:
            holder.send("identify", key=key)
            holder.until(lambda s: s["agents"][1]["mine"] and not s["agents"][0]["mine"])
            owner.until(lambda s: [row["mine"] for row in s["agents"]] == [True, False])
            holder.send("assign", agent="player_1", policy="random")
            assert holder.until_refused() == REFUSED.format("player_1")
            holder.send("assign", agent="player_2", policy="random")
            told = "player_2 is now played by random instead of a person: changed by its player."
            for each in (owner, holder):
                assert each.until(lambda s: s["news"])["news"] == [{"number": 1, "text": told}]
            owner.send("assign", agent="player_2", policy="minimax")
            told = "player_2 is now played by minimax instead of random: changed by the match's owner."
            for each in (owner, holder):
                assert each.until(lambda s: len(s["news"]) == 2)["news"][0] == {"number": 2, "text": told}
            holder.send("assign", agent="player_2", policy="human")
            owner.until(lambda s: s["agents"][1]["human"])


def test_a_held_agent_waits_for_its_person(client: TestClient) -> None:
    """Neither a claim nor the owner plays for someone who reloads the page; the key does."""
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as owner:
        key = owner.agent("player_2")["key"]
        with screen(client, match_id, owner=False) as holder:
            holder.send("identify", key=key)
            holder.until(lambda s: s["agents"][1]["mine"])
        owner.until(lambda s: s["viewers"] == 1)
        owner.move("cell5")
        with screen(client, match_id, "player_2") as thief:
            for each in (owner, thief):
                each.send("press", agent="player_2", spot="cell1")
                assert each.until_refused() == "You do not play 'player_2': another person plays it."
            with screen(client, match_id, owner=False) as again:
                again.send("identify", key=key)
                again.move("cell1")
        owner.until(lambda s: s["step"] == 2)


def test_a_claim_is_free_once(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id, "player_1"):
        with pytest.raises(WebSocketDisconnect) as gone, screen(client, match_id, "player_1"):
            pass
        assert gone.value.reason.startswith("'player_1' belongs to another player")
