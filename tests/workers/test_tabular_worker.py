"""Tables as runs: what the worker declares, and what it says when it cannot."""

import json

import numpy as np
import pytest
from hosting import run_config
from safetensors.numpy import load_file

from mosaic.config.environment import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.twins import find_twin
from mosaic.learners.tabular.proof import prove
from mosaic.runs.trainer import Trainer
from mosaic.testing import check_worker

FULL_SPEED = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}
GAME = {"env_id": "classic/tictactoe_v3"}


def crowd(agents):
    names = {1: "gym/FrozenLake-v1", 2: "classic/tictactoe_v3", 3: "mpe/simple_spread_v3"}
    return EnvironmentConfig(env_id=names[agents])


def finished(home, config):
    run = Trainer(home).submit(config)
    assert run.wait(90) == "finished", run.log()
    return run


@pytest.mark.slow
@pytest.mark.chosen
def test_every_declared_capability_is_proven():
    config = run_config(
        "tabular",
        {"report_every_steps": 2_000_000},
        environment={"env_id": "gym/Taxi-v3"},
        training={"total_timesteps": 120_000_000},
        checkpoint={"every_steps": 10_000_000},
    )
    report = check_worker(
        "tabular", config, environments={"self_play": EnvironmentConfig(env_id="classic/tictactoe_v3")}, crowd=crowd
    )
    assert {"seeds", "resume", "pause", "checkpoints", "max_agents"} <= {proof.capability for proof in report.proofs}


def test_self_play_gives_a_policy_that_cannot_be_beaten(tmp_path):
    run = finished(
        tmp_path,
        run_config("tabular", FULL_SPEED, environment=GAME, policy_configuration="self_play",
                   training={"total_timesteps": 1_500_000}),
    )  # fmt: skip
    game = find_twin(EnvironmentConfig(**GAME))
    assert prove(game, load_file(run.checkpoints()[-1].path / "table.safetensors")["values"]).unbeatable
    last = list(run.events())[-3]
    assert last["env_steps"] == last["agent_steps"] == 1_500_000
    assert set(last["custom_metrics"]) == {"epsilon", "coverage", "td_error"}


def test_all_cores_learn_as_well_and_lose_no_step(tmp_path):
    run = finished(
        tmp_path,
        run_config("tabular", {**FULL_SPEED, "merge_every_steps": 50_000}, environment=GAME,
                   resources={"runtime": "parallel", "num_workers": 2}, training={"total_timesteps": 2_000_001}),
    )  # fmt: skip
    tensors = load_file(run.checkpoints()[-1].path / "table.safetensors")
    assert run.checkpoints()[-1].env_steps == 2_000_001 == int(tensors["visits"].sum())
    assert tensors["counts"].shape[0] == 2
    assert prove(find_twin(EnvironmentConfig(**GAME)), tensors["values"]).unbeatable


def test_an_env_without_a_twin_is_played_itself_and_resumes_bit_by_bit(tmp_path):
    params = {"bins": [4, "4@-3..3", 4, "4@-3.5..3.5"], "report_every_steps": 500}

    def config(steps):
        return run_config(
            "tabular", params, environment={"env_id": "gym/CartPole-v1"}, training={"total_timesteps": steps}
        )

    whole = finished(tmp_path / "whole", config(6000))
    parts = Trainer(tmp_path / "parts").submit(config(6000))
    for event in parts.events(follow=True):
        if event.get("env_steps", 0) >= 1500:
            parts.stop()
            break
    if parts.state == "stopped":
        parts.resume()
        assert parts.wait(60) == "finished"
    curves = [
        [(e["env_steps"], e["episode_reward_mean"]) for e in run.events() if e["kind"] == "iteration"]
        for run in (whole, parts)
    ]
    assert curves[0][-1] == curves[1][-1]
    assert "it has no compiled twin" in whole.log()


@pytest.mark.parametrize("algorithm", ["double_q_learning", "q_lambda", "n_step_sarsa", "monte_carlo"])
def test_what_the_compiled_loop_does_not_know_is_learned_step_by_step(tmp_path, algorithm):
    run = finished(
        tmp_path,
        run_config("tabular", environment={"env_id": "gym/FrozenLake-v1", "options": {"is_slippery": False}},
                   training={"total_timesteps": 3000, "algorithm": algorithm}),
    )  # fmt: skip
    assert f"does not know {algorithm}" in run.log()


def test_a_learned_table_plays_on_the_reference_env(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    from mosaic import evaluate

    run = finished(
        tmp_path,
        run_config("tabular", {"epsilon": 0.3, "epsilon_decay": 0.9995}, environment={"env_id": "gym/Taxi-v3"},
                   training={"total_timesteps": 3_000_000}),
    )  # fmt: skip
    result = evaluate("gym/Taxi-v3", {"*": f"run:{run.id}"}, episodes=50, seed=1).to_json()
    assert result["agents"]["agent_0"]["return_mean"] > 7.0
    with pytest.raises(InputError, match=r"was trained in gym/Taxi-v3 and cannot play gym/FrozenLake-v1"):
        evaluate("gym/FrozenLake-v1", {"*": f"run:{run.id}"}, episodes=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"environment": {"env_id": "gym/CartPole-v1"}}, "training.params.bins="),
        ({"environment": {"env_id": "classic/connect_four_v3"}}, "has 2 agents and no compiled twin"),
        (
            {"environment": {"env_id": "gym/Blackjack-v1"}, "resources": {"runtime": "parallel"},
             "training": {"algorithm": "monte_carlo"}},
            "The runtime parallel needs a compiled loop",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(tmp_path, settings, text):
    settings = {**settings, "training": {"total_timesteps": 100, **settings.get("training", {})}}
    run = Trainer(tmp_path).submit(run_config("tabular", **settings))
    assert run.wait(60) == "failed"
    assert text in run.reason


def test_the_facts_of_a_checkpoint_are_json(tmp_path):
    run = finished(tmp_path, run_config("tabular", environment=GAME, training={"total_timesteps": 20_000}))
    folder = run.checkpoints()[-1].path
    assert json.loads((folder / "facts.json").read_text())["iteration"] == 2
    assert np.isfinite(load_file(folder / "table.safetensors")["values"]).all()
