"""Observations through `frame_stack`, `normalise` and `flatten`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Space
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn, digest_value
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.wrappers.observation import flattened, normalised, stack
from mosaic.envs.wrappers.registry import wrap
from mosaic.envs.wrappers.transform import Transform
from tests.envs.wrapper_toys import PICTURE, VECTOR, Nursery, Rotation, lookups, play


@given(num=st.integers(1, 5), space=st.sampled_from([PICTURE, VECTOR, Box(0, 1, (2, 3), np.int8), Box(0, 1, ())]))
@settings(deadline=None, max_examples=25)
def test_frames_are_each_agents_own_last_ones_padded_with_its_first(num: int, space: Box) -> None:
    env, bare = wrap(Nursery(space), [f"frame_stack:num={num}"]), Nursery(space)
    for seed in (1, 2):  # the second episode remembers nothing of the first
        seen: dict[AgentID, list[Any]] = {}
        for before, after in zip(play(bare, seed), play(env, seed), strict=True):
            for (agent, frame), (_, stacked) in zip(lookups(before), lookups(after), strict=True):
                mine = seen.setdefault(agent, [frame] * num)
                mine.append(frame)
                assert np.array_equal(stacked, stack(mine[-num:]))
                assert env.observation_spaces[agent].contains(stacked)


def test_where_frames_are_stacked() -> None:
    shapes = {(4,): (2, 4), (6, 8): (2, 6, 8), (6, 8, 3): (6, 8, 6), (): (2,), (2, 3, 4, 5): (2, 2, 3, 4, 5)}
    for shape, stacked in shapes.items():
        assert stack([np.zeros(shape), np.ones(shape)]).shape == stacked
    assert stack([np.zeros((1, 1, 2)), np.ones((1, 1, 2))]).tolist() == [[[0, 0, 1, 1]]]  # the newest comes last


def test_in_a_turn_based_game_frames_are_an_agents_own_turns() -> None:
    env, bare = wrap(Rotation(VECTOR), ["frame_stack:num=2"]), Rotation(VECTOR)
    turns, plain = play(env), play(bare)
    first, second = plain[1].observations["b"], plain[4].observations["b"]
    assert np.array_equal(turns[1].observations["b"], [first, first])
    assert np.array_equal(turns[4].observations["b"], [first, second])
    assert np.array_equal(turns[6].final_observations["b"], [second, plain[6].final_observations["b"]])


class Watching(Transform):
    """Knows of every last look whether somebody still holds it."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.held: list[weakref.ref[Any]] = []

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        turn = self.env.step(actions)
        self.held += map(weakref.ref, turn.final_observations.values())
        return turn


def test_the_frames_of_the_dead_are_let_go() -> None:
    inner = Watching(Nursery())
    env = wrap(inner, ["frame_stack"])
    assert play(env)[-1].over
    gc.collect()
    assert env.agents == ()  # the wrapper itself is still here
    assert [reference() is None for reference in inner.held] == [True, True, True]


def test_frame_stack_refuses_what_is_no_box() -> None:
    env = make_env("gym/FrozenLake-v1")
    with pytest.raises(InputError) as caught:
        wrap(env, ["frame_stack"])
    assert str(caught.value) == (
        "The wrapper 'frame_stack' takes Box observations. For other spaces, put 'flatten' before it. "
        "In gym/FrozenLake-v1, 'agent_0' sees Discrete(16)."
    )
    assert wrap(env, ["flatten", "frame_stack"]).observation_spaces["agent_0"].shape == (4, 16)
    env.close()


BOARD = Box(0, 1, (5,), np.bool_)  # type: ignore[arg-type]  # Gymnasium takes it, and chess has it


@pytest.mark.parametrize("space", [PICTURE, Box(-3, 4, (2,), np.int64), BOARD])
def test_whole_numbers_become_shares_that_can_be_told_apart(space: Box) -> None:
    view = normalised(space)
    low, high = int(space.low.flat[0]), int(space.high.flat[0])
    shares = [view.see(np.full(space.shape, value, space.dtype)).flat[0] for value in range(low, high + 1)]
    assert shares == sorted(set(shares))
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert view.space == Box(0.0, 1.0, space.shape, np.float32)
    assert [round(float(share) * (high - low)) + low for share in shares] == list(range(low, high + 1))


