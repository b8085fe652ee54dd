"""A language model as the fixed opponent of runs."""

from __future__ import annotations

import json

import pytest

from mosaic.store.state import State
from tests.in_process import trained_here
from tests.policies.llm.stub import endpoint, first_legal
from tests.workers.hosting import run_config

KEY = "sk-9f3a-not-for-logs"
NETWORK = {"hidden": [8], "n_steps": 16, "n_epochs": 1, "batch_size": 32}


def train(home, policy, worker="native", params=NETWORK):
    config = run_config(
        worker,
        params,
        environment={"env_id": "mosaic/tictactoe", **({"num_envs": 2} if worker == "native" else {})},
        agents={"player_2": policy},
        training={"total_timesteps": 64, "preset": False},
    )
    return trained_here(home, config)


@pytest.mark.parametrize(("worker", "params"), [("native", NETWORK), ("tabular", {})])
def test_a_run_learns_against_it_and_its_key_is_kept_nowhere(tmp_path, monkeypatch, worker, params):
    monkeypatch.setenv("MOSAIC_LLM_API_KEY", KEY)
    with endpoint() as served:
        run = train(tmp_path, served.policy(), worker, params)
    assert run.state is State.FINISHED
    assert len(served.asked) > 10
    assert all("You are O" in body["messages"][1]["content"] for body in served.asked)
    assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_a_failed_decision_fails_the_run_with_its_name(tmp_path):
    asked = []

    def reply(body):
        asked.append(body)
        return first_legal(body) if len(asked) < 5 else json.dumps({"action": "the centre"})

    with endpoint(reply) as served:
        policy = served.policy("retries=0")
        run = train(tmp_path, policy)
    assert run.state is State.FAILED
    assert f"The policy '{policy}' of player_2: gave no legal action for agent 'player_2'" in run.reason
