"""Envs of other programs, over the network: `external:PORT` of a training run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium
import httpx
import numpy as np
import pytest

from mosaic import PolicyClient
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.families.external import ask_first_program
from mosaic.envs.space_json import spec_spaces
from mosaic.learners.base import Learner
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions
from mosaic.policies.serving.messages import CallError
from mosaic.server.auth.token import read_token
from mosaic.server.client.address import UnreachableError
from mosaic.server.external import ask_spaces, listen
from mosaic.store.checkpoints import find_checkpoint
from tests.in_process import trained_here
from tests.learners.external.external_programs import external_config
from tests.ports import reserved_port

CARTPOLE = "gym/CartPole-v1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def address(home: Path) -> Iterator[str]:
    with reserved_port() as port:
        yield f"http://127.0.0.1:{port}"


def on_port(address: str, **changes: Any) -> Any:
    changes.setdefault("environment", {})["env_id"] = f"external:{address.rpartition(':')[2]}"
    return external_config(CARTPOLE, **changes)


@contextmanager
def learning(address: str, steps: int = 64) -> Iterator[Learner]:
    """Listen with a PPO learner, whose rollouts have this many env steps."""
    config = on_port(address, environment={"num_envs": 1})
    learner = assemble(config, PpoOptions(n_steps=steps, batch_size=32), listen=listen).learner
    with closing(learner):
        yield learner


def client_of(address: str, **changes: Any) -> PolicyClient:
    env = gymnasium.make("CartPole-v1")
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    return PolicyClient(address, **{"wait_s": 3.0, **spaces, **changes})


def play(client: PolicyClient, over: Callable[[], bool]) -> None:
    """Play CartPole until the run is over."""
    env = gymnasium.make("CartPole-v1")
    while not over():
        try:
            play_one(client, env)
        except CallError as error:
            if error.retry != "episode":
                raise


def play_one(client: PolicyClient, env: gymnasium.Env[Any, Any]) -> None:
    episode, reward = client.start_episode(), None
    observation, _ = env.reset(seed=0)
    while True:
        action = client.get_action(episode, observation, reward=reward)
        observation, paid, terminated, truncated, _ = env.step(int(action))
        reward = float(paid)
        if terminated or truncated:
            client.end_episode(episode, observation, truncated=not terminated, reward=reward)
            return


@contextmanager
def program(address: str) -> Iterator[None]:
    """Run a program that plays in a thread, and comes back when a run listens again."""
    over = threading.Event()

    def run() -> None:
        with client_of(address, wait_s=0.5) as client:
            while not over.is_set():
                with suppress(CallError, UnreachableError):  # no run listens: the first has ended, or the last
                    play(client, over.is_set)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_PROGRAM = """
import sys
import numpy as np
from mosaic import PolicyClient

client = PolicyClient(sys.argv[1], wait_s=60)
episode = client.start_episode()
for _ in range(5):
    client.get_action(episode, np.zeros(4, np.float32), reward=1000.0)
