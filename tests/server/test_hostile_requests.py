"""Requests that are meant to harm: too large, ending the process, with files that were forged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError
from mosaic.envs.catalog import make_env
from mosaic.runners.local import play_episode
from mosaic.runners.record import decode, episode_from_json, episode_to_json, replay
from mosaic.server import env_trial
from tests.server.match_kit import screen
from tests.server.server_kit import app_client

TICTACTOE = {"env_id": "classic/tictactoe_v3"}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with app_client(tmp_path / "home", allow_programs=True) as client:
        yield client


@pytest.fixture(scope="module")
def episode() -> dict[str, Any]:
    env = make_env("classic/tictactoe_v3")
    record = play_episode(env, {"*": "random"}, seed=3)
    env.close()
    return episode_to_json(record)


@pytest.mark.parametrize("dtype", ["S4000000000", "U1000000000", "V4000000000", "f8,f8", "O", "M8[s]", ["f8"], None, 7])
def test_recorded_actions_do_not_choose_their_size(dtype: Any) -> None:
    with pytest.raises(FormatError, match="an action has the type "):
        decode({"dtype": dtype, "array": [1]})


def test_a_replay_with_a_huge_type_is_refused(client: TestClient, episode: dict[str, Any]) -> None:
    forged = {**episode, "actions": [{"player_1": {"dtype": "S4000000000", "array": [1]}}, *episode["actions"][1:]]}
    reply = client.post("/replays", json={"episode": forged})
    assert reply.status_code == 400
    assert "S4000000000" in reply.json()["error"]


@pytest.mark.parametrize(
    ("action", "problem"),
    [(99, "outside 0..8"), (-1, "outside 0..8"), ("x", "not an integer"), (True, "not an integer"), (None, "integer")],
)
def test_forged_actions_are_named(episode: dict[str, Any], action: Any, problem: str) -> None:
    first = dict.fromkeys(episode["actions"][0], action)
    forged = episode_from_json({**episode, "actions": [first, *episode["actions"][1:]]})
    with pytest.raises(FormatError, match=rf"Step 0: the recorded action of 'player_1' .*{problem}"):
        replay(make_env("classic/tictactoe_v3"), forged)


@pytest.mark.parametrize(
    "environment",
    [{}, {"env_id": 5}, {"env_id": "classic/tictactoe_v3", "colour": "red"}, {"env_id": "gym/Nothing-v0"}],
)
def test_a_replay_in_a_wrong_environment_is_explained(
    client: TestClient, episode: dict[str, Any], environment: dict[str, Any]
) -> None:
    reply = client.post("/replays", json={"episode": {**episode, "environment": environment}})
    if reply.status_code == 201:
        replay_id = reply.json()["replay_id"]
        picture = client.get(f"/replays/{replay_id}/pictures/0")
        assert picture.status_code in (400, 409)
        assert "Nothing" in picture.json()["error"]
    else:
        assert reply.status_code == 400, reply.text


@pytest.mark.parametrize("where", ["import", "make", "reset", "step"])
@pytest.mark.parametrize("call", ["sys.exit(0)", "os._exit(0)"])
def test_an_env_that_exits_does_not_end_the_server(client: TestClient, tmp_path: Path, where: str, call: str) -> None:
    name = f"leaver_{where}_{call[:2]}"
    body = dict.fromkeys(("import", "make", "reset", "step"), "pass") | {where: call}
    (tmp_path / f"{name}.py").write_text(LEAVER.format(**{f"{part}_": line for part, line in body.items()}))
    asked = {"environment": {"env_id": f"python:{name}:Leaver"}, "agents": {"*": "random"}, "pace": "turns"}
    reply = client.post("/matches", json=asked)
    if where == "step":
        assert reply.status_code == 201
        reply = client.get(f"/matches/{reply.json()['match_id']}")
    assert reply.status_code < 500
    assert client.get("/health").status_code == 200


def test_a_policy_that_exits_is_named(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "quitter.py").write_text("import sys\ndef act(observation, mask):\n    sys.exit(0)\n")
    asked = {"environment": TICTACTOE, "agents": {"*": "python:quitter:act"}, "pace": "real_time", "rate_hz": 100.0}
    match_id = client.post("/matches", json=asked).json()["match_id"]
    with screen(client, match_id) as seat:
        state = seat.until(lambda state: state["error"])
    assert "policy 'python:quitter:act'" in state["error"]
    assert "sys.exit(0)" in state["error"]


def test_an_env_that_takes_too_much_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_trial, "MOST_MEMORY", 64 << 20)
    huge = {"environment": {"env_id": "python:hog:Hog", "options": {"size": 1 << 30}}, "agents": {"*": "random"}}
    Path("hog.py").write_text(HOG)
    reply = client.post("/matches", json=huge)
    assert reply.status_code == 400
    assert "GiB of memory" in reply.json()["error"]


def test_an_env_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(env_trial, "MOST_TIME_S", 0.01)
    with pytest.raises(env_trial.TooLargeError, match=r"simple_spread_v3 .* took more than 0\.01 s to create"):
        env_trial.check_environment(EnvironmentConfig(env_id="mpe/simple_spread_v3", options={"N": 4}))


HALF = "\ud800"  # of a surrogate pair: JSON can write it, UTF-8 cannot


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/replays", {"name": HALF}),
        ("/replays", {"match_id": HALF}),
        ("/replays", {"episode": {"format": HALF}}),
        ("/matches", {"environment": {"env_id": f"gym/{HALF}"}, "agents": {"*": "human"}}),
        ("/matches", {"environment": TICTACTOE, "agents": {HALF: "human"}}),
        ("/matches", {"environment": TICTACTOE, "agents": {"*": f"run:{HALF}"}}),
        ("/evaluate", {"environment": TICTACTOE, "agents": {"*": HALF}}),
        ("/tournament", {"environment": TICTACTOE, "policies": ["random", f"run:{HALF}"]}),
        ("/runs", {"environment": TICTACTOE, "name": HALF}),
        ("/runs", {"environment": TICTACTOE, "tags": [HALF]}),
        ("/runs", {HALF: 1}),
        ("/matches", {"environment": {"env_id": "gym/FrozenLake-v1", "options": {"map_name": "99x99"}},
                      "agents": {"*": "human"}}),
        ("/runs", {"environment": {"env_id": "gym/FrozenLake-v1", "options": {"map_name": "99x99"}},
                   "training": {"worker": "native"}}),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_said(client: TestClient, path: str, body: dict[str, Any]) -> None:
    sent = json.dumps(body).encode()
    reply = client.post(path, content=sent, headers={"Content-Type": "application/json"})
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.json()["error"]


LEAVER = """
import os, sys
import gymnasium
import numpy as np
{import_}
class Leaver(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def __init__(self):
        {make_}
    def reset(self, *, seed=None, options=None):
        {reset_}
        return 0, {{}}
    def step(self, action):
        {step_}
        return 0, 0.0, False, False, {{}}
"""
HOG = """
import gymnasium
import numpy as np
class Hog(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, size):
        self.memory = np.ones(size, np.uint8)
    def reset(self, *, seed=None, options=None):
        return 0, {}
"""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/runs?limt=3", "'limt'. Did you mean 'limit'? Known: "),
        ("/workers?all=1", "There is no query parameter named 'all'."),
        ("/runs?limit=3&token=abc", "There is no query parameter named 'token'."),
    ],
)
def test_unknown_query_parameters_are_refused(client: TestClient, path: str, said: str) -> None:
    reply = client.get(path)
    assert reply.status_code == 422
    assert said in reply.json()["error"]


def test_unknown_query_parameters_of_sockets_are_refused(client: TestClient) -> None:
    address = "ws://127.0.0.1:8642/runs/any/events?after_sec=3"
    with (
        pytest.raises(WebSocketDisconnect) as caught,
        client.websocket_connect(address, headers=dict(client.headers)),
    ):
        pass
    assert caught.value.code == 1008
    assert "Did you mean 'after_seq'" in caught.value.reason
