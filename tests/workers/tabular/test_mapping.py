"""Tabular runs honour the whole mapping: fixed opponents, names, paradigms and policies_to_train, or refuse it."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.testing import check_env
from mosaic.testing.duel import CONSTANT, STEPS, Duel, duel
from mosaic.workers.resolution import resolve
from mosaic.workers.tabular.mapping import read_table_mapping
from mosaic.workers.tabular.worker import make_training
from tests.in_process import trained_here
from tests.workers.hosting import run_config

GAME = {"env_id": "classic/tictactoe_v3"}
LAKE = {"env_id": "gym/FrozenLake-v1"}
DUEL = duel().model_dump()


def training_of(params=None, **settings):
    config = resolve(run_config("tabular", {"table_engine": "list", **(params or {})}, **settings)).config
    from mosaic.workers.registry import load_worker, parse_params

    options = parse_params(load_worker("tabular"), config.training.algorithm, dict(config.training.params))
    return make_training(config, options, lambda *_: None)


def refusal(params=None, **settings):
    with pytest.raises(InputError) as caught:
        resolve(run_config("tabular", params, **settings))
    return str(caught.value)


def test_the_env_of_these_tests_keeps_the_contract():
    assert check_env(lambda: Duel(3)).agents[2].agent == "c"


def test_a_fixed_opponent_is_seen_in_what_the_table_is_paid():
    training = training_of(environment=DUEL, agents={"b": CONSTANT})
    training.advance(40)
    seen = training.read_statistics()
    assert seen.episodes == 10
    assert 80 <= seen.return_min <= seen.return_max <= 88
    assert training.agent_steps == training.env_steps == 40
    assert set(training.learners) == {"table"}
    learned = training_of(environment=DUEL)  # without the rule, the table plays b too
    learned.advance(40)
    assert learned.read_statistics().return_min < 80


def test_a_fixed_opponent_plays_the_agent_that_the_rule_names():
    training = training_of(environment=GAME, agents={"player_1": "minimax"})
    training.advance(60)
    assert training.read_statistics().return_max <= 0  # nobody beats minimax
    assert training.env_steps > training.agent_steps  # minimax moves first, in steps of its own


def test_steps_of_a_fixed_opponent_count_and_the_limit_holds():
    training = training_of(environment=GAME, agents={"player_1": "random"}, training={"total_timesteps": 101})
    training.advance(1000)
    assert training.env_steps == 101
    assert 40 < training.agent_steps < 60


def test_the_opponent_of_a_run_is_said_reported_and_evaluated(tmp_path):
    config = run_config("tabular", environment=DUEL, agents={"b": CONSTANT}, evaluation={"episodes": 2},
                        training={"total_timesteps": 400})  # fmt: skip
    run = trained_here(tmp_path, config)
    assert run.state == "finished", run.log()
    assert f"b is played by {CONSTANT}" in run.log()
    iterations = [event for event in run.events() if event["kind"] == "iteration"]
    assert all(80 <= event["policies"]["table"]["reward_mean"] <= 88 for event in iterations)
    assert [event["episode_reward_min"] >= 80 for event in run.events() if event["kind"] == "evaluation"] == [True]
    assert run.checkpoints()[-1].manifest.policies["table"].agents == ("a",)


def test_a_table_that_is_not_to_be_trained_keeps_its_values():
    training = training_of(environment=DUEL, policy_configuration="independent", policies_to_train=["a"])
    training.advance(400)
    assert set(training.learners) == {"a", "b"}
    assert training.learners["a"].values.any()
    assert not training.learners["b"].values.any()
    assert not training.learners["b"].visits.any()
    assert training.learners["b"].epsilon == TabularOptions().epsilon


def test_names_say_which_agents_share_a_table():
    training = training_of(environment=duel(3).model_dump(), agents={"a,b": "pair", "c": "alone"})
    training.advance(3 * STEPS)
    assert training.agents_of_tables() == {"pair": ("a", "b"), "alone": ("c",)}
    assert training.learners["pair"].visits.sum() == 2 * training.learners["alone"].visits.sum() == 2 * STEPS


def test_one_named_table_for_all_still_trains_in_the_compiled_loop():
    assert isinstance(training_of({"table_engine": "fused"}, environment=LAKE, agents={"*": "ice"}), TwinTraining)
    assert isinstance(training_of(environment=GAME, policy_configuration="independent"), MultiAgentTraining)


def test_without_a_word_about_agents_games_are_self_play_and_fixed_opponents_are_not():
    assert resolve(run_config("tabular", environment=GAME)).config.policy_configuration == "self_play"
    fixed = resolve(run_config("tabular", environment=GAME, agents={"player_2": "random"})).config
    assert fixed.policy_configuration == "parameter_sharing"


@pytest.mark.parametrize("worker", ["tabular", "native"])
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"agents": {"player_9": "random"}}, "There is no agent 'player_9'. Did you mean 'player_"),
        ({"agents": {"player_2": "human"}}, "A person cannot play player_2 while a policy trains"),
        ({"agents": {"player_2": "randon"}}, "There is no policy named 'randon'. Did you mean 'random'?"),
        ({"agents": {"player_2": "nobody"}}, "There is no policy named 'nobody' for player_2 to be played by"),
        ({"agents": {"player_2": "engine:depth=2"}}, "There is no policy named 'engine:depth=2'."),
        ({"agents": {"player_2": "minimax:dept=2"}}, "there is no option 'dept'. Did you mean 'depth'?"),
        ({"agents": {"player_2": "stockfish"}}, "classic/chess_v6 only"),
        ({"agents": {"*": "random"}}, "There is nothing to learn"),
        ({"policies_to_train": ["nobody"]}, "There is no policy that learns named 'nobody'."),
        ({"policies_to_train": "python:operator:not_"}, "policies_to_train leaves nothing to learn."),
    ],
)  # fmt: skip
def test_what_the_mapping_cannot_mean_is_refused(worker, settings, text):
    with pytest.raises(InputError) as caught:
        resolve(run_config(worker, environment=GAME, **settings))
    assert text in str(caught.value)


def test_what_only_tables_cannot_do_is_refused():
    assert "keeps no snapshots" in refusal(environment=GAME, agents={"player_2": "self@-100"})
    assert "both say who plays" in refusal({"opponent": "random"}, environment=GAME, agents={"player_2": "random"})
    assert "both say who plays" in refusal({"opponent": "random"}, environment=GAME, policy_configuration="independent")
    assert "not against opponent=random" in refusal({"opponent": "random"}, environment=LAKE)
    assert "tables=two is for two agents" in refusal({"tables": "two"}, environment=duel(3).model_dump())
    assert "needs a compiled loop" in refusal(
        environment=GAME, agents={"player_2": "random"}, resources={"runtime": "parallel"}
    )


def test_agents_that_see_different_things_get_tables_of_their_own():
    env = make_env(EnvironmentConfig(env_id="mpe/simple_speaker_listener_v4"))
    config = run_config("tabular", environment={"env_id": "mpe/simple_speaker_listener_v4"})
    from mosaic.workers.tabular.options import TabularWorkerOptions

    mapping = read_table_mapping(config, TabularWorkerOptions(bins=2), env.spec)
    env.close()
    assert mapping.tables == {"speaker_0": "speaker", "listener_0": "listener"}


def test_the_same_seed_meets_the_same_opponents():
    tables = []
    for _ in range(2):
        training = training_of(environment=GAME, agents={"player_2": "random"})
        training.advance(200)
        tables.append(np.array(training.learners["table"].values[:50]))
    assert np.array_equal(*tables)


def test_a_runtime_has_as_many_learners_as_asked_for_on_any_number_of_cores(monkeypatch):
    monkeypatch.setattr("mosaic.runtimes.parallel.available_cores", lambda: 1)
    resources = {"runtime": "parallel", "num_env_runners": 4}
    training = training_of({"table_engine": "fused"}, environment=LAKE, resources=resources)
    training.advance(8)
    assert [int(progress.counts[0] > 0) for progress in training.progress] == [1] * 4
