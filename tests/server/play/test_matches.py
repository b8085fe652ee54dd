"""A match: who sits where, what is kept, how it ends, what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.policies.controller import Explanation
from mosaic.runners.record import episode_from_json
from mosaic.server.play import advice
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client

TICTACTOE = "classic/tictactoe_v3"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def test_a_claimed_agent_is_played_by_its_own_screen_only(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as first:
        assert [row["mine"] for row in first.state["agents"]] == [True, True]
        with screen(client, match_id, "player_2") as second:
            first.until(lambda s: [row["mine"] for row in s["agents"]] == [True, False])
            assert [row["mine"] for row in second.state["agents"]] == [False, True]
            second.send("press", spot="cell5")
            assert second.until_refused() == "It is not your turn: player_1 must act now."
            first.move("cell5")
            second.until(lambda s: s["chooser"] == "player_2")
            first.send("press", agent="player_2", spot="cell1")
            assert first.until_refused() == "You do not play 'player_2': another person plays it."
            second.move("cell1")
            first.until(lambda s: s["step"] == 2)
        first.until(lambda s: [row["mine"] for row in s["agents"]] == [True, True])


def test_what_a_viewer_sends_is_bounded(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as seat:
        for number in range(200):
            seat.send("key", code=f"Key{number}", key="", down=True)
        assert seat.until_refused() == "More than 64 keys are down at once."


def test_reload_in_mid_match_finds_everything(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        seat.move("cell1")
        seat.until(lambda s: s["step"] == 2 and s["chooser"] is not None)
        before = seat.state
    with screen(client, match_id) as again:
        again.until(lambda s: s["chooser"] is not None)
        for part in ("step", "moves", "spots", "agents", "seed"):
            assert again.state[part] == before[part]
        assert again.until_frame(lambda h: h.step == 2).episode == 0


def test_take_over_hand_back_and_swap(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        seat.send("pause", on=True)
        seat.send("press", spot="cell1")
        seat.send("step")
        seat.until(lambda s: s["step"] == 1)
        seat.send("assign", agent="player_2", policy="human")
        seat.until(lambda s: s["chooser"] == "player_2")
        seat.send("pause", on=False)
        seat.move("cell2")
        seat.send("assign", agent="player_2")
        seat.until(lambda s: s["agents"][1]["policy"] == "minimax")
        seat.move("cell4")
        seat.until(lambda s: s["step"] == 4 and s["chooser"] == "player_1")
        seat.send("swap")
        seat.until(lambda s: s["agents"][1]["human"] and not s["agents"][0]["human"])
        seat.until(lambda s: s["step"] == 5 and s["chooser"] == "player_2")
        policies = [move["policy"] for move in seat.state["moves"]]
        assert policies == ["human", "human", "human", "minimax", "minimax"]
        seat.send("restart", seed=7)
        seat.until(lambda s: s["episode"] == 1 and s["step"] == 1 and s["chooser"] == "player_2")
        assert seat.state["seed"] == 7
        assert seat.state["moves"][0]["policy"] == "minimax"
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    assert episode.policies["player_1"] == "minimax"


def test_what_the_policy_thinks(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        assert seat.state["advice"] is None
        seat.send("thoughts", on=True)
        advice = seat.until(lambda s: s["advice"] is not None)["advice"]
        assert advice["agent"] == "player_1"
        assert advice["policy"] == "minimax"
        assert advice["value"] == 0
        assert {thought["label"] for thought in advice["thoughts"]} == {f"cell {n}" for n in range(1, 10)}
        seat.send("assign", agent="player_2", policy="random")
        seat.until(lambda s: s["agents"][1]["policy"] == "random")
        seat.send("assign", agent="player_1", policy="random")
        told = seat.until(lambda s: s["advice"] is not None and s["advice"]["note"])
        assert told["advice"]["note"] == "random cannot say what it thinks."


class _Recalling:
    """Would play the action whose number is how many turns it has seen in the episode."""

    def __init__(self) -> None:
        self.seen = 0

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self.seen = 0

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        self.seen += 1
        return dict.fromkeys(turn.observations, 0)

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        return dict.fromkeys(turn.observations, Explanation(np.eye(9)[self.seen], None))

    def forget(self, agent: AgentID) -> None:
        self.seen = 0

    def close(self) -> None:
        pass


def test_a_policy_with_a_memory_advises_a_person_who_plays(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen the whole episode, also where it is asked late and where a move is taken back."""
    monkeypatch.setattr(advice, "load_policy", lambda *asked: _Recalling())
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as seat:
        for cell in (9, 8, 6, 5):
            seat.move(f"cell{cell}")
        seat.send("thoughts", on=True)
        thoughts = seat.until(lambda s: s["advice"] is not None)["advice"]["thoughts"]
        assert (thoughts[0]["label"], thoughts[0]["probability"]) == ("cell 7", 1.0)  # action 2: cells down the columns
        for step in (3, 2):
            seat.send("undo")
            told = seat.until(lambda s, step=step: s["step"] == step and s["advice"] is not None)["advice"]
            assert (told["agent"], told["thoughts"][0]["label"]) == (f"player_{2 if step == 3 else 1}", "cell 4")


