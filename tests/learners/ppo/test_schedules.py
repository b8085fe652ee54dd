"""Schedules of PPO's learning rate and clip range."""

import pytest

from mosaic.learners.ppo.algorithm import schedule_factor


@pytest.mark.parametrize(("left", "factor"), [(1.0, 1.0), (0.5, 0.5), (0.02, 0.02), (0.001, 0.02), (0.0, 0.02)])
def test_a_linear_schedule_falls_to_a_floor(left, factor):
    assert schedule_factor("linear", left) == factor
    assert schedule_factor("constant", left) == 1.0