@given(
    bounds=st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted),
    share=st.floats(0.0, 1.0),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_bounded_floats_become_minus_one_to_one(bounds: list[float], share: float, dtype: Any) -> None:
    low, high = dtype(bounds[0]), dtype(bounds[1])
    space = Box(low, high, (1,), dtype)
    view = normalised(space)
    value = np.clip(np.array([low + dtype(share) * (high - low)], dtype), low, high)
    seen = view.see(value)
    assert view.space.contains(seen)
    if high - low > 1e-3:
        wanted = 2 * (float(value[0]) - float(low)) / (float(high) - float(low)) - 1
        assert seen[0] == pytest.approx(wanted, abs=1e-6)
        assert [view.see(end)[0] for end in (space.low, space.high)] == pytest.approx([-1.0, 1.0])
    if high == low:
        assert seen[0] == 0.0


def test_an_env_that_leaves_its_own_bounds_is_cut_off_at_them() -> None:
    view = normalised(Box(-2.0, 2.0, (2,), np.float32))
    assert view.see(np.array([-7.0, 7.0], np.float32)).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("high", [np.inf, np.finfo(np.float32).max])
def test_without_bounds_the_learner_has_to_normalise(high: float) -> None:
    with pytest.raises(InputError) as caught:
        normalised(Box(0.0, np.array([1.0, high], np.float32), dtype=np.float32))
    assert str(caught.value) == (
        "The wrapper 'normalise' scales by the bounds of the space, and these are infinite here. Leave it out and "
        "let the learner normalise observations: it measures their mean and variance while it trains."
    )


def test_normalise_names_the_env_and_the_agent() -> None:
    env = make_env("gym/CartPole-v1")
    with pytest.raises(InputError, match=r"are infinite here.* In gym/CartPole-v1, 'agent_0' sees Box\(\[-4\.8"):
        wrap(env, ["normalise"])
    env.close()
    with pytest.raises(InputError, match=r"scales Box observations by their bounds\. For other spaces, put 'flatten'"):
        normalised(spaces.Discrete(3))


leaves: st.SearchStrategy[Space[Any]] = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
    st.builds(lambda sizes: spaces.MultiDiscrete(sizes), st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.sampled_from(
        [VECTOR, Box(0, 255, (2, 2, 1), np.uint8), Box(-1, 1, (2,), np.int8), Box(-np.inf, np.inf, (3,), np.float64)]
    ),
)
nested = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda members: spaces.Tuple(members)),
        st.dictionaries(st.sampled_from("pqr"), parts, min_size=1).map(lambda members: spaces.Dict(members)),
    ),
    max_leaves=5,
)


@given(space=nested, seed=st.integers(0, 1000))
@settings(deadline=None)
def test_any_space_becomes_a_row_that_still_holds_everything(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    member = space.sample()
    view = flattened(space)
    row = view.see(member)
    assert isinstance(view.space, Box)
    assert view.space.dtype == row.dtype == np.float32
    assert view.space.contains(row)
    back = spaces.unflatten(space, row)
    assert digest_value(_rounded(back)) == digest_value(_rounded(member))


def _rounded(value: Any) -> Any:
    """float32 keeps about seven digits."""
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return np.asarray(value).astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0


def test_one_of_n_is_one() -> None:
    assert flattened(spaces.Discrete(4, start=2)).see(3).tolist() == [0, 1, 0, 0]
    assert flattened(spaces.Discrete(4)).see(np.array(3)).tolist() == [0, 0, 0, 1]


def test_beyond_float32_lies_infinity() -> None:
    view = flattened(Box(-1e300, 1e300, (1,), np.float64))
    assert view.space.contains(view.see(np.array([1e200])))


def test_flatten_refuses_what_has_no_fixed_size() -> None:
    space = spaces.Sequence(spaces.Discrete(3))
    with pytest.raises(InputError) as caught:
        wrap(Rotation(space), ["flatten"])
    assert str(caught.value) == (
        "The wrapper 'flatten' takes observations of one fixed size: Box, Discrete, MultiDiscrete, MultiBinary, Text, "
        f"and Dict, Tuple or OneOf of these. In python:unnamed, 'a' sees {space}."
    )
