"""Each algorithm, by hand: what one step or one short episode must make of a table."""

from __future__ import annotations

import pytest

from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import (
    ALGORITHMS,
    TabularOptions,
    epsilon_after,
    exponential,
    linear,
    rate_by_visits,
)

ENGINES = pytest.mark.parametrize("engine", ["fused", "numpy", "list"])


def learner(algorithm: str, engine: str, **options: object) -> TabularLearner:
    plain = {"learning_rate": 0.5, "discount_factor": 0.5, "epsilon": 0.0, "dtype": "float64", "table_engine": engine}
    return TabularLearner(4, 2, algorithm, TabularOptions.model_validate({**plain, **options}))


def teach(table: TabularLearner, state: int, action: int, value: float) -> None:
    """Sets a value through the front door: with rate 0.5 half the way, so the reward is twice the way."""
    table.update(state, action, 2 * value - float(table.values[state, action]), 3, True)


@ENGINES
def test_q_learning_takes_the_best_legal_next_action(engine: str) -> None:
    table = learner("q_learning", engine)
    teach(table, 1, 0, 4.0)
    teach(table, 1, 1, 2.0)
    assert table.update(0, 0, 1.0, 1, False) == 1.0 + 0.5 * 4.0
    assert table.update(0, 1, 1.0, 1, False, [False, True]) == 1.0 + 0.5 * 2.0
    assert table.values[0].tolist() == [1.5, 1.0]


@ENGINES
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_terminated_cuts_the_bootstrap_and_truncated_does_not(algorithm: str, engine: str) -> None:
    for terminated, target in ((True, 1.0), (False, 1.0 + 0.5 * 8.0)):
        table = learner(algorithm, engine, initial_value=8.0, n_step=3)
        table.update(0, 0, 1.0, 1, terminated, truncated=not terminated)
        values = table.values[0, 0]
        halfway = 8.0 + 0.5 * (target - 8.0)
        assert values == (0.5 * (8.0 + halfway) if algorithm == "double_q_learning" else halfway)


@ENGINES
def test_sarsa_repeats_the_action_it_learned_from(engine: str) -> None:
    table = learner("sarsa", engine, epsilon=1.0, epsilon_schedule="constant")
    seen = set()
    for _ in range(30):
        teach(table, 1, 0, 4.0)
        teach(table, 1, 1, 2.0)
        before = float(table.values[0, 0])
        error = table.update(0, 0, 0.0, 1, False)
        action = table.select_action(1)
        assert error == 0.5 * float(table.values[1, action]) - before
        seen.add(action)
    assert seen == {0, 1}


@ENGINES
def test_expected_sarsa_averages_over_the_policy(engine: str) -> None:
    table = learner("expected_sarsa", engine, epsilon=0.5, epsilon_schedule="constant")
    teach(table, 1, 0, 4.0)
    teach(table, 1, 1, 2.0)
    assert table.update(0, 0, 0.0, 1, False) == 0.5 * (0.5 * 3.0 + 0.5 * 4.0)


@ENGINES
def test_double_q_learning_splits_its_experience(engine: str) -> None:
    table = learner("double_q_learning", engine, learning_rate=1.0)
    for _ in range(20):
        table.update(0, 0, 4.0, 3, True)
    assert table.values[0, 0] == 4.0  # both tables have learned it
    once = learner("double_q_learning", engine, learning_rate=1.0)
    once.update(0, 0, 4.0, 3, True)
    assert once.values[0, 0] == 2.0  # one of two


@ENGINES
def test_q_lambda_reaches_back_and_is_cut_by_exploring(engine: str) -> None:
    table = learner("q_lambda", engine, lambda_=0.5)
    table.update(0, 0, 0.0, 1, False)
    table.update(1, 0, 0.0, 2, False)
    table.update(2, 0, 8.0, 3, True)
    assert table.values[:3, 0].tolist() == [4.0 * 0.25**2, 4.0 * 0.25, 4.0]
    cut = learner("q_lambda", engine, lambda_=0.5)
    teach(cut, 1, 1, 4.0)
    cut.update(0, 0, 0.0, 1, False)
    known = float(cut.values[0, 0])
    cut.update(1, 0, 8.0, 3, True)  # action 1 was better
    assert cut.values[0, 0] == known
    legal = learner("q_lambda", engine, lambda_=0.5)
    teach(legal, 1, 1, 4.0)
    legal.update(0, 0, 0.0, 1, False, [True, False])
    legal.update(1, 0, 8.0, 3, True)  # action 1 was better, but not allowed
    assert legal.values[0, 0] == 0.5 * 8.0 * 0.25


