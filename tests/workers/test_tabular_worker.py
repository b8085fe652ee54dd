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
FOUR = {"env_id": "classic/connect_four_v3"}


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
    assert set(last["custom_metrics"]) == {"epsilon", "coverage", "td_error", "value_error"}
    assert last["custom_metrics"]["value_error"] < 0.02


def test_each_seat_may_have_its_own_table_and_plays_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    from mosaic import evaluate

    run = finished(
        tmp_path,
        run_config("tabular", {**FULL_SPEED, "tables": "two"}, environment=GAME, policy_configuration="self_play",
                   training={"total_timesteps": 1_500_000}),
    )  # fmt: skip
    checkpoint = run.checkpoints()[-1]
    assert {name: entry.agents for name, entry in checkpoint.manifest.policies.items()} == {
        "first": ("player_1",),
        "second": ("player_2",),
    }
    tensors = load_file(checkpoint.path / "table.safetensors")
    assert not (tensors["visits"].any(axis=1) & tensors["visits_second"].any(axis=1)).any()
    for seat, other in (("player_1", "player_2"), ("player_2", "player_1")):
        result = evaluate(GAME["env_id"], {seat: f"run:{run.id}", other: "random"}, episodes=200, seed=1).to_json()
        assert result["agents"][seat]["losses"] == 0
    last = [event for event in run.events() if event["kind"] == "iteration"][-1]
    assert last["policies"]["first"]["reward_mean"] == -last["policies"]["second"]["reward_mean"]
    assert last["custom_metrics"]["value_error"] < 0.02


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
        ({"environment": {"env_id": "classic/leduc_holdem_v4"}}, "has 2 agents and no compiled twin"),
        (
            {"environment": FOUR, "resources": {"runtime": "parallel"}},
            "cannot be shared: the runtime is parallel, it should be single",
        ),
        ({"environment": FOUR, "params": {"opponent": "random"}}, "by self-play alone, not against opponent=random"),
        ({"environment": FOUR, "params": {"table_memory_mb": 1}}, "65,536 places × 7 actions needs 4,194,304 bytes"),
        ({"environment": FOUR, "training": {"algorithm": "sarsa"}}, "Games are trained with q_learning, not sarsa"),
        (
            {"environment": {"env_id": "gym/Blackjack-v1"}, "resources": {"runtime": "parallel"},
             "training": {"algorithm": "monte_carlo"}},
            "The runtime parallel needs a compiled loop",
        ),
        (
            {"environment": {"env_id": "gym/Taxi-v3"}, "params": {"tables": "two"}},
            "tables=two is for turn-based games with a compiled twin, and gym/Taxi-v3 is none",
        ),
        (
            {"environment": {"env_id": "classic/connect_four_v3"}, "params": {"tables": "two"}},
            "tables=two is for turn-based games with a compiled twin, and classic/connect_four_v3 is none",
        ),
        (
            {"environment": GAME, "params": {"tables": "two", "opponent": "random"}},
            "tables=two needs self-play, but the opponent is random",
        ),
        (
            {"environment": GAME, "params": {"tables": "two"}, "resources": {"runtime": "parallel"}},
            "tables=two runs on one thread, not with the runtime parallel",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(tmp_path, settings, text):
    settings = {**settings, "training": {"total_timesteps": 100, **settings.get("training", {})}}
    run = Trainer(tmp_path).submit(run_config("tabular", settings.pop("params", {}), **settings))
    assert run.wait(60) == "failed"
    assert text in run.reason


def test_connect_four_is_learned_in_a_hashed_table_and_played_on_the_reference_env(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    from mosaic import evaluate

    run = finished(
        tmp_path,
        run_config("tabular", {"epsilon": 0.3}, environment=FOUR, training={"total_timesteps": 60_000}),
    )
    tensors = load_file(run.checkpoints()[-1].path / "hashed.safetensors")
    assert set(tensors) == {"keys", "values", "visits", "new_row", "counts", "sums"}
    assert tensors["visits"].sum() == 60_000
    assert "q_learning in a hashed table of classic/connect_four_v3" in run.log()
    result = evaluate("classic/connect_four_v3", {"*": f"run:{run.id}"}, episodes=4, seed=1).to_json()
    returns = [result["agents"][agent]["return_mean"] for agent in ("player_0", "player_1")]
    assert returns[0] == -returns[1]


def test_the_facts_of_a_checkpoint_are_json(tmp_path):
    run = finished(tmp_path, run_config("tabular", environment=GAME, training={"total_timesteps": 20_000}))
    folder = run.checkpoints()[-1].path
    assert json.loads((folder / "facts.json").read_text())["iteration"] == 2
    assert np.isfinite(load_file(folder / "table.safetensors")["values"]).all()
