"""Bins of boxes: where they lie, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.config.loading import apply_overrides
from mosaic.core.errors import InputError
from mosaic.envs.codes import Bins, read_bins, space_code
from tests.envs.codes.space_strategies import bounded_boxes


@given(box=bounded_boxes, bins=st.integers(1, 300), draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
@settings(deadline=None, max_examples=150)
def test_the_middle_of_every_bin_lies_in_it(box: Box, bins: int, draws: list[float]) -> None:
    code = space_code(box, bins)
    indices = [0, code.size - 1, *(int(draw * (code.size - 1)) for draw in draws)]
    for index in indices:
        middle = code.decode(index)
        assert box.contains(middle)
        assert code.encode(middle) == index
    assert code.encode_batch(code.decode_batch(indices)).tolist() == indices


@given(box=bounded_boxes, bins=st.integers(1, 300), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_a_batch_of_boxes_is_coded_like_its_members(box: Box, bins: int, seed: int) -> None:
    code = space_code(box, bins)
    chance = np.random.default_rng(seed)
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    values = low + chance.uniform(-0.5, 1.5, (20, *box.shape)) * (high - low)  # a quarter beyond each end
    values = np.concatenate([values, np.rint(values), [low, high]])
    assert code.encode_batch(values).tolist() == [code.encode(value) for value in values]


@given(span=st.integers(1, 400), bins=st.integers(1, 400), low=st.integers(-200, 200))
@settings(deadline=None, max_examples=100)
def test_bins_of_whole_numbers_are_in_order_and_equal_but_for_one(span: int, bins: int, low: int) -> None:
    code = space_code(Box(low, low + span - 1, (), np.int64), bins)
    assert code.size == min(span, bins)  # never more bins than numbers
    found = [code.encode(number) for number in range(low, low + span)]
    assert found == sorted(found)
    sizes = [found.count(index) for index in range(code.size)]
    assert max(sizes) - min(sizes) <= 1


def test_bins_of_floats_have_equal_width_and_the_rest_is_on_the_edges() -> None:
    code = space_code(Box(-2.0, 2.0, (), np.float64), 4)
    numbers = [-math.inf, -9.0, -2.0, -1.5, -1.0, 0.0, 0.99, 1.0, 1.99, 2.0, 9.0, math.inf]
    assert [code.encode(number) for number in numbers] == [0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 3]
    assert [float(code.decode(index)) for index in range(4)] == [-1.5, -0.5, 0.5, 1.5]
    with pytest.raises(InputError, match=r"^nan is not in Box\(-2.0, 2.0, \(\), float64\): NaN lies in no bin\.$"):
        code.encode(math.nan)


def test_the_last_number_below_the_upper_bound_is_in_the_last_bin() -> None:
    for low, high, bins in [(-1.0, 0.1, 3), (-1e9, 1e-3, 7), (0.1, 0.7, 49)]:
        code, almost = space_code(Box(low, high, (), np.float64), bins), math.nextafter(high, -math.inf)
        assert code.encode(almost) == code.encode_batch([almost])[0] == bins - 1


def test_a_number_that_cannot_change_has_one_bin() -> None:
    code = space_code(Box(np.array([0.0, 5.0]), np.array([1.0, 5.0]), dtype=np.float64), 3)
    assert code.counts == (3, 1)
    assert code.decode(code.encode(np.array([0.9, 5.0])))[1] == 5.0


def test_bins_can_be_given_one_by_one_and_with_bounds() -> None:
    space = gymnasium.make("CartPole-v1").observation_space
    code = space_code(space, [3, "4@-3..3", Bins(6), Bins(5, -2.0, 2.0)])
    assert code.counts == (3, 4, 6, 5)
    assert code.encode([0.0, 100.0, 0.0, -100.0]) == np.ravel_multi_index((1, 3, 3, 0), code.counts)
    assert space_code(Box(0.0, 1.0, (1,)), "4@0.5..9").encode([0.6]) == 0  # bounds can only be narrowed
    assert space_code(Box(0.0, 1.0, (1,)), "4@0.5..9").encode([0.9]) == 3


def test_a_list_of_bins_goes_through_all_boxes_in_order() -> None:
    space = Dict({"a": Box(0, 1, (2,)), "b": Discrete(7), "c": Tuple((Box(0, 1, ()),))})
    assert space_code(space, [2, 3, 5]).counts == (2, 3, 7, 5)
    assert space_code(space, 4).counts == (4, 4, 7, 4)


LARGEST = np.finfo(np.float32).max  # envs write it where they mean infinity
FREE = Box(np.array([-1, -np.inf, 0], np.float32), np.array([1, np.inf, LARGEST], np.float32))


@pytest.mark.parametrize(
    ("space", "bins", "text"),
    [
        (
            Box(-1, 1, (4,)),
            None,
            (
                "A table has no row for every value of a Box: cut 4 numbers into bins, "
                "for example --set training.params.bins=[8,8,8,8]"
            ),
        ),
        (
            Tuple((Discrete(2), Box(-1, 1, ()))),
            None,
            (
                "A table has no row for every value of a Box: cut one number into bins, "
                "for example --set training.params.bins=8"
            ),
        ),
        (
            FREE,
            None,
            (
                "A table has no row for every value of a Box: cut 3 numbers into bins, "
                """for example --set 'training.params.bins=[8,"8@-10..10","8@-10..10"]'"""
            ),
        ),
        (
            FREE,
            6,
            (
                "bins: number 1 (counted from 0) has no bounds, so its bins need some, "
                """for example --set 'training.params.bins=[8,"8@-10..10","8@-10..10"]'"""
            ),
        ),
        (
            Box(-np.inf, np.inf, (20,)),
            8,
            (
                "bins: number 0 (counted from 0) has no bounds, so its bins need some, "
                """for example --set 'training.params.bins="8@-10..10"'"""
            ),
        ),
        (
            Box(-1, 1, (2,)),
            [8],
            (
                "bins: 1 given for 2 numbers in Boxes. Give one for all, or one for each, "
                "for example --set training.params.bins=[8,8]"
            ),
        ),
        (Discrete(3), [8], "bins: 1 given, but the space holds no Box to cut. Leave them out."),
        (
            Box(-1, 1, (2,)),
            [8, "8@2..3"],
            "bins: number 1 (counted from 0) goes from -1 to 1, where the bins 2..3 hold nothing.",
        ),
        (Box(-1, 1, (2,)), 0, "bins: 0 is not a number of bins from 1 to 1,000,000."),
        (Box(-1, 1, (2,)), True, "bins: True is not a number of bins from 1 to 1,000,000."),
        (Box(-1, 1, (2,)), 2.5, "bins: 2.5 is not a number of bins from 1 to 1,000,000."),
        (Box(-1, 1, (2,)), "8@3..-3", "bins: the lower bound must be below the upper one (got 3..-3)."),
        (
            Box(-1, 1, (2,)),
            "8@3",
            "bins: '8@3' is neither a number of bins, such as 8, nor one with bounds, such as 8@-3..3.",
        ),
        (
            spaces.Text(3, charset="ab"),
            None,
            (
                "Text(1, 3, charset=ab) has no numbered states. "
                "Tables take Discrete, MultiDiscrete, MultiBinary, Box (by bins), and Tuple or Dict of these."
            ),
        ),
    ],
)
def test_bins_that_do_not_fit_say_what_to_type(space: Space[Any], bins: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        space_code(space, bins)
    assert str(caught.value) == text


@pytest.mark.parametrize("space", [FREE, Box(-1, 1, (4,)), Box(-np.inf, np.inf, (20,)), Box(0, 1, (2, 5), np.int8)])
def test_what_the_error_advises_works(space: Box) -> None:
    with pytest.raises(InputError) as caught:
        space_code(space)
    override = str(caught.value).partition("--set ")[2].strip("'")
    bins = apply_overrides({}, [override])["training"]["params"]["bins"]
    bins_each = 2 if space.dtype == np.int8 else 8  # there are but two whole numbers in it
    assert space_code(space, bins, most=None).counts == (bins_each,) * math.prod(space.shape)


@given(count=st.integers(1, 99), low=st.floats(-9, 9), width=st.floats(0.1, 9))
def test_bounds_are_read_as_they_are_written(count: int, low: float, width: float) -> None:
    assert read_bins(f"{count}@{low}..{low + width}") == Bins(count, low, low + width)
    assert read_bins(str(count)) == read_bins(count) == Bins(count)
