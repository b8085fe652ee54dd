"""Matches over their WebSocket: people, policies, clicks, keys, and what is told when something is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from match_kit import open_match, screen
from server_kit import app_client
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from mosaic.config.environment import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.runners.record import episode_from_json
from mosaic.runners.replay import replay

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
        header = seat.until_frame(lambda h: h["step"] == seat.state["step"])
        assert header["kind"] == "webp"
        assert seat.frames[-1][1][:4] == b"RIFF"
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

    from mosaic.server.match_actions import choices

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


def test_real_time_with_held_keys(client: TestClient) -> None:
    """A paddle goes up as long as its key is held, and rests after."""
    agents = {"paddle_0": "human", "paddle_1": "random"}
    match_id = open_match(client, "butterfly/cooperative_pong_v5", agents, rate_hz=60)
    with screen(client, match_id) as seat:
        assert seat.state["real_time"]
        seat.until_frame(lambda h: h["step"] >= 2)
        seat.send("key", code="ArrowUp", key="ArrowUp", down=True)
        start = seat.frames[-1][0]["step"]
        seat.until_frame(lambda h: h["step"] >= start + 8)
        seat.send("key", code="ArrowUp", key="ArrowUp", down=False)
        end = seat.frames[-1][0]["step"]
        seat.until_frame(lambda h: h["step"] >= end + 8)
        seat.send("pause", on=True)
        seat.until(lambda s: s["paused"])
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    played = [actions["paddle_0"] for actions in episode.actions]
    ups = [step for step, action in enumerate(played) if action == 1]
    assert set(played) == {0, 1}
    assert len(ups) >= 5
    assert ups == list(range(ups[0], ups[-1] + 1))
    assert played[0] == 0
    assert played[-1] == 0


def test_a_tap_shorter_than_a_step_counts_once(client: TestClient) -> None:
    match_id = open_match(client, "butterfly/cooperative_pong_v5", {"*": "human"}, rate_hz=60)
    with screen(client, match_id) as seat:
        seat.send("pause", on=True)
        seat.until(lambda s: s["paused"])
        seat.send("key", code="KeyS", key="s", down=True)
        seat.send("key", code="KeyS", key="s", down=False)
        before = _settled(client, match_id)
        seat.send("step")
        seat.send("step")
        seat.until_frame(lambda h: h["step"] == before + 2)
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    assert [actions["paddle_0"] for actions in episode.actions].count(2) == 1
    assert {actions["paddle_1"] for actions in episode.actions} == {0}


def _settled(client: TestClient, match_id: str) -> int:
    """The steps of a paused match, once the one under way is done."""
    return len(client.get(f"/matches/{match_id}/episode").json()["actions"])


def test_continuous_actions_by_keys_and_axes(client: TestClient) -> None:
    match_id = open_match(client, "gym/Pendulum-v1", {"*": "human"}, rate_hz=60)
    with screen(client, match_id) as seat:
        assert seat.state["axes"] == 1
        seat.send("pause", on=True)
        seat.until(lambda s: s["paused"])
        before = _settled(client, match_id)
        for number, message in enumerate(
            (
                {"type": "axes", "values": [0.5]},
                {"type": "axes", "values": [-1.0]},
                {"type": "axes", "values": [0.0]},
                {"type": "key", "code": "KeyD", "key": "d", "down": True},
            )
        ):
            seat.send(message.pop("type"), **message)
            seat.send("step")
            seat.until_frame(lambda h, number=number: h["step"] == before + number + 1)
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    played = [float(actions["agent_0"][0]) for actions in episode.actions[before : before + 4]]
    assert played == [1.0, -2.0, 0.0, 2.0]


def test_own_keys_replace_those_of_the_env(client: TestClient) -> None:
    match_id = open_match(client, "gym/FrozenLake-v1", {"*": "human"})
    with screen(client, match_id) as seat:
        assert not seat.state["real_time"]
        assert [spot["label"] for spot in seat.state["spots"]] == ["left", "down", "right", "up"]
        seat.send("key", code="ArrowDown", key="ArrowDown", down=True)
        seat.until(lambda s: s["step"] == 1)
        seat.send("key", code="ArrowDown", key="ArrowDown", down=False)
        seat.send("keys", bindings=[{"keys": ["KeyJ"], "action": 0}])
        seat.until(lambda s: s["own_keys"])
        seat.send("key", code="KeyJ", key="j", down=True)
        seat.until(lambda s: s["step"] == 2)
        assert [move["text"] for move in seat.state["moves"]] == ["down", "left"]
        seat.send("keys", bindings=[{"keys": ["KeyJ"], "action": 9}])
        assert seat.until_refused() == "KeyJ: there is no action 9; actions are 0 to 3."


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
            assert first.until_refused() == "You do not play 'player_2': somebody else plays it."
            second.move("cell1")
            first.until(lambda s: s["step"] == 2)
        first.until(lambda s: [row["mine"] for row in s["agents"]] == [True, True])


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
        assert again.until_frame(lambda h: h["step"] == 2)["episode"] == 0


def test_take_over_hand_back_and_swap(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        seat.send("pause", on=True)
        seat.send("press", spot="cell1")
        seat.send("step")
        seat.until(lambda s: s["step"] == 1)
        seat.send("seat", agent="player_2", policy="human")
        seat.until(lambda s: s["chooser"] == "player_2")
        seat.send("pause", on=False)
        seat.move("cell2")
        seat.send("seat", agent="player_2")
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
        seat.send("seat", agent="player_2", policy="random")
        seat.until(lambda s: s["agents"][1]["policy"] == "random")
        seat.send("seat", agent="player_1", policy="random")
        told = seat.until(lambda s: s["advice"] is not None and s["advice"]["note"])
        assert told["advice"]["note"] == "random cannot say what it thinks."


def test_words_for_a_policy_that_is_refused(client: TestClient) -> None:
    match_id = open_match(client, TICTACTOE, {"player_1": "human", "player_2": "minimax"})
    with screen(client, match_id) as seat:
        seat.send("seat", agent="player_2", policy="minimaks")
        assert seat.until_refused().startswith("There is no policy named 'minimaks'. Did you mean 'minimax'?")
        seat.send("seat", agent="player_3", policy="random")
        assert seat.until_refused() == "There is no agent 'player_3' in this match. Agents: player_1, player_2."
        seat.send("seat", agent="player_2", policy="uci:/bin/sh")
        assert "does not run code or programs" in seat.until_refused()
        seat.send("act", action=99)
        assert seat.until_refused() == "'player_1' may not play 99, outside 0..8."
        seat.send("act", action="cell5")
        assert seat.until_refused().startswith("The match does not understand this message")
        seat.send("dance")
        assert "does not understand this message" in seat.until_refused()
        assert seat.agent("player_2")["policy"] == "minimax"


def test_a_policy_that_fails_is_named_and_a_restart_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic.runners import cast

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
            assert seat.until_refused().startswith("The episode cannot go on: Step 1: policy 'random'")
            seat.send("seat", agent="player_2", policy="minimax")
            seat.until(lambda s: s["agents"][1]["policy"] == "minimax")
            seat.send("restart")
            seat.until(lambda s: s["phase"] == "playing" and s["chooser"] == "player_1")
            seat.move("cell1")
            seat.until(lambda s: s["step"] == 2)


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
        assert ended.value.reason == "This match has ended: somebody ended it."
    assert client.get(f"/matches/{match_id}").status_code == 404


def test_a_match_that_nobody_watches_ends(tmp_path: Path) -> None:
    from server_kit import eventually

    from mosaic.server.match_request import MatchRequest
    from mosaic.server.matches import Matches

    matches = Matches(tmp_path, idle_s=0.05)
    request = MatchRequest.model_validate({"environment": {"env_id": TICTACTOE}, "agents": {"*": "human"}})
    match = matches.open(request)
    eventually(lambda: not matches.all(), "the end of a match without viewers")
    assert match.join_thread(10)
    assert match.table.error == "nobody watched it for 0.05 seconds."


def test_two_people_at_one_screen_choose_one_after_another(client: TestClient) -> None:
    match_id = open_match(client, "classic/rps_v2", {"*": "human"}, max_steps=1)
    with screen(client, match_id) as both:
        first = both.state["chooser"]
        both.send("press", spot="0")
        both.until(lambda s: s["chooser"] not in (None, first))
        assert both.state["step"] == 0
        both.send("press", spot="1")
        both.until(lambda s: s["step"] == 1)
        assert [move["text"] for move in both.state["moves"]] == ["rock", "paper"]


def test_the_number_of_matches_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic.server import matches

    monkeypatch.setattr(matches, "MOST_MATCHES", 1)
    with app_client(tmp_path) as client:
        open_match(client, TICTACTOE, {"*": "human"})
        body = {"environment": {"env_id": TICTACTOE}, "agents": {"*": "human"}}
        refused = client.post("/matches", json=body)
        assert refused.status_code == 409
        assert refused.json()["error"] == "1 matches are being played; end one first."
