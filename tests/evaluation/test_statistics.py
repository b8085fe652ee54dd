from __future__ import annotations

import math
import sys
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.evaluation.statistics import (
    estimate_difference,
    estimate_improvement,
    estimate_iqm,
    estimate_mean,
    estimate_score,
    finite_mean,
)
from mosaic.telemetry.curves.bootstrap import upper_level

finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.tuples(*[st.integers(0, 300)] * 3).filter(any)


def test_few_values_have_wider_levels() -> None:
    # Hesterberg 2015, table 5: for n = 10 the levels are 0.86 % and 99.14 %
    assert upper_level(10) == pytest.approx(0.9914, abs=1e-4)
    assert upper_level(10**6) == pytest.approx(0.975, abs=1e-5)
    with pytest.raises(ValueError, match="two values"):
        upper_level(1)


def test_an_interval_stays_within_the_possible_returns() -> None:
    """98 losses and 2 wins of a ±1 game: Student's interval is [-1.02, -0.90]."""
    mean, low, high = estimate_mean([-1.0] * 98 + [1.0] * 2)
    assert mean == pytest.approx(-0.96)
    assert low == -1.0
    assert -0.95 < high < -0.86  # type: ignore[operator]


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_nothing_is_said_without_finite_values(values: list[float]) -> None:
    assert estimate_mean(values) == (None, None, None)
    assert estimate_mean(values).ci95 == [None, None]


def test_one_value_has_a_mean_but_no_interval() -> None:
    assert estimate_mean([7.0]) == (7.0, None, None)


def test_the_largest_numbers_have_a_mean() -> None:
    largest = sys.float_info.max
    assert estimate_mean([largest] * 3) == (largest, largest, largest)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert estimate_mean([0.1] * 7) == (0.1, 0.1, 0.1)


@given(st.lists(finite, min_size=2, max_size=20))
def test_values_mean_and_interval_are_nested(values: list[float]) -> None:
    mean, low, high = estimate_mean(values)
    assert min(values) <= low <= mean <= high <= max(values)  # type: ignore[operator]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=10), st.integers(2, 6))
def test_games_played_again_do_not_narrow_the_interval(values: list[float], times: int) -> None:
    once, again = estimate_mean(values, len(values)), estimate_mean(values * times, len(values))
    assert again == pytest.approx(once, rel=0.2, abs=0.2 * (max(values) - min(values)) + 1e-9)
    assert estimate_mean([values[0]] * times, distinct=1) == (values[0], None, None)


@given(counts, st.integers(2, 5))
def test_matches_played_again_do_not_narrow_the_interval(games: tuple[int, int, int], times: int) -> None:
    again = estimate_score(*(count * times for count in games), distinct=sum(games))
    assert again == pytest.approx(estimate_score(*games))


def test_very_many_values_have_an_interval_within_their_hull() -> None:
    mean, low, high = estimate_mean([1.0] * 9_999 + [-1.0])
    assert 0.999 < low < mean < high == 1.0  # type: ignore[operator]


runs = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8)


@given(runs, runs)
def test_groups_of_runs_are_compared_within_what_is_possible(first: list[float], second: list[float]) -> None:
    iqm = estimate_iqm(first)
    assert min(first) <= iqm.mean <= max(first)  # type: ignore[operator]
    difference, chance = estimate_difference(first, second), estimate_improvement(first, second)
    reverse = estimate_improvement(second, first)
    assert chance.mean == pytest.approx(1 - reverse.mean)  # type: ignore[operator]
    assert difference.mean == pytest.approx(iqm.mean - estimate_iqm(second).mean)  # type: ignore[operator]
    if len(first) < 2 or len(second) < 2:
        assert difference.ci95 == chance.ci95 == [None, None]
        return
    assert min(first) <= iqm.low <= iqm.mean <= iqm.high <= max(first)  # type: ignore[operator]
    assert 0 <= chance.low <= chance.mean <= chance.high <= 1  # type: ignore[operator]
    assert difference.low <= difference.mean <= difference.high  # type: ignore[operator]
    assert difference.low >= min(first) - max(second) - 1e-9  # type: ignore[operator]
    assert difference.high <= max(first) - min(second) + 1e-9  # type: ignore[operator]


