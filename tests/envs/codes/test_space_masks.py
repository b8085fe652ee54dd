"""Masks of actions as masks of whole numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.envs.codes import flatten_mask, space_code
from tests.envs.codes.space_strategies import discrete_spaces


def per_digit(counts: tuple[int, ...], draw: st.DataObject) -> list[np.ndarray[Any, Any]]:
    flags = st.integers(0, 1)
    return [np.array(draw.draw(st.lists(flags, min_size=n, max_size=n)), np.int8) for n in counts]


@given(space=discrete_spaces, data=st.data())
@settings(deadline=None, max_examples=100)
def test_an_index_is_allowed_when_all_its_digits_are(space: Space[Any], data: st.DataObject) -> None:
    code = space_code(space)
    masks = per_digit(code.counts, data)
    flat = flatten_mask(code, np.concatenate(masks))
    assert flat.dtype == np.bool_
    digits = itertools.product(*map(range, code.counts))
    assert flat.tolist() == [all(mask[digit] for mask, digit in zip(masks, one, strict=True)) for one in digits]
    assert flatten_mask(code, None).tolist() == [True] * code.size


def test_masks_may_be_nested_as_the_space_is() -> None:
    grid = MultiDiscrete([[2, 3], [1, 2]])
    code = space_code(Tuple((Dict({"a": Discrete(2), "b": MultiBinary(2)}), grid, Discrete(2, start=5))))
    nested = ({"b": ([1, 0], (1, 1)), "a": [True, False]}, (([0, 1], [1, 0, 1]), ((1,), None)), None)
    flat = [1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1]
    assert np.array_equal(flatten_mask(code, nested), flatten_mask(code, flat))
    legal = [code.decode(index) for index in np.flatnonzero(flatten_mask(code, nested))]
    assert len(legal) == 1 * 2 * 1 * 2 * 2 * 2
    assert all(one[0]["a"] == 0 and one[0]["b"][0] == 0 and one[1][0, 0] == 1 and one[1][0, 1] != 1 for one in legal)


def test_gymnasium_samples_what_the_flat_mask_allows() -> None:
    space = MultiDiscrete([3, 4], seed=1)
    masks = (np.array([1, 0, 1], np.int8), np.array([0, 1, 1, 0], np.int8))
    code = space_code(space)
    sampled = {code.encode(space.sample(mask=masks)) for _ in range(200)}
    assert sampled == set(np.flatnonzero(flatten_mask(code, masks)).tolist()) == {1, 2, 9, 10}


def test_stacked_masks_are_masks_of_each_digit() -> None:
    code = space_code(MultiDiscrete([2, 2]))
    assert flatten_mask(code, np.array([[True, False], [True, True]])).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("space", "mask", "text"),
    [
        (Discrete(3), [1, 0], "[1, 0] is not a mask of Discrete(3): it should be 3 flags."),
        (Discrete(3), [1, 0, 2], "[1, 0, 2] is not a mask of Discrete(3): it should be 3 flags."),
        (
            MultiDiscrete([2, 3]),
            [1, 0, 1, 1],
            "[1, 0, 1, 1] is not a mask of MultiDiscrete([2 3]): it should be 5 flags (2 + 3).",
        ),
        (
            MultiDiscrete([2, 3]),
            ([1, 0],),
            "([1, 0],) is not a mask of MultiDiscrete([2 3]): it should be masks in tuples of the shape (2,).",
        ),
        (
            MultiDiscrete([2, 3]),
            ([1, 0], [1, 0]),
            "[1, 0] is not a mask of MultiDiscrete([2 3]): it should be 3 flags.",
        ),
        (
            Tuple((Discrete(2), Discrete(2))),
            ([1, 0],),
            "([1, 0],) is not a mask of Tuple(Discrete(2), Discrete(2)): it should be a tuple of 2.",
        ),
        (
            Dict({"a": Discrete(2)}),
            {"b": None},
            "{'b': None} is not a mask of Dict('a': Discrete(2)): it should be a dict of 'a'.",
        ),
        (
            MultiBinary(40),
            None,
            (
                "A mask over MultiBinary(40) would have 1,099,511,627,776 entries, and 67,108,864 is the most: "
                "give the action fewer choices."
            ),
        ),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(space: Space[Any], mask: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        flatten_mask(space_code(space), mask)
    assert str(caught.value) == text
