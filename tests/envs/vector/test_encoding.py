"""Observations as rows, rows as actions."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import ActionHead, RowPart, action_code, row_code

LEAVES = st.one_of(
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 6), st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.just(spaces.MultiDiscrete([3, 2], start=[-1, 5])),
    st.just(spaces.MultiDiscrete([[3, 2], [1, 4]])),
    st.builds(spaces.MultiBinary, st.sampled_from([1, 3, (2, 3)])),
    st.builds(
        lambda shape, dtype: spaces.Box(0, 3, shape, dtype),
        st.sampled_from([(), (1,), (4,), (2, 3)]),
        st.sampled_from([np.float32, np.float64, np.int8, np.uint8]),
    ),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: spaces.Tuple(parts))
        | st.dictionaries(st.sampled_from("zab"), inner, min_size=1).map(spaces.Dict)
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(SPACES, st.integers(0, 2**31))
def test_a_row_is_what_gymnasium_flattens_to(space, seed):
    space.seed(seed)
    code = row_code(space)
    assert code.width == spaces.flatdim(space) == sum(part.size for part in code.parts)
    assert [part.start for part in code.parts] == list(np.cumsum([0, *(part.size for part in code.parts)])[:-1])
    for _ in range(3):
        observation = space.sample()
        row = np.full(code.width, np.nan, np.float32)
        code.write(observation, row)
        np.testing.assert_array_equal(row, spaces.flatten(space, observation).astype(np.float32))


def test_parts_say_what_they_were():
    space = spaces.Dict({"eye": spaces.Box(0, 255, (8, 9, 3), np.uint8), "arm": spaces.Tuple([spaces.Discrete(2)])})
    assert row_code(space).parts == (RowPart("arm.0", 0, (2,), False), RowPart("eye", 2, (8, 9, 3), True))
    assert row_code(spaces.Box(0, 1, (2, 3))).parts == (RowPart("observation", 0, (2, 3), False),)


def test_pictures_become_numbers_from_0_to_1():
    code = row_code(spaces.Box(0, 255, (8, 8, 1), np.uint8))
    row = np.empty(64, np.float32)
    code.write(np.full((8, 8, 1), 51, np.uint8), row)
    assert row.tolist() == [np.float32(0.2)] * 64


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (7, 8, 3), np.uint8),
        spaces.Box(0, 1, (8, 8, 3), np.float32),
        spaces.Box(0, 1, (64, 64), np.uint8),
    ],
)
def test_boards_and_floats_are_no_pictures(space):
    assert not row_code(space).parts[0].picture


@pytest.mark.parametrize(
    ("space", "head"),
    [
        (spaces.Discrete(4, start=-2), ActionHead("categorical", (4,))),
        (spaces.MultiDiscrete([3, 2], start=[1, -1]), ActionHead("categorical", (3, 2))),
        (spaces.MultiDiscrete([[3, 2], [4, 1]]), ActionHead("categorical", (3, 2, 4, 1))),
        (spaces.MultiBinary(3), ActionHead("categorical", (2, 2, 2))),
        (spaces.Box(-1, 2, (2, 3)), ActionHead("gaussian", (6,))),
        (spaces.Box(-np.inf, np.inf, (2,), np.float64), ActionHead("gaussian", (2,))),
        (spaces.Box(0, 255, (2,), np.uint8), ActionHead("gaussian", (2,))),
    ],
)
def test_every_row_is_an_action_of_its_space(space, head):
    code = action_code(space)
    assert code.head == head
    assert (head.width, head.parts) == (sum(head.sizes), len(head.sizes) if head.kind == "categorical" else head.width)
    random = np.random.default_rng(1)
    for _ in range(50):
        if head.kind == "categorical":
            row = np.array([random.integers(n) for n in head.sizes], np.float32)
        else:
            row = random.normal(0, 100, head.parts).astype(np.float32)
        before = row.copy()
        action = code.action(row)
        assert space.contains(action), action
        if isinstance(action, np.ndarray):
            action += 1  # an env may do so, and must not reach our row
        np.testing.assert_array_equal(row, before)


def test_choices_count_from_the_start_of_the_space():
    assert action_code(spaces.Discrete(4, start=-2)).action(np.array([3], np.float32)) == 1
    several = action_code(spaces.MultiDiscrete([3, 2], start=[1, -1]))
    assert several.action(np.array([2, 0], np.float32)).tolist() == [3, -1]


def test_numbers_are_clipped_and_integers_rounded():
    row = np.array([-9, 0.75, 9], np.float32)
    assert action_code(spaces.Box(-1, 2, (3,))).action(row).tolist() == [-1, 0.75, 2]
    assert action_code(spaces.Box(-1, 2, (3,), np.int16)).action(row).tolist() == [-1, 1, 2]


@pytest.mark.parametrize(
    "space", [spaces.Dict({"a": spaces.Discrete(2)}), spaces.Text(3), spaces.Box(0, 2**40, (1,), np.int64)]
)
def test_what_a_learner_cannot_do(space):
    with pytest.raises(InputError) as raised:
        action_code(space)
    assert str(raised.value) == (
        f"A learner cannot choose actions of {space}. It can act in Discrete, MultiDiscrete, MultiBinary and Box "
        "(of floats, or of integers below 16777216): wrap the env so that its actions are one of these."
    )


def test_what_a_learner_cannot_read():
    with pytest.raises(InputError) as raised:
        row_code(spaces.Dict({"a": spaces.Text(3)}))
    assert str(raised.value) == (
        f"A learner cannot read observations of {spaces.Text(3)}. It can read Box, Discrete, MultiDiscrete, "
        "MultiBinary, and Dict or Tuple of these: wrap the env so that it shows one of them."
    )


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((84, 84, 3), (84, 84, 3)),
        ((3, 84, 84), (84, 84, 3)),
        ((1, 84, 84), (84, 84, 1)),
        ((8, 84, 96), (84, 96, 8)),
        ((8, 20, 3), (8, 20, 3)),
        ((16, 16, 20), (16, 16, 20)),
        ((84, 96), (84, 96, 1)),
    ],
)
def test_the_order_of_channels_is_recognised(shape, seen):
    code = row_code(spaces.Box(0, 255, shape, np.uint8))
    (part,) = code.parts
    assert part.picture
    assert part.shape == seen
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    row = np.empty(code.width, np.float32)
    code.write(picture, row)
    expected = picture.reshape(seen) if shape == seen or len(shape) == 2 else picture.transpose(1, 2, 0)
    np.testing.assert_array_equal(row.reshape(seen), expected / np.float32(255))


def test_a_map_of_small_numbers_is_not_a_picture():
    assert not row_code(spaces.Box(0, 5, (12, 12), np.uint8)).parts[0].picture
