"""The random numbers of compiled envs."""

from __future__ import annotations

import numpy as np

from mosaic.envs.compiled.random import next_below, next_between, next_bits, next_uniform, streams
from mosaic.learners.tabular.random import draw


def test_a_stream_is_splitmix64():
    rng = np.array([5, 12345678901234567890], np.uint64)
    assert [int(next_bits(rng, 1)) for _ in range(5)] == [draw(12345678901234567890, k) for k in range(1, 6)]
    assert rng[0] == 5  # the neighbour's was not touched


def test_numbers_fill_their_range_evenly():
    rng = streams(7, 1)
    uniform = np.array([next_uniform(rng, 0) for _ in range(20_000)])
    assert 0 <= uniform.min() < 0.001 < 0.999 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    between = np.array([next_between(rng, 0, -3.0, -1.0) for _ in range(2_000)])
    assert -3 <= between.min() < -2.98 < -1.02 < between.max() < -1
    counts = np.bincount([next_below(rng, 0, 5) for _ in range(10_000)], minlength=5)
    assert len(counts) == 5
    assert abs(counts - 2_000).max() < 200


def test_streams_differ_by_seed_and_place_and_not_by_how_many_there_are():
    few, many, other = streams(1, 3), streams(1, 1_000), streams(2, 1_000)
    np.testing.assert_array_equal(few, many[:3])
    assert len({*many.tolist(), *other.tolist()}) == 2_000
