"""Programs that reach a training run through the server's own address."""

from __future__ import annotations

import threading
from pathlib import Path

import gymnasium
import httpx
import pytest

from mosaic import PolicyClient
from mosaic.config.loading import parse_run_config
from mosaic.policies.serving.messages import CallError
from mosaic.server.routes import relay
from mosaic.store.store import Store
from tests.ports import reserved_port
from tests.server.policy.policy_kit import TOKEN, serving_any
from tests.server.test_external import CARTPOLE, learning, on_port, play_one


@pytest.mark.parametrize("transport", ["websocket", "http"])
def test_a_run_learns_from_programs_that_call_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    with (
        reserved_port() as port,
        serving_any(tmp_path) as server,
        learning(f"http://127.0.0.1:{port}", steps=16) as learner,
    ):
        monkeypatch.setattr(relay, "_port", lambda context, ref: port)
        assert httpx.get(f"{server.url}/runs/mine/policy").status_code == 401  # the server's own token

        def play() -> None:
            with PolicyClient(f"{server.url}/runs/mine", token=TOKEN, transport=transport) as client:
                assert client.describe()["agents"] == ["agent_0"]
                while not over.is_set():
                    play_one(client, gymnasium.make("CartPole-v1"))

        def run() -> None:
            try:
                play()
            except CallError as error:
                told.append(error)
            finally:
                ended.set()

        over, ended, told = threading.Event(), threading.Event(), list[CallError]()
        thread = threading.Thread(target=run)
        thread.start()
        learner.watch(ended.is_set)
        learner.iterate()
        progress = learner.progress()
        over.set()
        learner.close()
        thread.join()
        gone = httpx.get(f"{server.url}/runs/mine/policy", headers={"Authorization": f"Bearer {TOKEN}"})
    assert progress.env_steps >= 16
    assert [error.retry for error in told] in ([], ["episode"], ["request"])  # the run ended in mid-episode, or between
    assert (gone.status_code, gone.json()["retry"]) == (409, "request")
    assert "does not listen yet, or has just ended" in gone.json()["error"]


def test_runs_that_no_program_can_reach_are_refused_with_the_reason(tmp_path: Path) -> None:
    store = Store(tmp_path)
    waiting = store.create(on_port("http://127.0.0.1:5555"))
    elsewhere = store.create(on_port("http://127.0.0.1:5555", options={"host": "10.0.0.1"}))
    own = store.create(parse_run_config({"environment": {"env_id": CARTPOLE}}))
    with serving_any(tmp_path) as server:
        said = {
            folder.path.name: httpx.post(
                f"{server.url}/runs/{folder.path.name}/policy/start_episode",
                json={},
                headers={"Authorization": f"Bearer {TOKEN}"},
            ).json()
            for folder in (waiting, elsewhere, own)
        }
    first, second, third = said.values()
    assert (first["code"], first["retry"]) == ("episode_busy", "request")
    assert "and does not listen. Try again later." in first["error"]
    assert "listens on 10.0.0.1:5555. Connect there." in second["error"]
    assert f"steps {CARTPOLE} itself. Programs connect to runs of external:PORT." in third["error"]
