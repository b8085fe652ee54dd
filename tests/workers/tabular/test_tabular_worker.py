"""Tables as runs: what the worker declares, and what it says when it cannot."""

import json
from random import Random

import numpy as np
import pytest
from safetensors.numpy import load_file

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.optimal import prove
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.writer import EventWriter
from mosaic.testing import check_worker
from mosaic.workers.context import WorkerContext
from mosaic.workers.inbox import Inbox
from mosaic.workers.registry import load_worker, parse_params
from tests.in_process import trained_here
from tests.workers.hosting import new_folder, run_config
from tests.workers.tabular.tabular_cases import finished

FULL_SPEED = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}
GAME = {"env_id": "classic/tictactoe_v3"}
FOUR = {"env_id": "classic/connect_four_v3"}


@pytest.mark.slow
def test_every_declared_capability_is_proven(short_runs_here):
    config = run_config(
        "tabular",
        {"report_every_steps": 500_000},
        environment={"env_id": "gym/Taxi-v3"},
        training={"total_timesteps": 40_000_000},
        checkpoint={"every_steps": 4_000_000},
    )
    short = run_config(
        "tabular",
        {"report_every_steps": 500},
        training={"total_timesteps": 2000},
        checkpoint={"every_steps": 500, "keep_last": 10},
    )
    games = dict.fromkeys(("self_play", "independent"), EnvironmentConfig(env_id="classic/tictactoe_v3"))
    report = check_worker("tabular", config, environments=games, short=short, rng=Random(2))
    proven = {proof.capability for proof in report.proofs}
    assert {
        "seeds",
        "resume",
        "population",
        "pause",
        "checkpoints",
        "5 agents",
        "fixed opponent",
        "policies_to_train",
    } <= proven


def test_self_play_gives_a_policy_that_cannot_be_beaten(tmp_path):
    run = finished(
        tmp_path,
        run_config("tabular", FULL_SPEED, environment=GAME, policy_configuration="self_play",
                   training={"total_timesteps": 1_500_000}),
    )  # fmt: skip
    game = find_twin(EnvironmentConfig(**GAME))
    assert prove(game, load_file(run.checkpoints()[-1].path / "table.safetensors")["values"]).unbeatable
    assert run.checkpoints()[-1].manifest.best_by == "env_steps"  # the return of self-play says nothing
    last = [event for event in run.events() if event["kind"] == "iteration"][-1]
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
                   resources={"runtime": "parallel", "num_env_runners": 2}, training={"total_timesteps": 2_000_001}),
    )  # fmt: skip
    tensors = load_file(run.checkpoints()[-1].path / "table.safetensors")
    assert run.checkpoints()[-1].env_steps == 2_000_001 == int(tensors["visits"].sum())
    assert tensors["counts"].shape[0] == 2
    assert prove(find_twin(EnvironmentConfig(**GAME)), tensors["values"]).unbeatable


def test_an_env_without_a_twin_is_played_itself_and_resumes_bit_for_bit(tmp_path):
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
        [
            (e["env_steps"], e["episode_reward_mean"])
            for e in run.events()
            if e["kind"] == "iteration" and "trigger" not in e
        ]
        for run in (whole, parts)
    ]
    assert curves[0][-1] == curves[1][-1]
    assert "it has no compiled twin" in whole.log()


