from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.evaluation.standings import Score, rate

scores = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.sampled_from([0.0, 0.5, 1.0])).filter(
        lambda game: game[0] != game[1]
    ),
    max_size=12,
)


def test_no_games_no_ratings() -> None:
    assert rate([]) == {}


@settings(max_examples=30, deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_ratings_do_not_depend_on_when_games_were_played(games: list[Score], random: Random) -> None:
    assert rate(random.sample(games, len(games))) == rate(games)


@settings(max_examples=30, deadline=None)
@given(scores.filter(bool))
def test_the_mean_rating_is_1500_and_games_narrow_the_rest(games: list[Score]) -> None:
    ratings = rate(games)
    assert sum(rating.value for rating in ratings.values()) / len(ratings) == pytest.approx(1500)
    assert all(0 < rating.sd < 250 for rating in ratings.values())


def test_winning_beats_drawing_beats_losing() -> None:
    ratings = rate([("a", "b", 1.0), ("b", "c", 1.0), ("a", "c", 1.0), ("c", "a", 0.0), ("c", "b", 0.0)])
    assert ratings["a"].value > ratings["b"].value > ratings["c"].value


def test_draws_alone_leave_everybody_equal() -> None:
    ratings = rate([("a", "b", 0.5), ("b", "a", 0.5)] * 5)
    assert ratings["a"].value == pytest.approx(ratings["b"].value)
    assert ratings["a"].sd < rate([("a", "b", 0.5)])["a"].sd


def test_differences_are_elos() -> None:
    """Three players 200 points apart: the expected scores are 76 % and 91 %."""
    random, true = Random(3), {"weak": 1300, "middle": 1500, "strong": 1700}
    games = [
        (a, b, float(random.random() < 1 / (1 + 10 ** ((true[b] - true[a]) / 400))))
        for _ in range(300)
        for a in true
        for b in true
        if a != b
    ]
    for name, rating in rate(games).items():
        assert rating.value == pytest.approx(true[name], abs=3 * rating.sd)
        assert rating.sd < 40
