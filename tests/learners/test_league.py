"""Frozen opponents: which stay, which play, how strong they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.learners.league import CENTRE, League, Sampling, Stranger, performance_rating

NONE = np.zeros(0, np.float32)


def league_of(steps: list[int], size: int = 20, sampling: Sampling = "uniform", ages: tuple[int, ...] = ()) -> League:
    league = League(size, sampling, ages)
    for at in steps:
        league.add(at, np.full(3, at, np.float32), NONE, NONE)
    return league


def test_a_snapshot_is_a_copy() -> None:
    weights = np.zeros(3, np.float32)
    league = League(5, "uniform")
    league.add(0, weights, NONE, NONE)
    weights += 1
    assert league.snapshots[0].weights.tolist() == [0, 0, 0]


def test_old_snapshots_stand_sparse_and_recent_ones_dense() -> None:
    league = league_of(list(range(0, 100_000, 1000)), size=8)
    kept = [snapshot.env_steps for snapshot in league.snapshots]
    assert len(kept) == 8
    assert kept[0] == 0
    assert kept[-1] == 99_000
    gaps = np.diff(kept)
    assert gaps[-1] <= gaps[1]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=40), st.integers(2, 10))
def test_the_first_and_the_newest_always_stay(gaps: list[int], size: int) -> None:
    steps = [0, *np.cumsum(gaps).tolist()]
    league = league_of(steps, size)
    assert league.snapshots[0].env_steps == 0
    assert league.snapshots[-1].env_steps == steps[-1]
    assert len(league.snapshots) == min(size, len(steps))


def test_an_asked_age_is_the_newest_that_is_old_enough() -> None:
    league = league_of([0, 1000, 2000, 3000], ages=(1000, 2500))
    drawn = league.draw(4, 3500, np.random.default_rng(0))
    assert [snapshot.env_steps for snapshot in drawn] == [2000, 1000]


def test_before_anything_is_old_enough_the_oldest_plays() -> None:
    league = league_of([0, 100], ages=(1000,))
    assert league.draw(4, 200, np.random.default_rng(0))[0].env_steps == 0


def test_latest_is_the_newest_alone() -> None:
    assert [s.env_steps for s in league_of([0, 1, 2], sampling="latest").draw(4, 3, np.random.default_rng(0))] == [2]


def test_prioritised_prefers_those_that_win() -> None:
    league = league_of(list(range(10)), sampling="prioritised")
    for snapshot in league.snapshots:
        snapshot.score[:] = 100, 0, 0  # the learner beats them all
    league.snapshots[3].score[:] = 0, 0, 100
    generator = np.random.default_rng(0)
    picked = [s.env_steps for _ in range(50) for s in league.draw(2, 10, generator)[1:]]
    assert picked.count(3) > 40


def test_uniform_gives_everybody_a_chance() -> None:
    league = league_of(list(range(10)))
    generator = np.random.default_rng(0)
    assert {s.env_steps for _ in range(100) for s in league.draw(3, 10, generator)} == set(range(10))


def test_games_say_how_strong_the_learner_is() -> None:
    league = league_of([0])
    league.record(league.snapshots, np.array([[75, 0, 25]]))
    assert league.rating > CENTRE
    league.add(10, np.zeros(3, np.float32), NONE, NONE)
    assert league.snapshots[-1].rating == league.rating


@given(st.floats(1000, 2000), st.integers(1, 1000), st.floats(0, 1))
def test_a_rating_moves_towards_the_result(rating: float, games: int, share: float) -> None:
    after = performance_rating(rating, [(rating, float(games), share * games)])
    assert np.isfinite(after)
    assert (after - rating) * (share - 0.5) >= -1e-6


def test_many_games_bring_the_rating_that_elo_means() -> None:
    expected = 1.0 / (1.0 + 10 ** (-200 / 400))
    assert performance_rating(1500.0, [(1500.0, 1e7, expected * 1e7)]) == pytest.approx(1700, abs=0.1)


def test_ratings_and_weights_survive() -> None:
    league = league_of([0, 5])
    league.record(league.snapshots, np.array([[3, 2, 1], [9, 0, 0]]))
    again = League(20, "uniform")
    again.load_arrays(league.to_arrays())
    assert again.rating == league.rating
    assert [s.env_steps for s in again.snapshots] == [0, 5]
    assert again.snapshots[1].score.tolist() == [9, 0, 0]
    assert again.snapshots[1].weights.tolist() == [5, 5, 5]
    assert again.facts() == league.facts()


def test_a_stranger_is_rated_by_all_its_games_and_the_learner_by_its_own() -> None:
    stranger = Stranger("minimax")
    league = League(5, "uniform", strangers=(stranger,))
    for _ in range(20):
        league.record([stranger], np.array([[0, 0, 100]]))
    strong = stranger.rating
    assert strong > CENTRE + 200
    assert stranger.win_rate == 0.0
    before = league.rating
    for _ in range(20):
        league.record([stranger], np.array([[100, 0, 0]]))
    assert stranger.win_rate is not None
    assert stranger.win_rate > 0.99  # of recent games
    assert league.rating - before > 2 * (strong - stranger.rating) > 0  # it is the learner that has changed


def test_what_strangers_did_survives_and_is_told() -> None:
    league = League(5, "uniform", strangers=(Stranger("random"), Stranger("minimax")))
    league.add(0, np.zeros(3, np.float32), NONE, NONE)
    league.record([*league.snapshots, *league.strangers], np.array([[1, 1, 1], [6, 2, 0], [0, 0, 0]]))
    again = League(5, "uniform", strangers=(Stranger("random"), Stranger("minimax")))
    again.load_arrays(league.to_arrays())
    assert again.metrics() == league.metrics()
    told = league.metrics()
    assert (told["win_rate/random"], told["score/random"]) == (0.75, 0.875)
    assert told["rating/minimax"] == CENTRE
    assert "win_rate/minimax" not in told