@pytest.mark.parametrize(
    ("algorithm", "params", "text"),
    [
        ("double_q_learning", {}, "does not know double_q_learning"),
        ("q_learning", {"table_engine": "list"}, "does not know q_learning with epsilon_greedy on the engine list"),
        ("monte_carlo", {}, "on the compiled twin of gym/FrozenLake-v1"),
        ("q_learning", {"exploration": "ucb"}, "on the compiled twin of gym/FrozenLake-v1"),
    ],
)
def test_the_log_says_whether_the_compiled_loop_knows_what_is_asked(tmp_path, algorithm, params, text):
    run = finished(
        tmp_path,
        run_config("tabular", params, environment={"env_id": "gym/FrozenLake-v1", "options": {"is_slippery": False}},
                   training={"total_timesteps": 3000, "algorithm": algorithm}),
    )  # fmt: skip
    assert text in run.log()
    assert run.checkpoints()[-1].env_steps == 3000


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
        (
            {"environment": GAME, "training": {"algorithm": "monte_carlo"}},
            "monte_carlo follows the steps of one agent, and 'player_1' and 'player_2' share a table",
        ),
        (
            {"environment": {"env_id": "gym/CartPole-v1"},
             "params": {"table": "dense", "bins": [10**5, "100000@-3..3", 10**5, "100000@-3..3"]}},
            "A dense table of 100,000,000,000,000,000,000 states × 2 actions needs 1,600,000,000,000,000,000,000 bytes",
        ),
        (
            {"environment": FOUR, "resources": {"runtime": "parallel"}},
            "cannot be shared: the runtime is parallel, it should be single",
        ),
        ({"environment": FOUR, "params": {"opponent": "random"}}, "by self-play alone, not against opponent=random"),
        (
            {"environment": {"env_id": "gym/Blackjack-v1"}, "resources": {"runtime": "parallel"},
             "training": {"algorithm": "double_q_learning"}},
            "The runtime parallel needs a compiled loop",
        ),
        (
            {"environment": {"env_id": "gym/Taxi-v3"}, "params": {"tables": "two"}},
            "tables=two is for two agents, and gym/Taxi-v3 has 1",
        ),
        (
            {"environment": {"env_id": "classic/rps_v2"}, "params": {"opponent": "random"}},
            "classic/rps_v2 is learned by self-play alone, not against opponent=random",
        ),
        (
            {"environment": GAME, "params": {"exploration": "softmax", "opponent": "random"}},
            "the compiled loop does not know q_learning with softmax. Leave opponent out, and name it by agent",
        ),
        (
            {"environment": GAME, "params": {"table_engine": "list", "opponent": "random"}},
            "not know q_learning with epsilon_greedy on the engine list",
        ),
        (
            {"environment": GAME, "params": {"table_engine": "numpy"}, "resources": {"runtime": "parallel"}},
            "The runtime parallel needs a compiled loop",
        ),
        (
            {"environment": GAME, "params": {"tables": "two", "opponent": "random"}},
            "tables=two needs self-play, but the opponent is random",
        ),
        (
            {"environment": GAME, "params": {"tables": "two"}, "resources": {"runtime": "parallel"}},
            "tables=two runs on one thread, not with the runtime parallel",
        ),
        (
            {"environment": GAME, "training": {"init": "run:latest"}},
            "cannot honour training.init=run:latest: it always starts with new weights.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_before_a_run_is_made(tmp_path, settings, text):
    settings = {**settings, "training": {"total_timesteps": 100, **settings.get("training", {})}}
    with pytest.raises(InputError) as refused:
        Trainer(tmp_path).submit(run_config("tabular", settings.pop("params", {}), **settings))
    assert text in str(refused.value)
    assert Trainer(tmp_path).runs() == []


def test_what_is_not_installed_is_said_before_a_run_is_made(tmp_path, monkeypatch):
    for runtime, module, text in (
        ("mpi", "mosaic.runtimes.mpi.launch", r"MPI is not installed: .* Type: pip install 'mosaic-rl\[mpi\]'"),
        ("ray", "mosaic.runtimes.ray.session", r"Ray is not installed\. Type: pip install 'mosaic-rl\[rllib\]'"),
    ):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
        config = run_config("tabular", environment=GAME, resources={"runtime": runtime, "num_env_runners": 1})
        with pytest.raises(MissingExtraError, match=text):
            Trainer(tmp_path).submit(config)


def test_a_hashed_table_that_meets_its_limit_ends_the_run(tmp_path):
    config = run_config("tabular", {"table_memory_mb": 1}, environment=FOUR, training={"total_timesteps": 100})
    run = trained_here(tmp_path, config)
    assert run.state == "failed"
    assert "65,536 places × 7 actions needs 4,194,304 bytes" in run.reason


@pytest.mark.parametrize("env_id", [GAME["env_id"], FOUR["env_id"]])
def test_a_game_is_learned_on_the_engine_that_was_asked_for(tmp_path, env_id):
    config = run_config("tabular", {"table_engine": "numpy"}, environment={"env_id": env_id},
                        training={"total_timesteps": 200})  # fmt: skip
    run = finished(tmp_path, config)
    assert "step by step: " in run.log()
    assert "the engine numpy" in run.log()
    assert run.checkpoints()[-1].env_steps == 200


def test_a_run_against_random_ends_with_a_report_that_has_a_reward(tmp_path):
    params = {"opponent": "random", "report_every_steps": 1000}
    run = finished(tmp_path, run_config("tabular", params, environment=GAME, training={"total_timesteps": 10_001}))
    events = [event for event in run.events() if event["kind"] == "iteration"]
    reports = [event for event in events if event.get("trigger") != "clock"]
    assert len(reports) > 3
    assert all(event["episode_reward_min"] is not None for event in reports)
    assert 10_001 <= reports[-1]["env_steps"] <= 10_003  # a random reply belongs to the step before it


LIST = {"table_engine": "list", "discount_factor": 0.5, "epsilon": 0.3}


@pytest.mark.parametrize("tables", ["one", "two"])
def test_agents_that_act_at_once_are_trained_and_play(tmp_path, monkeypatch, tables):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    from mosaic import evaluate

    run = finished(
        tmp_path,
        run_config("tabular", {**LIST, "tables": tables}, environment={"env_id": "classic/rps_v2"},
                   training={"total_timesteps": 300}, evaluation={"episodes": 4, "opponents": ["random"]}),
    )  # fmt: skip
    assert "2 agents act at the same time; to each, the others are part of the env" in run.log()
    assert ("player_0, player_1 learn in the table" in run.log()) == (tables == "one")
    (examined,) = [event for event in run.events() if event["kind"] == "evaluation"]
    assert examined["opponent"] == "random"
    assert examined["wins"] + examined["draws"] + examined["losses"] == 4
    result = evaluate("classic/rps_v2", {"*": f"run:{run.id}"}, episodes=2, seed=1).to_json()
    assert result["agents"]["player_0"]["return_mean"] == -result["agents"]["player_1"]["return_mean"]


@pytest.mark.slow
@pytest.mark.chosen
def test_how_often_a_run_reports_changes_no_examination(tmp_path):
    def examined(home, params):
        run = finished(
            home,
            run_config("tabular", {"epsilon": 1.0, **params}, environment={"env_id": "gym/Blackjack-v1"},
                       training={"total_timesteps": 30_000}, evaluation={"every_steps": 10_000, "episodes": 20}),
        )  # fmt: skip
        events = [event for event in run.events() if event["kind"] == "evaluation"]
        return [(event["env_steps"], event["episode_reward_mean"], event["episode_len_mean"]) for event in events]

    first = examined(tmp_path / "a", {"report_every_steps": 10_000})
    assert [steps for steps, _, _ in first] == [10_000, 20_000, 30_000]
    assert examined(tmp_path / "b", {"report_every_steps": 5_000}) == first  # looking changes nothing


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


def test_no_env_is_made_while_a_compiled_loop_is_timed(tmp_path, monkeypatch):
    from mosaic.envs import catalog, shared_env

    config = run_config("tabular", environment=GAME, policy_configuration="self_play",
                        training={"total_timesteps": 20_000})  # fmt: skip
    worker, made = load_worker("tabular"), []
    with EventWriter(tmp_path / "metrics.jsonl", 1) as writer:
        options = parse_params(worker, "q_learning", {})
        context = WorkerContext(config, options, new_folder(tmp_path, config), writer, Inbox())
        make_env = catalog.make_env

        def watched(*arguments, **settings):
            made.append((context.training_began_at, context.training_ended_at))
            return make_env(*arguments, **settings)

        for module in (catalog, shared_env):
            monkeypatch.setattr(module, "make_env", watched)
        worker.run(context)
    assert made  # for the spaces in the checkpoint
    assert all(began is None or ended is not None for began, ended in made)


@pytest.mark.parametrize(("environment", "params"), [(GAME, {}), (GAME, {"tables": "two"}), (FOUR, {})])
def test_the_return_of_self_play_is_that_of_both_players(tmp_path, environment, params):
    config = run_config("tabular", params, environment=environment, training={"total_timesteps": 20_000})
    last = [event for event in finished(tmp_path, config).events() if event["kind"] == "iteration"][-1]
    assert last["episode_reward_mean"] == 0.0
    assert last["episode_reward_min"] == -last["episode_reward_max"] == -1.0
    means = [facts["reward_mean"] for facts in last["policies"].values()]
    assert sum(means) == 0.0
    assert (means[0] > 0.0) == bool(params)  # who begins in tic-tac-toe wins more often, and has a table


def test_the_return_against_a_random_opponent_is_that_of_the_learner(tmp_path):
    params = {"opponent": "random", "epsilon": 0.0}
    config = run_config("tabular", params, environment=GAME, training={"total_timesteps": 20_000})
    last = [event for event in finished(tmp_path, config).events() if event["kind"] == "iteration"][-1]
    assert last["episode_reward_mean"] == last["policies"]["table"]["reward_mean"] > 0.2
