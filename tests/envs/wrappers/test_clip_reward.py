"""Which part of a reward `clip_reward` pays."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from mosaic.envs.catalog import make_env
from mosaic.envs.wrappers.limits import ClipRewardOptions, clipping
from mosaic.envs.wrappers.registry import wrap
from tests.envs.wrapper_toys import Rotation, play


@given(reward=st.floats(allow_nan=False), low=st.floats(max_value=0.0), high=st.floats(min_value=0.0))
def test_clipped_rewards_stay_within_and_leave_alone_what_already_is(reward: float, low: float, high: float) -> None:
    clip = clipping(ClipRewardOptions(low=low, high=high))
    assert low <= clip(reward) <= high
    assert clip(clip(reward)) == clip(reward)
    assert clip(0.0) == 0.0
    if low <= reward <= high:
        assert clip(reward) == reward


def test_signs_and_what_is_not_a_number() -> None:
    sign, clip = clipping(ClipRewardOptions(sign=True)), clipping(ClipRewardOptions())
    assert [sign(reward) for reward in (-7.0, -0.1, 0.0, 0.1, math.inf)] == [-1.0, -1.0, 0.0, 1.0, 1.0]
    assert math.isnan(sign(math.nan))
    assert math.isnan(clip(math.nan))


def test_rewards_of_who_waits_are_clipped_too() -> None:
    env = wrap(Rotation(), ["clip_reward:high=3"])
    turns = play(env)
    assert [turn.rewards for turn in turns] == [dict.fromkeys("abc", float(min(step, 3))) for step in range(7)]
    assert all(type(reward) is float for turn in turns for reward in turn.rewards.values())


def test_the_cliff_costs_one_like_any_step() -> None:
    env = wrap(make_env("gym/CliffWalking-v1"), ["clip_reward"])
    env.reset(0)
    assert env.step({"agent_0": 1}).rewards == {"agent_0": -1.0}  # to the right lies the cliff: -100
    env.close()