@ENGINES
def test_q_lambda_replaces_traces(engine: str) -> None:
    table = learner("q_lambda", engine, lambda_=1.0, discount_factor=1.0)
    table.update(0, 0, 0.0, 0, False)
    table.update(0, 0, 0.0, 0, False)
    table.update(0, 0, 8.0, 3, True)
    assert table.values[0, 0] == 4.0  # accumulating ones would make 12


@ENGINES
def test_n_step_sarsa_waits_for_n_rewards(engine: str) -> None:
    table = learner("n_step_sarsa", engine, n_step=2)
    table.update(0, 0, 1.0, 1, False)
    assert not table.values.any()
    table.update(1, 0, 2.0, 2, False)
    assert table.values[0, 0] == 0.5 * (1.0 + 0.5 * 2.0)
    assert table.values[1, 0] == 0.0
    table.update(2, 0, 4.0, 3, True)
    assert table.values[1:3, 0].tolist() == [0.5 * (2.0 + 0.5 * 4.0), 0.5 * 4.0]


@ENGINES
def test_monte_carlo_averages_returns(engine: str) -> None:
    table = learner("monte_carlo", engine, learning_rate_schedule="visits")
    for last in (4.0, 8.0):
        table.update(0, 0, 1.0, 1, False)
        table.update(1, 0, last, 3, True)
    assert table.values[:2, 0].tolist() == [1.0 + 0.5 * 6.0, 6.0]
    assert table.visits[:2, 0].tolist() == [2, 2]


@ENGINES
@pytest.mark.parametrize("algorithm", ["q_lambda", "n_step_sarsa", "monte_carlo"])
def test_a_step_from_elsewhere_begins_a_new_trail(algorithm: str, engine: str) -> None:
    table = learner(algorithm, engine)
    table.update(0, 0, 0.0, 1, False)
    table.update(2, 0, 8.0, 3, True)
    assert table.values[0, 0] == 0.0
    assert table.values[2, 0] == 4.0


@ENGINES
def test_ucb_tries_everything_first(engine: str) -> None:
    table = learner("q_learning", engine, exploration="ucb")
    first = table.select_action(0)
    table.update(0, first, 100.0, 3, True)
    assert table.select_action(0) == 1 - first


@ENGINES
def test_softmax_prefers_by_temperature(engine: str) -> None:
    for temperature, least, most in ((0.01, 0, 0), (1.0, 150, 330), (1e6, 430, 570)):
        table = learner("q_learning", engine, exploration="softmax", temperature=temperature)
        teach(table, 0, 1, 1.2)  # e^1.2 : 1, so action 0 has 23 %
        assert least <= sum(table.select_action(0) == 0 for _ in range(1000)) <= most


@ENGINES
def test_ties_are_broken_by_chance_and_masks_are_law(engine: str) -> None:
    table = learner("q_learning", engine)
    assert 400 < sum(table.select_action(0) for _ in range(1000)) < 600
    assert {table.select_action(0, [False, True]) for _ in range(50)} == {1}
    assert table.greedy(0) == 0
    assert table.greedy(0, [False, True]) == 1


def test_epsilon_falls_to_its_floor_and_never_rises() -> None:
    assert linear(1.0, 0.2, 0, 4) == 1.0
    assert linear(1.0, 0.2, 2, 4) == pytest.approx(0.6)
    assert linear(1.0, 0.2, 9, 4) == 0.2
    assert exponential(1.0, 0.5, 0.2) == 0.5
    assert exponential(0.3, 0.5, 0.2) == 0.2
    for schedule in ("constant", "linear", "exponential"):
        options = TabularOptions.model_validate({"epsilon": 0.0, "epsilon_schedule": schedule})
        assert epsilon_after(options, 0.0, 1) == 0.0
    table = learner("q_learning", "fused", epsilon=0.8, epsilon_decay=0.5, epsilon_min=0.3)
    table.update(0, 0, 0.0, 1, False)
    assert table.epsilon == 0.8
    table.update(1, 0, 0.0, 3, True)
    assert table.epsilon == 0.4
    table.update(1, 0, 0.0, 3, False, truncated=True)
    assert (table.epsilon, table.episodes) == (0.3, 2)


def test_rate_by_visits_is_an_average_above_its_floor() -> None:
    assert [rate_by_visits(n, 0.3) for n in (1, 2, 4)] == [1.0, 0.5, 0.3]