print("in the middle", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_program_that_is_killed_loses_its_episode_alone(address: str) -> None:
    with learning(address) as learner:
        killed = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert killed.stdout is not None
        heard = threading.Event()
        threading.Thread(target=lambda: (killed.stdout.readline(), heard.set()), daemon=True).start()
        learner.watch(heard.is_set)
        learner.iterate()  # five steps: it learns from those whose outcome is known
        counted = learner.progress().env_steps
        assert counted == 4

        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        source = learner.workers[0].source  # type: ignore[attr-defined]
        learner.watch(lambda: len(source.episodes) == 0)
        learner.iterate()
        assert learner.progress().env_steps == counted  # the fifth was not counted

        learner.watch(lambda: False)
        with client_of(address) as client:
            done = threading.Event()
            thread = threading.Thread(target=play, args=(client, done.is_set))
            thread.start()
            learner.iterate()
            progress = learner.progress()
            done.set()
            learner.close()
            thread.join()
    assert progress.episodes >= 1
    assert max(returns.max() for returns in progress.returns) <= 500  # none has 1,000
    assert progress.env_steps >= counted + 64


def test_other_spaces_than_the_runs_are_refused_with_the_difference(address: str) -> None:
    with learning(address):
        other = gymnasium.make("Acrobot-v1")
        with (
            client_of(address, observation_space=other.observation_space, action_space=other.action_space) as client,
            pytest.raises(CallError) as refused,
        ):
            client.start_episode()
    assert refused.value.code == "wrong_value"
    assert "the observation of 'agent_0'" in str(refused.value)
    assert "(6,)" in str(refused.value) or "6" in str(refused.value)


def test_the_first_program_says_what_its_agents_observe_and_do(address: str) -> None:
    found: dict[str, Any] = {}
    port = int(address.rpartition(":")[2])
    thread = threading.Thread(target=lambda: found.update(ask_spaces("127.0.0.1", port)))
    thread.start()
    env = gymnasium.make("CartPole-v1")
    with PolicyClient(address, wait_s=30.0) as unknown, pytest.raises(CallError, match="spaces: they are missing"):
        unknown.start_episode()
    with (
        PolicyClient(address, observation_space=env.observation_space, action_space=env.action_space) as client,
        pytest.raises(CallError) as told,
    ):
        client.start_episode()
    thread.join()
    assert told.value.retry == "request"  # it comes again, when the run listens
    assert found == spec_spaces(make_env(CARTPOLE).spec)
    described = EnvironmentConfig(env_id=f"external:{port}", options={"spaces": found})
    assert ask_first_program(described) == described
    assert spec_spaces(make_env(described).spec) == found


def test_messages_that_no_program_should_send_change_nothing(address: str) -> None:
    with learning(address) as learner:
        token = {"Authorization": f"Bearer {read_token(Path(os.environ['MOSAIC_HOME']))}"}
        assert httpx.post(f"{address}/policy/start_episode", json={}).status_code == 401
        with httpx.Client(headers=token, base_url=address) as raw:
            assert raw.post("/policy/start_episode", content=b"\xff\x00garbage").status_code == 400
            named = raw.post("/policy/start_episode", json={"policy": "run:latest"})
            assert "it does not play 'run:latest'" in named.json()["error"]
            bad = {"agent_0": {"observation": {"space": "Box", "shape": [-1]}, "action": {}}}
            assert raw.post("/policy/start_episode", json={"spaces": bad}).status_code == 422
            episode = raw.post("/policy/start_episode", json={}).json()["episode_id"]
            for observation in ([1, 2], "text", [1, 2, 3, "NaN"], None, {"agent_0": [0, 0, 0, 0]}):
                call = {"episode_id": episode, "observation": observation}
                assert raw.post("/policy/get_action", json=call).status_code in (400, 422), observation
            never = {"episode_id": episode, "observation": [0, 0, 0, 0], "action": 0}
            assert raw.post("/policy/log_action", json=never).json()["code"] == "refused"
            assert raw.post("/policy/end_episode", json={"episode_id": "another"}).status_code == 404
            assert raw.get("/policy").json()["agents"] == ["agent_0"]
        learner.watch(lambda: True)
        learner.iterate()
        assert learner.progress().env_steps == 0
        assert np.isfinite(learner.weights(0)).all()


def test_a_port_in_use_is_named_with_another_to_type(address: str) -> None:
    port = int(address.rpartition(":")[2])
    again = pytest.raises(InputError, match=rf"external:{port}.*mosaic train external:{port + 1}")
    with learning(address), again, learning(address):
        pass


@pytest.mark.slow
def test_a_run_is_trained_and_resumed_by_a_program_that_stays(address: str, home: Path, runs_here: None) -> None:
    params = {"n_steps": 32, "batch_size": 32}
    config = on_port(address, training={"total_timesteps": 300, "params": params})
    with program(address):
        run = trained_here(home, config)
        assert run.state == "finished"
        before = find_checkpoint(run.folder, "latest")
        assert before.env_steps >= 300
        run.resume(settings=["training.total_timesteps=900"])
    after = find_checkpoint(run.folder, "latest")
    assert after.env_steps >= 900
    assert after.manifest.spaces == spec_spaces(make_env(CARTPOLE).spec)


@pytest.mark.slow
def test_a_run_trains_one_agent_on_games_in_which_a_person_plays_the_other(
    address: str, home: Path, runs_here: None
) -> None:
    port, board = address.rpartition(":")[2], "classic/tictactoe_v3"
    config = external_config(
        board,
        environment={"env_id": f"external:{port}"},
        training={"total_timesteps": 200, "params": {"n_steps": 32, "batch_size": 32}},
        agents={"player_2": "human"},
    )
    script = Path(__file__).parents[2] / "examples" / "scripts" / "play_while_training.py"
    with subprocess.Popen([sys.executable, script, port, board, "player_2", "random"]) as program:
        try:
            run = trained_here(home, config)
        finally:
            program.kill()
    assert run.state == "finished"
    found = find_checkpoint(run.folder, "latest")
    assert found.env_steps >= 200
    assert [entry.agents for entry in found.manifest.policies.values()] == [("player_1",)]
