"""Numbers that policies report about their decisions, as results."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mosaic
from mosaic.core.episode import DecisionReport, Episode, StepReport
from mosaic.evaluation.reports import NumberTally, merged, summarise, tallies_by_agent
from mosaic.evaluation.statistics import NOTHING, estimate_mean, estimate_ratio, estimate_share
from mosaic.evaluation.tournament import tournament
from tests.policies.llm.stub import endpoint, first_legal

GAME = "mosaic/tictactoe"
GROUPS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 50)), min_size=1, max_size=30)


@given(GROUPS)
def test_a_ratio_stays_within_the_means_of_its_groups(groups):
    totals, counts = zip(*groups, strict=True)
    mean, low, high = estimate_ratio(totals, counts)
    each = [total / count for total, count in groups]
    assert min(each) - 1e-6 <= mean <= max(each) + 1e-6
    if len(groups) == 1:
        assert (low, high) == (None, None)
    else:
        assert min(each) - 1e-6 <= low <= mean <= high <= max(each) + 1e-6
    shuffled = list(reversed(groups))
    assert estimate_ratio([total for total, _ in shuffled], [count for _, count in shuffled]) == (mean, low, high)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_a_ratio_of_single_values_is_their_mean(values):
    ratio, mean = estimate_ratio(values, [1] * len(values)), estimate_mean(values)
    assert ratio == pytest.approx(mean, abs=1e-9)


def test_many_groups_have_the_same_interval_without_resampling():
    random = np.random.default_rng(0)
    counts = random.integers(1, 10, 5000)
    totals = random.normal(counts, 1.0)
    resampled = estimate_ratio(totals, counts)
    approximated = estimate_ratio([*totals, 1.0], [*counts, 1])
    assert approximated == pytest.approx(resampled, abs=2e-3)
    assert estimate_ratio([], []) == NOTHING


def test_shares_have_a_width_even_where_nothing_happened():
    mean, low, high = estimate_share(0, 40)
    assert (mean, low) == (0, 0)
    assert high == pytest.approx(0.0876, abs=1e-4)  # Wilson
    assert estimate_share(0, 40, 0.1).high > 0.4  # ten times the same game
    assert estimate_share(0, 0) == NOTHING


def test_numbers_are_gathered_per_agent_and_over_episodes():
    reports = [
        StepReport(0, "a", DecisionReport({"s": [1.0, 3.0], "bad": [True, False]})),
        StepReport(1, "b", DecisionReport({"s": 5.0})),
        StepReport(2, "a", DecisionReport({"s": 2.0, "bad": False})),
    ]
    tallies = tallies_by_agent(Episode({}, 0, {}, reports=reports))
    assert tallies == {
        "a": {"s": NumberTally(3, 6.0), "bad": NumberTally(3, 1, True)},
        "b": {"s": NumberTally(1, 5.0)},
    }
    assert merged(tallies.values())["s"] == NumberTally(4, 11.0)
    found = summarise([tallies["a"], tallies["b"]], 2)
    assert found["s"].mean.mean == 11 / 4
    assert found["s"].per_episode.mean == 5.5
    assert found["bad"].to_json()["mean"] == pytest.approx(1 / 3)


def half_legal(body):
    """Answer wrongly at first in every other position."""
    odd = body["messages"][1]["content"].count("O") % 2
    return "?" if odd and len(body["messages"]) == 2 else first_legal(body)


def test_evaluations_give_illegal_share_retries_tokens_latency_and_cost():
    with endpoint(half_legal) as served:
        policy = served.policy("price_in=2", "price_out=4")
        result = mosaic.evaluate(GAME, {"player_1": policy, "player_2": "random"}, episodes=6, seed=1)
    document = json.loads(json.dumps(result.to_json()))
    reports = document["policies"][policy]["reports"]
    assert reports.keys() == {"illegal", "retries", "latency_s", "restricted", "tokens_in", "tokens_out", "cost"}
    asked = len(served.asked)
    illegal = sum(len(body["messages"]) == 4 for body in served.asked)
    assert (reports["illegal"]["total"], reports["illegal"]["count"]) == (illegal, asked)
    assert reports["illegal"]["ci95"][0] < illegal / asked < reports["illegal"]["ci95"][1]
    assert reports["retries"]["total"] == illegal
    assert reports["tokens_in"]["mean"] == 100
    assert reports["cost"]["total"] == pytest.approx(asked * (100 * 2 + 7 * 4) / 1e6)
    assert reports["cost"]["episode_mean"] == pytest.approx(reports["cost"]["total"] / 6)
    assert document["agents"]["player_2"]["reports"] == {}


def test_tournaments_keep_them_in_their_store(tmp_path):
    with endpoint(half_legal) as served:
        policies = [served.policy(), "random"]
        whole = tournament(GAME, policies, games=2, store=tmp_path / "games.jsonl")
        asked = len(served.asked)
        again = tournament(GAME, policies, games=2, store=tmp_path / "games.jsonl")
    assert len(served.asked) == asked  # nothing is played again
    row = next(row for row in again.to_json()["policies"] if row["policy"] == policies[0])
    assert row["reports"]["illegal"]["count"] == asked
    assert again.to_json() == whole.to_json()
    assert again.reports("random") == {}
