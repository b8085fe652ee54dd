"""Past steps are drawn as promised, and training is summed up rightly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.replay import PrioritisedReplayBuffer, ReplayBuffer
from mosaic.learners.tabular.statistics import TrainingStatistics


def test_the_oldest_step_gives_way() -> None:
    buffer = ReplayBuffer(capacity=3)
    for state in range(5):
        buffer.add(state, 0, float(state), state + 1, state == 4)
    assert len(buffer) == 3
    sample = buffer.sample(200)
    assert set(sample.states.tolist()) == {2, 3, 4}
    assert (sample.next_states == sample.states + 1).all()
    assert (sample.rewards == sample.states).all()
    assert (sample.terminated == (sample.states == 4)).all()
    assert ReplayBuffer().capacity == 10_000


def test_large_errors_come_more_often_and_weigh_less() -> None:
    buffer = PrioritisedReplayBuffer(seed=1, alpha=1.0, beta=1.0)
    for state in range(2):
        buffer.add(state, 0, 0.0, 0, False)
    buffer.set_errors(np.array([0, 1]), np.array([1.0, -3.0]))
    sample = buffer.sample(4000)
    assert sample.states.mean() == pytest.approx(0.75, abs=0.03)
    assert sample.weights[sample.states == 0] == pytest.approx(1.0)
    assert sample.weights[sample.states == 1] == pytest.approx(1 / 3, abs=1e-5)


def test_a_new_step_is_as_urgent_as_any() -> None:
    buffer = PrioritisedReplayBuffer(alpha=1.0)
    buffer.set_errors(np.array([buffer.add(0, 0, 0.0, 0, False)]), np.array([9.0]))
    buffer.add(1, 0, 0.0, 0, False)
    assert buffer.sample(2000).states.mean() == pytest.approx(0.5, abs=0.05)


def test_samples_go_straight_into_a_table() -> None:
    buffer = ReplayBuffer(seed=2)
    buffer.add(0, 1, 1.0, 2, True)
    table = TabularLearner(3, 2)
    table.batch_update(*buffer.sample(100)[:5])
    assert table.values[0, 1] == pytest.approx(1.0, abs=1e-4)


def test_bad_buffers_are_refused() -> None:
    with pytest.raises(InputError, match=r"^capacity is 0; a replay buffer needs room for at least 1 step.$"):
        ReplayBuffer(0)
    with pytest.raises(InputError, match=r"^5 steps were asked of a replay buffer that holds 0. Add steps first.$"):
        ReplayBuffer().sample(5)
    with pytest.raises(InputError, match=r"^alpha is 2: it should be in 0..1.$"):
        PrioritisedReplayBuffer(alpha=2)
    with pytest.raises(InputError, match=r"^A priority is not a finite number.$"):
        PrioritisedReplayBuffer().set_errors(np.array([0]), np.array([np.nan]))


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
