"""When `time_limit` cuts an episode, and what is seen last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.turn import Turn, digest
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.wrappers.registry import wrap
from tests.envs.wrapper_toys import TICTACTOE, VECTOR, Nursery, Rotation, lookups, play


def fall_of_cartpole() -> int:
    """The env step in which the pole falls if the cart is always pushed left."""
    return len(push_left(make_env("gym/CartPole-v1"))) - 1


def push_left(env: Env) -> list[Turn]:
    turns = [env.reset(0)]
    while not turns[-1].over:
        turns.append(env.step({"agent_0": 0}))
    env.close()
    return turns


def test_a_fall_exactly_at_the_limit_has_both_flags() -> None:
    steps = fall_of_cartpole()
    bare = push_left(make_env("gym/CartPole-v1"))
    for limit, terminated, truncated in ((steps - 1, False, True), (steps, True, True), (steps + 1, True, False)):
        turns = push_left(wrap(make_env("gym/CartPole-v1"), [f"time_limit:max_steps={limit}"]))
        assert turns[-1].terminated == {"agent_0": terminated}
        assert turns[-1].truncated == {"agent_0": truncated}
        index = min(limit, steps)
        saw = dict(lookups(bare[index]))["agent_0"]
        assert np.array_equal(turns[-1].final_observations["agent_0"], saw)
        assert turns[-1].rewards == bare[index].rewards


@given(max_steps=st.integers(1, 8))
@settings(deadline=None, max_examples=20)
def test_births_and_deaths_under_a_time_limit(max_steps: int) -> None:
    env, bare = wrap(Nursery(), [f"time_limit:max_steps={max_steps}"]), Nursery()
    turns, plain = play(env), play(bare)
    assert len(turns) - 1 == min(max_steps, 6)
    assert [digest(turn) for turn in turns[:-1]] == [digest(turn) for turn in plain[: len(turns) - 1]]
    last, twin = turns[-1], plain[len(turns) - 1]
    assert env.agents == ()
    assert not last.action_masks
    assert last.terminated == twin.terminated
    assert last.truncated == (dict.fromkeys(twin.rewards, True) if max_steps <= 6 else twin.truncated)
    assert last.final_observations.keys() == last.infos.keys() == twin.rewards.keys()
    for agent, observation in lookups(twin):
        assert np.array_equal(last.final_observations[agent], observation)


def test_who_waits_at_the_limit_keeps_its_last_observation() -> None:
    board = make_env(TICTACTOE)
    env = wrap(make_env(TICTACTOE), ["time_limit:max_steps=3"])
    turns, plain = play(env), play(board)
    assert set(turns[2].observations) == {"player_1"}  # it makes the third move and waits then
    finals = turns[-1].final_observations
    assert np.array_equal(finals["player_1"], plain[2].observations["player_1"])
    assert np.array_equal(finals["player_2"], plain[3].observations["player_2"])
    assert turns[-1].truncated == {"player_1": True, "player_2": True}
    assert turns[-1].terminated == {"player_1": False, "player_2": False}
    assert turns[-1].infos.keys() == {"player_1", "player_2"}
    env.close()
    board.close()


def test_who_never_had_a_turn_ends_with_what_is_nearest_to_zero() -> None:
    env = wrap(Rotation(VECTOR), ["time_limit:max_steps=1"])
    last = play(env)[-1]
    assert last.truncated == {"a": True, "b": True, "c": True}
    assert np.array_equal(last.final_observations["c"], [0.0, 0.0, 5.0])  # the third number is never below 5


def test_a_new_episode_begins_its_time_anew() -> None:
    env = wrap(Nursery(), ["time_limit:max_steps=2"])
    first = play(env)
    with pytest.raises(RuntimeError, match=r"step\(\) after the end of the episode: call reset\(\) first"):
        env.step({})
    assert env.agents == ()
    assert [digest(turn) for turn in play(env)] == [digest(turn) for turn in first]
    env.reset(1)
    assert list(env.agents) == ["a", "b"]
