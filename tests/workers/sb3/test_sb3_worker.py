"""Whole runs of the worker sb3: the contract, learning, resuming, and what several agents learn."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.testing import check_worker
from mosaic.testing.toys import uneven
from tests.in_process import trained_here
from tests.workers.hosting import run_config

SMALL = {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "net_arch": [8]}
CARTPOLE = {"env_id": "gym/CartPole-v1", "num_envs": 4}
CART = "gym/CartPole-v1"
FADING = "mosaic.testing.toys:Fading"
ZOO = {  # rl-zoo's options for CartPole
    "n_steps": 32,
    "batch_size": 256,
    "n_epochs": 20,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "learning_rate": "linear_0.001",
    "clip_range": "linear_0.2",
}


def trained(home: Path, environment: dict[str, Any], algorithm: str, params: dict[str, Any], steps: int, **more: Any):
    training = {"worker": "sb3", "algorithm": algorithm, "params": params, "total_timesteps": steps, "preset": False}
    asked = {"seed": 1, "environment": environment, "training": training, "evaluation": {"episodes": 1}, **more}
    run = trained_here(home, asked)
    assert run.state == "finished", run.folder.errors.read_text()
    return run


def iterations(run: Any) -> list[dict[str, Any]]:
    return [event for event in run.events() if event["kind"] == "iteration"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sb3_keeps_every_promise(tmp_path: Path) -> None:
    wanted = run_config(
        "sb3",
        {**SMALL, "compiled_env": True, "report_every_steps": 512},
        environment=CARTPOLE,
        training={"algorithm": "ppo", "total_timesteps": 30_000, "preset": False},
        checkpoint={"every_steps": 3000},
        evaluation={"episodes": 1},
    )
    short = run_config(
        "sb3",
        {**SMALL, "report_every_steps": 512},
        environment=CARTPOLE,
        training={"algorithm": "ppo", "total_timesteps": 2000, "preset": False},
        checkpoint={"every_steps": 500, "keep_last": 10},
        evaluation={"episodes": 1},
    )
    report = check_worker("sb3", wanted, short=short, home=tmp_path, patience_s=240)
    proofs = {proof.capability: proof.seen for proof in report.proofs}
    assert {"resume", "population", "pause", "stop", "checkpoints", "run: policies", "samples", "seeds"} <= set(proofs)
    assert {"resources", "agent mapping", "fixed opponent", "policies_to_train", "5 agents"} <= set(proofs)
    assert proofs["resume"].endswith("same curve")


@pytest.mark.slow  # that the weights are those of SB3's own learn() is a test of its own, and a quick one
def test_ppo_learns_cartpole(tmp_path: Path) -> None:
    environment = {"env_id": "gym/CartPole-v1", "num_envs": 8}
    run = trained(tmp_path, environment, "ppo", {**ZOO, "compiled_env": True}, 60_000, evaluation={"episodes": 20})
    played = [event for event in run.events() if event["kind"] == "evaluation"][-1]
    assert played["episode_reward_mean"] > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "algorithm", "params", "steps", "least"),
    [
        ("gym/Pendulum-v1", "sac", {"learning_rate": 1e-3, "net_arch": [64, 64]}, 5000, -400),
        (CART, "recurrent_ppo", {"n_steps": 128, "lstm_hidden_size": 32, "learning_rate": 1e-3}, 20_000, 60),
        (CART, "qrdqn", {"learning_rate": 2e-3, "learning_starts": 500, "target_update_interval": 100,
                                      "exploration_fraction": 0.3, "n_quantiles": 10}, 15_000, 60),
    ],
)  # fmt: skip
def test_others_learn(
    tmp_path: Path, environment: str, algorithm: str, params: dict[str, Any], steps: int, least: float
) -> None:
    run = trained(tmp_path, {"env_id": environment}, algorithm, params, steps, evaluation={"episodes": 10})
    assert [event for event in run.events() if event["kind"] == "evaluation"][-1]["episode_reward_mean"] > least


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("ppo", {**SMALL, "normalize_observations": True, "normalize_rewards": True}),
        ("dqn", {"learning_starts": 100, "buffer_size": 300, "net_arch": [8], "exploration_initial_eps": 0.05}),
        ("recurrent_ppo", {"n_steps": 32, "n_epochs": 1, "lstm_hidden_size": 8}),
    ],
)
def test_a_run_that_resumes_continues_as_if_it_had_not_stopped(
    tmp_path: Path, runs_here: None, algorithm: str, params: dict[str, Any]
) -> None:
    params = {**params, "compiled_env": True, "report_every_steps": 128}
    whole, first = (trained(tmp_path, CARTPOLE, algorithm, params, steps) for steps in (1024, 512))
    first.resume(settings=["training.total_timesteps=1024"])
    assert first.state == "finished", first.folder.errors.read_text()
    told = [
        [
            [e[name] for name in ("env_steps", "episode_reward_mean", "policies")]
            for e in iterations(run)
            if "policies" in e  # on a busy machine there are reports between iterations too
        ]
        for run in (whole, first)
    ]
    assert told[0][-3:] == told[1][-3:]
    manifest = first.checkpoints()[-1].manifest
    assert manifest.policies["shared"].normalized is ("normalize_observations" in params)


def test_policies_play_and_values_have_the_common_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(tmp_path, CARTPOLE, "ppo", SMALL, 256)
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    learner = iterations(run)[-1]["policies"]["shared"]["learner"]
    assert {
        "policy_loss",
        "value_loss",
        "entropy",
        "clip_fraction",
        "approx_kl",
        "explained_variance",
    } <= learner.keys()
    assert learner["entropy"] > 0
    with closing(make_env(EnvironmentConfig(env_id="gym/CartPole-v1"))) as env:
        turn = env.reset(0)
        with closing(load_policy(f"run:{run.id}", env.spec, env.possible_agents)) as controller:
            controller.begin(env.possible_agents, 0)
            assert controller.act(turn)["agent_0"] in (0, 1)


@pytest.mark.parametrize(
    ("environment", "algorithm", "params", "more"),
    [
        ({"env_id": "mpe/simple_spread_v3", "num_envs": 2}, "ppo", {**SMALL, "compiled_env": True}, {}),
        ({"env_id": "mpe/simple_tag_v3"}, "a2c", {"n_steps": 16}, {"agents": {"agent_0": "random"}}),
        ({"env_id": "classic/tictactoe_v3"}, "maskable_ppo", SMALL, {"evaluation": {"opponents": ["random"]}}),
        ({"env_id": "python:mosaic.testing.toys:Fading", "num_envs": 2}, "dqn", {"buffer_size": 200}, {}),
    ],
)
def test_several_agents_share_the_policy(
    tmp_path: Path, environment: dict[str, Any], algorithm: str, params: dict[str, Any], more: dict[str, Any]
) -> None:
    run = trained(tmp_path, environment, algorithm, params, 256, **more)
    last = iterations(run)[-1]
    assert list(last["policies"]) == ["shared"]
    assert last["agent_steps"] != 0
    assert np.isfinite(last["episode_reward_mean"])


@pytest.mark.parametrize(
    ("environment", "steps_of_episode", "mean"),
    [
        (uneven(turn_based=True), 9, 4.0),
        (uneven(), 9, 5.0),
        (EnvironmentConfig(env_id=f"python:{FADING}"), 4, 22 / 3),
    ],
)
def test_agents_that_end_early_count_as_much_as_the_others(
    tmp_path: Path, environment: EnvironmentConfig, steps_of_episode: int, mean: float
) -> None:
    asked = {**environment.model_dump(mode="json"), "num_envs": 2}
    run = trained(tmp_path, asked, "ppo", SMALL, 700, telemetry={"report_every_s": 60})
    last = iterations(run)[-1]
    assert last["episode_reward_mean"] == pytest.approx(mean)
    (examined,) = [event for event in run.events() if event["kind"] == "evaluation"]
    assert examined["episode_reward_mean"] == pytest.approx(mean)
    assert last["episode_len_mean"] == examined["episode_len_mean"] == steps_of_episode
    assert 0 <= last["env_steps"] - steps_of_episode * last["episodes_total"] < 2 * steps_of_episode
    assert 700 <= last["env_steps"] < 1100  # decisions are fewer where others act in between


def test_schedules_follow_env_steps_where_others_act_in_between(tmp_path: Path) -> None:
    environment = {**uneven(turn_based=True).model_dump(mode="json"), "num_envs": 2}
    params = {**SMALL, "n_steps": 8, "batch_size": 16, "learning_rate": "linear_0.001"}
    events = iterations(trained(tmp_path, environment, "ppo", params, 2000))
    rates = [event["policies"]["shared"]["learner"]["learning_rate"] for event in events]
    assert rates == sorted(rates, reverse=True)
    for rate, event in list(zip(rates, events, strict=True))[1:-1]:
        assert rate == pytest.approx(0.001 * (1 - event["env_steps"] / 2000), abs=0.0001)


def test_recent_episodes_continue_after_a_resume(tmp_path: Path, runs_here: None) -> None:
    environment = {**uneven(turn_based=True).model_dump(mode="json"), "num_envs": 2}
    run = trained(tmp_path, environment, "ppo", SMALL, 400)
    before = iterations(run)[-1]
    run.resume(settings=["training.total_timesteps=1200"])
    after = iterations(run)[-1]
    assert after["env_steps"] >= 1200 > before["env_steps"]
    assert before["episode_reward_mean"] == after["episode_reward_mean"] == 4.0


def test_a_curriculum_changes_the_env_and_keeps_the_network(tmp_path: Path) -> None:
    stages = [{"until_steps": 128}, {"options": {"ends": 2}}]
    environment = {"env_id": "python:mosaic.testing.duel:Duel", "curriculum": stages}
    run = trained(tmp_path, environment, "ppo", SMALL, 256)
    events = iterations(run)
    assert [event["curriculum_stage"] for event in events] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert [event["episode_len_mean"] for event in events[3:5]] == [4.0, 2.0]
    assert [event["policies"]["shared"]["learner"]["n_updates"] for event in events] == [2.0 * n for n in range(1, 9)]


@pytest.mark.slow
def test_envs_in_processes(tmp_path: Path) -> None:
    run = trained(tmp_path, CARTPOLE, "ppo", SMALL, 512, resources={"num_env_runners": 2})
    assert "4 envs in 2 processes" in run.folder.log.read_text()
