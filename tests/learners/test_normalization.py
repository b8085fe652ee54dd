from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mosaic.learners.normalization import RunningMoments


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 1000))
def test_batches_give_the_moments_of_the_whole(sizes: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    batches = [generator.normal(3.0, 2.0, (size, 4)) for size in sizes]
    moments = RunningMoments.of_width(4)
    for batch in batches:
        moments.merge(batch.sum(axis=0), (batch * batch).sum(axis=0), len(batch))
    everything = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, everything.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(moments.var, everything.var(axis=0), rtol=1e-6, atol=1e-9)
    again = RunningMoments.from_arrays("x", moments.to_arrays("x"))
    np.testing.assert_array_equal(again.scale, moments.scale)
    assert again.count == moments.count


def test_nothing_seen_changes_nothing() -> None:
    moments = RunningMoments.of_width(2)
    moments.merge(np.zeros(2), np.zeros(2), 0)
    assert moments.shift.tolist() == [0, 0]
    assert moments.scale.round(6).tolist() == [1, 1]