class _AnyMove(_Recalling):
    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        return {agent: Explanation(np.ones(len(mask)), None) for agent, mask in turn.action_masks.items()}


def test_advice_in_chess_is_written_as_players_write_it(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "load_policy", lambda *asked: _AnyMove())
    match_id = open_match(client, "classic/chess_v6", {"*": "human"})
    with screen(client, match_id) as seat:
        for departure, arrival in (("e2", "e4"), ("d7", "d5")):
            seat.move(departure, arrival)
        seat.send("thoughts", on=True)
        found = seat.until(lambda s: s["step"] == 2 and s["advice"] is not None)["advice"]["thoughts"]
    assert len(found) == advice.MOST_ROWS
    assert all(len(thought["places"]) == 2 for thought in found)
    written = {thought["label"]: thought["san"] for thought in found}
    known = {"e4d5": "exd5", "e4e5": "e5", "g1f3": "Nf3", "b1c3": "Nc3", "f1b5": "Bb5+", "a2a3": "a3", "d1h5": "Qh5"}
    shared = written.keys() & known.keys()
    assert shared
    assert {move: written[move] for move in shared} == {move: known[move] for move in shared}


def test_words_for_a_policy_that_is_refused(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        seat.send("assign", agent="player_2", policy="minimaks")
        assert seat.until_refused().startswith("There is no policy named 'minimaks'. Did you mean 'minimax'?")
        seat.send("assign", agent="player_3", policy="random")
        assert seat.until_refused() == "There is no agent 'player_3' in this match. Agents: player_1, player_2."
        seat.send("assign", agent="player_2", policy="uci:/bin/sh")
        assert "does not run code or programs" in seat.until_refused()
        seat.send("assign", agent="player_2", policy="llm:m,url=http://169.254.169.254/v1,key=secret")
        refused = seat.until_refused()
        assert "or call addresses" in refused
        assert "secret" not in refused
        seat.send("act", action=99)
        assert seat.until_refused() == "'player_1' may not play 99, outside 0..8."
        seat.send("act", action="cell5")
        assert seat.until_refused().startswith("The match does not understand this message")
        seat.send("dance")
        assert "does not understand this message" in seat.until_refused()
        assert seat.agent("player_2")["policy"] == "minimax"


def test_a_policy_that_fails_is_named_and_a_restart_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic.runners import controllers as cast

    class Broken:
        def begin(self, agents: tuple[str, ...], seed: int) -> None:
            pass

        def act(self, turn: Any) -> dict[str, int]:
            return dict.fromkeys(turn.observations, 99)

        def close(self) -> None:
            pass

    real = cast.load_policy

    def load(reference: str, *rest: Any, **named: Any) -> Any:
        return Broken() if reference == "random" else real(reference, *rest, **named)

    monkeypatch.setattr(cast, "load_policy", load)
    with app_client(tmp_path) as client:
        match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "random"})
        with screen(client, match_id) as seat:
            seat.click("cell1")
            seat.until(lambda s: s["phase"] == "failed")
            assert seat.state["error"] == "Step 1: policy 'random' played 99, outside 0..8, for agent 'player_2'."
            seat.send("press", spot="cell2")
            assert seat.until_refused().startswith("The episode cannot continue: Step 1: policy 'random'")
            seat.send("assign", agent="player_2", policy="minimax")
            seat.until(lambda s: s["agents"][1]["policy"] == "minimax")
            seat.send("restart")
            seat.until(lambda s: s["phase"] == "playing" and s["chooser"] == "player_1")
            seat.move("cell1")
            seat.until(lambda s: s["step"] == 2)


def test_an_env_that_fails_is_named_without_the_seed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Turn:
        raise RuntimeError("the motor is too hot")

    monkeypatch.setattr("mosaic.envs.adapters.gymnasium.GymnasiumEnv.step", fail)
    with screen(client, open_match(client, "gym/FrozenLake-v1", {"*": "random"})) as seat:
        seat.until(lambda s: s["phase"] == "failed")
        assert seat.state["error"] == "gym/FrozenLake-v1 failed at step 0: RuntimeError: the motor is too hot"
    assert "Traceback" in caplog.text


