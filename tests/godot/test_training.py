"""Training of a real game: two policies by the names that it declares, curves, stop, resume, play, and kills."""

import json
import os
import signal
from random import Random

import pytest

from mosaic.runs.processes import marked
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from mosaic.telemetry.events.reader import visible
from tests.godot.conftest import OPTIONS, SETTINGS, engines_of
from tests.godot.raw_game import ORCHARD, needs_engine
from tests.in_process import trained_here
from tests.runs.conftest import trainer as trainer  # the fixture
from tests.runs.run_cases import LONG, assert_no_gap, eventually
from tests.ui.conftest import mosaic as mosaic  # the fixture

pytestmark = [needs_engine, pytest.mark.slow]
GOAL = 5.0  # of the likeliest actions; random play gets about -1.2, and 8 is the most
QUICK = {"learning_rate": 2e-3, "n_steps": 64, "log_std_init": -0.7, "gamma": 0.95}


def asked(worker="native", env_steps=LONG, params=None, **sections):
    return {
        "environment": {"env_id": f"godot/{ORCHARD}", "options": OPTIONS, "num_envs": sections.pop("num_envs", 2)},
        "training": {"worker": worker, "algorithm": "ppo", "total_timesteps": env_steps, "params": params or {}},
        "seed": 3,
        **sections,
    }


def engines_of_run(run):
    """Return the games of a run, whichever of its processes has started them."""
    processes = {row.pid for row in marked(run.id)}
    return {game for process in processes for game in engines_of(process)}


def iterations(run):
    return [event for event in visible(run.events()) if event["kind"] == "iteration"]


def returns_of(mosaic, *agents):
    """Return the mean return of each agent with these `--agent` options."""
    answer = mosaic("evaluate", f"godot/{ORCHARD}", *agents, "--episodes", "20", "--json", *SETTINGS)
    assert answer.code == 0, answer.err
    return {agent: row["return_mean"] for agent, row in json.loads(answer.out)["agents"].items()}


def test_the_native_worker_learns_a_policy_for_each_name(mosaic, tmp_path):
    run = trained_here(tmp_path / "home", asked(env_steps=16_000, num_envs=8, params=QUICK))
    assert run.state is State.FINISHED, run.reason
    assert {*iterations(run)[-1]["policies"]} == {"picker", "dog"}
    curve = [event["episode_reward_mean"] for event in iterations(run) if event["episode_reward_mean"] is not None]
    assert curve[-1] > curve[0] + 2
    random, trained = (returns_of(mosaic, "--agent", f"*={policy}") for policy in ("random", "run:latest"))
    assert max(random.values()) < 0 < GOAL < min(trained.values())
    answer = mosaic("play", f"godot/{ORCHARD}", "--agent", "picker_0=run:latest", "--agent", "dog_0=random", *SETTINGS)
    assert answer.code == 0, answer.err
    pytest.importorskip("onnxruntime")
    files = tmp_path / "files"
    answer = mosaic("export", "latest", "--target", "godot", "--out", str(files))
    assert answer.code == 0, answer.err
    exported = [word for name in ("picker", "dog") for word in ("--agent", f"{name}_*=onnx:{files / name}.onnx")]
    assert returns_of(mosaic, *exported) == pytest.approx(trained, abs=1.0)


def test_a_killed_game_fails_the_run_with_the_reason_and_a_killed_run_resumes(trainer: Trainer):
    run = trainer.submit(asked(checkpoint={"every_steps": 512}))
    assert eventually(lambda: len(iterations(run)) > 2, 120)
    games = engines_of_run(run)
    assert len(games) == 2
    os.kill(Random(1).choice(sorted(games)), signal.SIGKILL)
    assert run.wait(60) is State.FAILED
    assert "closed the connection" in run.reason
    assert "SIGKILL" in run.reason
    assert not marked(run.id)
    assert eventually(lambda: not games & engines_of())

    before = iterations(run)[-1]["env_steps"]
    run.resume()
    assert eventually(lambda: iterations(run)[-1]["env_steps"] > before, 120)
    games, attempt = engines_of_run(run), run.record().attempts[-1]
    assert len(games) == 2
    for process in (attempt.supervisor, attempt.worker):
        os.kill(process.pid, signal.SIGKILL)
    assert eventually(lambda: not games & engines_of())  # they end with the process that started them
    assert run.wait(60) is State.LOST

    run.resume()
    before = iterations(run)[-1]["env_steps"]
    assert eventually(lambda: iterations(run)[-1]["env_steps"] > before, 120)
    run.stop()
    assert run.state is State.STOPPED
    assert_no_gap(run)
    assert not marked(run.id)


SMALL_RLLIB = {
    "fcnet_hiddens": [32], "train_batch_size_per_learner": 300, "minibatch_size": 100, "num_epochs": 1,
    "num_env_runners": 0,
}  # fmt: skip


def test_rllib_trains_a_policy_for_each_name_and_a_killed_game_fails_the_run(mosaic, trainer: Trainer):
    run = trainer.submit(asked("rllib", 600, SMALL_RLLIB, num_envs=2))
    assert run.wait(240) is State.FINISHED, run.reason
    assert {*iterations(run)[-1]["policies"]} == {"picker", "dog"}
    assert {*returns_of(mosaic, "--agent", f"*=run:{run.id}")} == {"picker_0", "dog_0"}

    run = trainer.submit(asked("rllib", LONG, SMALL_RLLIB, num_envs=2))
    assert eventually(lambda: bool(engines_of_run(run)) and len(iterations(run)) > 1, 240)
    games = engines_of_run(run)
    os.kill(min(games), signal.SIGKILL)
    assert run.wait(120) is State.FAILED
    assert "closed the connection" in run.reason
    assert eventually(lambda: not games & engines_of())
    assert not marked(run.id)


def test_sb3_trains_one_policy_for_all_agents(mosaic, tmp_path):
    pytest.importorskip("stable_baselines3")
    run = trained_here(tmp_path / "home", asked("sb3", 512, {"n_steps": 64}, num_envs=2))
    assert run.state is State.FINISHED, run.reason
    assert {*iterations(run)[-1]["policies"]} == {"shared"}
    assert {*returns_of(mosaic, "--agent", "*=run:latest")} == {"picker_0", "dog_0"}


@pytest.mark.parametrize(("worker", "params"), [("rllib", SMALL_RLLIB), ("sb3", {"n_steps": 64})])
def test_a_killed_run_of_other_workers_resumes(trainer: Trainer, worker, params):
    run = trainer.submit(asked(worker, LONG, params, num_envs=2, checkpoint={"every_steps": 300}))
    assert eventually(lambda: len(iterations(run)) > 3, 240)
    games, attempt = engines_of_run(run), run.record().attempts[-1]
    assert games
    for process in (attempt.supervisor, attempt.worker):
        os.kill(process.pid, signal.SIGKILL)
    assert run.wait(60) is State.LOST
    assert eventually(lambda: not games & engines_of())
    saved = max(event["env_steps"] for event in run.events() if event["kind"] == "checkpoint")
    assert saved >= 300

    run.resume()
    again = (2, saved)  # attempt and env steps
    assert eventually(lambda: max((event["attempt"], event["env_steps"]) for event in iterations(run)) > again, 240)
    run.stop()
    assert run.state is State.STOPPED
    assert_no_gap(run)
    assert not marked(run.id)