def test_known_comparison() -> None:
    good, bad = [8.0, 9.0, 10.0, 11.0, 100.0], [1.0, 2.0, 3.0, 4.0, 9.0]
    assert estimate_iqm(good).mean == 10.0
    assert estimate_difference(good, bad).mean == 7.0
    assert estimate_improvement(good, bad).mean == (25 - 1.5) / 25  # one loss, one tie
    assert estimate_difference(good, bad).low > 0  # type: ignore[operator]
    assert estimate_iqm([]) == estimate_iqm([math.nan]) == (None, None, None)


def test_iqm_intervals_cover_the_truth_9_times_of_10_or_more() -> None:
    random, hits, trials = Random(5), 0, 400
    for _ in range(trials):
        _, low, high = estimate_iqm([random.gauss(3, 2) for _ in range(10)])
        hits += low <= 3 <= high  # type: ignore[operator]
    assert hits / trials > 0.9


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_values_does_not_matter(values: list[float], random: Random) -> None:
    shuffled = random.sample(values, len(values))
    assert finite_mean(shuffled) == finite_mean(values)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=10), st.floats(-1e3, 1e3))
def test_adding_a_constant_moves_the_interval(values: list[float], constant: float) -> None:
    before, after = estimate_mean(values), estimate_mean([value + constant for value in values])
    assert after == pytest.approx([part + constant for part in before if part is not None], abs=1e-6)


@given(st.lists(st.integers(-100, 100), min_size=2, max_size=10).filter(lambda values: len(set(values)) > 1))
def test_the_same_values_more_often_make_a_narrower_interval(values: list[float]) -> None:
    once, thrice = estimate_mean(values), estimate_mean(values * 3)
    assert thrice.high - thrice.low <= once.high - once.low  # type: ignore[operator]


def test_mean_intervals_cover_the_truth_95_times_of_100() -> None:
    random, hits, trials = Random(1), 0, 2000
    for _ in range(trials):
        _, low, high = estimate_mean([random.gauss(3, 2) for _ in range(10)])
        hits += low <= 3 <= high  # type: ignore[operator]
    assert 0.93 < hits / trials < 0.97


def test_wilson_at_known_counts() -> None:
    assert estimate_score(8, 0, 2).ci95 == pytest.approx([0.490162, 0.943318], abs=1e-6)
    assert estimate_score(10, 0, 0) == pytest.approx((1.0, 0.722467, 1.0), abs=1e-6)
    assert estimate_score(0, 0, 10) == pytest.approx((0.0, 0.0, 0.277533), abs=1e-6)
    assert estimate_score(0, 40, 0) == pytest.approx((0.5, 0.456189, 0.543811), abs=1e-6)  # draws vary little
    assert estimate_score(0, 0, 0) == (None, None, None)


@given(counts)
def test_score_intervals_hold_the_score_and_stay_within_0_and_1(games: tuple[int, int, int]) -> None:
    score, low, high = estimate_score(*games)
    assert 0 <= low <= score <= high <= 1  # type: ignore[operator]
    assert low < high  # type: ignore[operator] # even ten wins in a row leave something open


@given(counts)
def test_the_loser_has_the_mirrored_interval(games: tuple[int, int, int]) -> None:
    wins, draws, losses = games
    score, low, high = estimate_score(wins, draws, losses)
    assert estimate_score(losses, draws, wins) == pytest.approx([1 - score, 1 - high, 1 - low])  # type: ignore[operator]


@given(counts, st.integers(2, 5))
def test_more_games_make_a_narrower_interval(games: tuple[int, int, int], times: int) -> None:
    once, more = estimate_score(*games), estimate_score(*(count * times for count in games))
    assert more.high - more.low < once.high - once.low  # type: ignore[operator]


@pytest.mark.parametrize(
    ("win", "draw"), [(0.5, 0.0), (0.9, 0.0), (0.98, 0.0), (0.3, 0.4), (0.0, 0.9), (0.9, 0.1), (1.0, 0.0)]
)
def test_score_intervals_cover_the_truth_95_times_of_100_or_more(win: float, draw: float) -> None:
    random, hits, trials = Random(2), 0, 2000
    for _ in range(trials):
        draws = [random.random() for _ in range(40)]
        wins = sum(value < win for value in draws)
        drawn = sum(win <= value < win + draw for value in draws)
        _, low, high = estimate_score(wins, drawn, 40 - wins - drawn)
        hits += low <= win + draw / 2 <= high  # type: ignore[operator]
    assert hits / trials > 0.93


def test_the_simulated_score_is_the_mean_score() -> None:
    assert estimate_score(3, 4, 5).mean == fmean([1.0] * 3 + [0.5] * 4 + [0.0] * 5)
