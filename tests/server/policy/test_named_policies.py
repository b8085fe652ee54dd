"""Routes /policy/* of `mosaic serve`: each episode names its policy, which is what the reference means by then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from mosaic.config.loading import parse_run_config
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.policies.serving.messages import StartEpisode
from mosaic.runs.trainer import Trainer
from mosaic.server.policy_source import OnePolicy
from tests.server.server_kit import app_client, toy

GAME = "classic/tictactoe_v3"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_here: None) -> Path:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))  # where `run:` policies are looked up
    return tmp_path / "home"


@pytest.fixture
def http(home: Path) -> Iterator[TestClient]:
    with app_client(home) as client:
        yield client


def train(home: Path, iterations: int) -> str:
    """Train a policy that always plays `iterations` modulo the number of actions, and return the run's id."""
    run = Trainer(home).submit(parse_run_config(toy(iterations)))
    assert run.state == "finished"
    return str(run.id)


def start(http: TestClient, **fields: Any) -> Any:
    return http.post("/policy/start_episode", json=fields).json()


def act(http: TestClient, episode: str, observation: Any = (0, 0, 0, 0)) -> Any:
    asked = {"episode_id": episode, "observation": observation}
    return http.post("/policy/get_action", json=asked).json()["action"]


def test_a_run_and_its_newest_checkpoint_are_looked_up_for_each_episode(home, http):
    run_id = train(home, 2)
    old = start(http, policy="run:latest")["episode_id"]
    assert act(http, old) == 0
    Trainer(home).run(run_id).resume(settings=["training.total_timesteps=30"])
    newer = start(http, policy="run:latest")["episode_id"]
    assert (act(http, old), act(http, newer)) == (0, 1)  # an episode keeps the policy that it began with
    assert act(http, start(http, policy=f"run:{run_id}@20")["episode_id"]) == 0
    train(home, 4)
    assert act(http, start(http, policy="run:latest")["episode_id"]) == 0
    assert act(http, start(http, policy=f"run:{run_id}")["episode_id"]) == 1
    assert (act(http, old), act(http, newer)) == (0, 1)


def test_a_file_that_was_written_again_is_read_again(home, tmp_path):
    path, played = tmp_path / "table.safetensors", []
    with app_client(home, allow_programs=True) as http:
        for action in (1, 3):
            learner = TabularLearner(16, 4)
            learner.update(0, action, 1.0, 1, True)
            learner.save(path)
            episode = start(http, policy=str(path), env="gym/FrozenLake-v1")["episode_id"]
            played.append(act(http, episode, 0))
    assert played == [1, 3]


def test_a_server_of_one_policy_follows_its_run_and_no_other(home):
    run_id = train(home, 2)
    source = OnePolicy("run:latest", None, look_s=0.0)
    served = [source._loaded.get(source.env, source._played, ("agent_0",))]
    train(home, 3)
    served.append(source._loaded.get(source.env, source._played, ("agent_0",)))
    assert served[0] is served[1]
    Trainer(home).run(run_id).resume(settings=["training.total_timesteps=50"])
    served.append(source._loaded.get(source.env, source._played, ("agent_0",)))
    assert [each._load()._choice for each in served[1:]] == [5, 5]
    assert served[1]._closed
    assert source(StartEpisode(policy="run:latest")).agents == ("agent_0",)
    source.close()


@pytest.mark.parametrize(
    ("asked", "status", "text"),
    [
        ({}, 422, "policy: it is missing. This server plays many"),
        ({"policy": "random"}, 400, "'random' was not trained in an env of its own. Name the env"),
        ({"policy": "randon", "env": GAME}, 404, "randon"),
        ({"policy": "run:nothing"}, 404, "nothing"),
        ({"policy": "random", "env": "gym/Nothing-v9"}, 404, "Nothing-v9"),
        ({"policy": "random", "env": "no env at all"}, 404, "no env at all"),
        ({"policy": "random", "env": GAME, "agents": ["b"]}, 422, "There is no agent 'b'. Known: player_1, player_2."),
        ({"policy": "random", "env": GAME, "agents": []}, 422, "agents: the policy needs an agent to act for."),
        ({"policy": "random", "env": GAME, "seed": -1}, 422, "seed: -1; expected: 0 to"),
        ({"policy": "random", "env": GAME, "spaces": {}}, 422, "spaces.player_1.observation"),
        ({"policy": "minimax:depth=deep", "env": GAME}, 400, "depth"),
        ({"policy": "human", "env": GAME}, 400, "human"),
    ],
)
def test_starts_that_cannot_be_played_say_why_and_leave_no_episode(http, asked, status, text):
    reply = http.post("/policy/start_episode", json=asked)
    assert (reply.status_code, text in reply.json()["error"]) == (status, True), reply.text
    assert http.get("/policy").json()["episodes"] == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"policy": "process:touch FILE", "env": GAME},
        {"policy": "python:os:getcwd", "env": GAME},
        {"policy": "uci:/bin/true", "env": GAME},
        {"policy": "http://127.0.0.1:1", "env": GAME},
        {"policy": "llm:model,url=http://127.0.0.1:1/v1", "env": GAME},
        {"policy": "onnx:/etc/passwd", "env": GAME},
        {"policy": "random", "env": "python:os:getcwd"},
    ],
)
def test_programs_addresses_and_files_need_the_owners_permission(http, asked):
    reply = http.post("/policy/start_episode", json=asked)
    assert (reply.status_code, "--allow-programs" in reply.json()["error"]) == (403, True), reply.text


def test_policies_that_were_not_used_for_long_are_loaded_again(home, http, monkeypatch):
    monkeypatch.setattr("mosaic.server.policy_source._MOST_LOADED", 1)
    both = [start(http, policy=policy, env=GAME)["episode_id"] for policy in ("random", "minimax", "random")]
    board = {"player_1": {"observation": [[[0, 0]] * 3] * 3, "action_mask": [0] * 8 + [1]}}
    assert [act(http, episode, board) for episode in both] == [{"player_1": 8}] * 3
