"""Statistics of tabular training."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.learners.tabular.statistics import TrainingStatistics


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 1000)), min_size=1, max_size=50))
def test_statistics_are_those_of_the_episodes(episodes: list[tuple[float, int]]) -> None:
    statistics = TrainingStatistics()
    for reward, steps in episodes:
        statistics.add_episode(reward, steps)
    statistics.add_time(sum(steps for _, steps in episodes), 2.0)
    returns, lengths = np.array(episodes).T
    summary = statistics.summary()
    assert summary["total_episodes"] == len(episodes)
    assert summary["mean_reward"] == pytest.approx(returns.mean(), abs=1e-6)
    assert summary["std_reward"] == pytest.approx(returns.std(), abs=1e-3)
    assert (summary["min_reward"], summary["max_reward"]) == (returns.min(), returns.max())
    assert summary["mean_episode_length"] == pytest.approx(lengths.mean())
    assert summary["mean_step_time"] == pytest.approx(2.0 / lengths.sum())
    assert summary["total_training_time"] == 2.0


def test_no_episode_has_no_mean() -> None:
    assert math.isnan(TrainingStatistics().summary()["mean_reward"])
