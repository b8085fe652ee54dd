from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from mosaic.telemetry.curves.seed_groups import group_curves, interquartile_mean, mean, mean_band
from tests.telemetry.event_cases import CALM

CELLS = st.floats(-1e3, 1e3) | st.just(math.nan)


@st.composite
def groups(draw: st.DrawFn) -> np.ndarray:
    runs, points = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    return np.array(draw(st.lists(st.lists(CELLS, min_size=points, max_size=points), min_size=runs, max_size=runs)))


@settings(CALM, max_examples=40)
@given(groups())
@example(np.tile([math.nan, math.nan, 725.8999971663891], (3, 1)))  # rounding: a band beside its own mean
def test_statistics_are_those_of_the_textbook(values: np.ndarray) -> None:
    low, high = mean_band(values)
    for column, (got_mean, got_iqm, got_low, got_high) in enumerate(
        zip(mean(values), interquartile_mean(values), low, high, strict=True)
    ):
        there = [value for value in values[:, column] if not math.isnan(value)]
        if not there:
            assert math.isnan(got_mean)
            assert math.isnan(got_iqm)
            continue
        assert got_mean == pytest.approx(fmean(there), abs=1e-9)
        assert got_iqm == pytest.approx(stats.trim_mean(there, 0.25), abs=1e-9)
        if len(there) < 2:
            assert math.isnan(got_low)
            assert math.isnan(got_high)
        else:
            assert min(there) - 1e-9 <= got_low <= got_mean <= got_high <= max(there) + 1e-9


def test_a_band_stays_where_its_runs_are() -> None:
    """One seed of five has learned CartPole: Student's interval would be -600 to 1,200 around 100 of 0 to 500."""
    runs = np.array([[9.0], [9.0], [9.0], [9.0], [500.0]])
    (low,), (high,) = mean_band(runs)
    assert 9 <= low < 107.2 < high <= 500


def test_a_band_is_the_same_each_time_and_narrows_with_more_runs() -> None:
    values = np.random.default_rng(3).normal(0, 1, (40, 5))
    low, high = mean_band(values)
    again = mean_band(values)
    assert (low == again[0]).all()
    assert (high == again[1]).all()
    few = mean_band(values[:5])
    assert ((high - low) < (few[1] - few[0])).all()


def test_runs_are_brought_to_a_common_x_and_never_extended() -> None:
    long = np.array([0.0, 10.0]), np.array([0.0, 10.0])
    short = np.array([0.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, math.nan, 6.0])
    curve = group_curves([long, short], points=6)
    assert curve.x.tolist() == [0, 2, 4, 6, 8, 10]
    assert curve.mean.tolist() == [1, 3, 5, 6, 8, 10]
    assert curve.runs.tolist() == [2, 2, 2, 1, 1, 1]
    assert np.isnan(curve.low).tolist() == [False] * 3 + [True] * 3
    assert curve.low[:3].tolist() == [0, 2, 4]
    assert curve.high[:3].tolist() == [2, 4, 6]


def test_the_interquartile_mean_forgives_one_bad_seed() -> None:
    runs = [(np.array([0.0, 1.0]), np.array([value, value])) for value in (1.0, 1.0, 1.0, 1.0, -100.0)]
    curve = group_curves(runs, points=3)
    assert curve.iqm.tolist() == [1, 1, 1]
    assert curve.mean[0] < -19


def test_a_group_without_points_is_empty() -> None:
    nothing = np.empty(0)
    assert [len(column) for column in group_curves([(nothing, nothing)])] == [0] * 6
    assert [len(column) for column in group_curves([])] == [0] * 6