def test_recorded_episodes_are_kept_and_replayed(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"}, record=True)
    with screen(client, match_id) as seat:
        for cell in (1, 4, 2, 5, 3):
            seat.move(f"cell{cell}")
        seat.until(lambda s: bool(s["kept"]))
        (name,) = seat.state["kept"]
    (row,) = client.get("/episodes").json()
    assert row["name"] == name
    assert client.get(f"/episodes/{name}").json()["format"] == "mosaic.episode"
    shown = client.post("/replays", json={"name": name}).json()
    picture = client.get(f"/replays/{shown['replay_id']}/pictures/5")
    assert picture.headers["content-type"] == "image/webp"
    assert picture.content[:4] == b"RIFF"
    assert picture.content != client.get(f"/replays/{shown['replay_id']}/pictures/0").content
    shown = client.get(f"/replays/{shown['replay_id']}").json()
    assert shown["moves"][0] == "player_1: cell 1"
    assert shown["env_steps"] == 5
    missing = client.get(f"/replays/{shown['replay_id']}/pictures/6")
    assert missing.status_code == 400
    assert "steps 0 to 5" in missing.json()["error"]
    assert client.get("/episodes/..%2F..%2Ftoken").status_code == 404
    assert "Did you mean" in client.get(f"/episodes/{name}x").json()["error"]


def test_what_cannot_be_opened_says_why(client: TestClient) -> None:
    def refusal(env: str, agents: dict[str, str], status: int) -> str:
        answer = client.post("/matches", json={"environment": {"env_id": env}, "agents": agents})
        assert answer.status_code == status, answer.text
        text: str = answer.json()["error"]
        return text

    assert "Did you mean" in refusal("classic/tictacto_v3", {"*": "human"}, 404)
    assert "There is no agent 'player_7'" in refusal(TICTACTOE, {"player_7": "human", "*": "random"}, 400)
    assert "No policy for agent 'player_2'" in refusal(TICTACTOE, {"player_1": "human"}, 400)
    assert "Did you mean 'random'" in refusal(TICTACTOE, {"*": "randm"}, 404)
    assert "--allow-programs" in refusal("python:os:system", {"*": "human"}, 403)
    assert "--allow-programs" in refusal(TICTACTOE, {"*": "python:os:system"}, 403)
    assert client.get("/matches").json() == []
    assert client.post("/matches", content=b"[").status_code == 400


def test_without_the_token_nobody_sees_a_match(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    wrong = {"Authorization": "Bearer wrong"}
    assert client.get(f"/matches/{match_id}", headers=wrong).status_code == 401
    with pytest.raises(WebSocketDenialResponse) as refused, screen(client, match_id, headers=wrong):
        pass
    assert refused.value.status_code == 401
    assert "token is missing or wrong" in refused.value.text


def test_an_ended_match_tells_its_viewers(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"*": "human"})
    with screen(client, match_id) as seat:
        assert client.delete(f"/matches/{match_id}").status_code == 204
        with pytest.raises(WebSocketDisconnect) as ended:
            seat.until(lambda s: False)
        assert ended.value.code == 4410
        assert ended.value.reason == "This match has ended: it was ended by a request."
    assert client.get(f"/matches/{match_id}").status_code == 404


def test_a_match_that_nobody_watches_ends(tmp_path: Path) -> None:
    from mosaic.server.play.messages import MatchRequest
    from mosaic.server.play.registry import Matches
    from tests.server.server_kit import eventually

    matches = Matches(tmp_path, idle_s=0.05)
    request = MatchRequest.model_validate({"environment": {"env_id": TICTACTOE}, "agents": {"*": "human"}})
    match = matches.open(request)
    eventually(lambda: not matches.all(), "the end of a match without viewers")
    assert match.join_thread(10)
    assert match.state.episode.error == "it had no viewer for 0.05 seconds."


def test_two_people_at_one_screen_choose_one_after_another(client: TestClient) -> None:
    match_id = open_match(client, "classic/rps_v2", {"*": "human"}, max_steps=1)
    with screen(client, match_id) as both:
        both.send("assign", agent="player_1", policy="human")  # beside the agent that the link gave
        both.until(lambda s: all(agent["mine"] for agent in s["agents"]))
        first = both.state["chooser"]
        both.send("press", spot="0")
        both.until(lambda s: s["chooser"] not in (None, first))
        assert both.state["step"] == 0
        both.send("press", spot="1")
        both.until(lambda s: s["step"] == 1)
        assert [move["text"] for move in both.state["moves"]] == ["rock", "paper"]


def test_the_number_of_matches_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic.server.play import registry as matches

    monkeypatch.setattr(matches, "MOST_MATCHES", 1)
    with app_client(tmp_path) as client:
        open_match(client, TICTACTOE, {"*": "human"})
        body = {"environment": {"env_id": TICTACTOE}, "agents": {"*": "human"}}
        refused = client.post("/matches", json=body)
        assert refused.status_code == 409
        assert refused.json()["error"] == "1 matches are being played; end one first."


def test_a_match_is_listed_once_its_env_is_there(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(config: EnvironmentConfig) -> Env:
        asked.set()
        assert go_on.wait(60)
        return make_env(config)

    monkeypatch.setattr("mosaic.server.play.match.make_env", slow)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_match, client, TICTACTOE, {"*": "human"})
        try:
            assert asked.wait(60)
            answer = client.get("/matches")
        finally:
            go_on.set()
        assert (answer.status_code, answer.json()) == (200, [])
        match_id = opening.result()
    assert [row["match_id"] for row in client.get("/matches").json()] == [match_id]
