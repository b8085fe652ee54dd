"""Members of spaces as whole numbers and back."""

from __future__ import annotations

import itertools
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.core.turn import digest_value
from mosaic.envs.codes import MOST_STATES, space_code
from tests.envs.codes.space_strategies import discrete_spaces


def batch(space: Space[Any], members: list[Any]) -> Any:
    return concatenate(space, members, create_empty_array(space, len(members)))


def same(left: Any, right: Any) -> bool:
    return digest_value(left) == digest_value(right)


@given(space=discrete_spaces, draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5))
@settings(deadline=None, max_examples=150)
def test_decoding_is_the_inverse_of_encoding(space: Space[Any], draws: list[float]) -> None:
    code = space_code(space)
    assert code.size == math.prod(code.counts)
    indices = [0, code.size - 1, *(int(draw * code.size) for draw in draws)]
    members = [code.decode(index) for index in indices]
    assert all(space.contains(member) for member in members)
    assert [code.encode(member) for member in members] == indices
    batched = batch(space, members)
    assert code.encode_batch(batched).tolist() == indices
    assert same(code.decode_batch(indices), batched)
    assert code.encode_batch(code.decode_batch(np.array(indices))).tolist() == indices


@given(space=discrete_spaces, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_encoding_is_the_inverse_of_decoding(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    code, member = space_code(space), space.sample()
    assert same(code.decode(code.encode(member)), member)


def test_the_first_part_weighs_most() -> None:
    code = space_code(MultiDiscrete([2, 3, 4]))
    for digits in itertools.product(range(2), range(3), range(4)):
        assert code.encode(digits) == np.ravel_multi_index(digits, (2, 3, 4))
    assert code.counts == (2, 3, 4)
    nested = space_code(Tuple((Discrete(2), Dict({"b": Discrete(4), "a": Discrete(3)}))))
    assert nested.encode((1, {"b": 3, "a": 2})) == 1 * 12 + 2 * 4 + 3  # Gymnasium sorts the keys of a Dict


def test_blackjack_is_numbered_through() -> None:
    code = space_code(gymnasium.make("Blackjack-v1").observation_space)
    assert code.size == 32 * 11 * 2
    assert code.encode((20, 5, True)) == code.encode((np.int64(20), np.array(5), 1)) == (20 * 11 + 5) * 2 + 1


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3), np.array(3, np.int32)])
def test_a_discrete_value_may_be_any_integer(value: Any) -> None:
    index = space_code(Discrete(4, start=1)).encode(value)
    assert index == 2
    assert type(index) is int


@pytest.mark.parametrize(
    ("space", "value", "text"),
    [
        (Discrete(4), 4, "4 is not in Discrete(4): it should be a whole number from 0 to 3."),
        (Discrete(4), -1, "-1 is not in Discrete(4): it should be a whole number from 0 to 3."),
        (Discrete(4), 1.0, "1.0 is not in Discrete(4): it should be a whole number from 0 to 3."),
        (Discrete(4), None, "None is not in Discrete(4): it should be a whole number from 0 to 3."),
        (
            Discrete(4, start=2),
            np.array([3]),
            "array([3]) is not in Discrete(4, start=2): it should be a whole number from 2 to 5.",
        ),
        (MultiDiscrete([2, 3]), [1, 3], "[1, 3] is not in MultiDiscrete([2 3]): 3 should be from 0 to 2."),
        (
            MultiDiscrete([2, 3]),
            [1, 2, 0],
            "[1, 2, 0] is not in MultiDiscrete([2 3]): it should be an array of whole numbers in the shape (2,).",
        ),
        (
            MultiBinary(2),
            [[0], [1, 1]],
            "[[0], [1, 1]] is not in MultiBinary(2): it should be an array of whole numbers in the shape (2,).",
        ),
        (MultiBinary(2), np.array([0, 2]), "array([0, 2]) is not in MultiBinary(2): 2 should be from 0 to 1."),
        (
            Tuple((Discrete(2), Discrete(2))),
            (1,),
            "(1,) is not in Tuple(Discrete(2), Discrete(2)): it should be a tuple of 2.",
        ),
        (
            Dict({"a": Discrete(2)}),
            {"b": 1},
            "{'b': 1} is not in Dict('a': Discrete(2)): it should be a dict of 'a'.",
        ),
    ],
)
def test_what_is_not_in_the_space_is_refused(space: Space[Any], value: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        space_code(space).encode(value)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("space", "values", "text"),
    [
        (Discrete(4), [0, 7, 9], r"^7 is not in Discrete\(4\)"),
        (Discrete(4), [0.0, 1.0], "it should be a row of whole numbers from 0 to 3"),
        (MultiDiscrete([2, 3]), [[0, 0], [1, 5]], "5 should be from 0 to 2"),
        (MultiBinary(2), [0, 1], r"a batch should hold whole numbers in the shape \(N, \*\(2,\)\)"),
        (Tuple((Discrete(2), Discrete(2))), ([0, 1], [1]), r"equal lengths of at least 1 \(got \[1, 2\]\)"),
        (Box(0, 1, (2,)), [[0.0, math.nan]], "NaN lies in no bin"),
        (Box(0, 1, (2,)), [0.0, 0.5], r"a batch should hold numbers in the shape \(N, \*\(2,\)\)"),
    ],
)
def test_a_batch_with_a_stranger_is_refused(space: Space[Any], values: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        space_code(space, 4).encode_batch(values)


@pytest.mark.parametrize("index", [-1, 6, 10**30, 1.0, "1", None])
def test_what_is_no_index_is_refused(index: Any) -> None:
    for space in (Discrete(6), MultiDiscrete([2, 3]), Tuple((Discrete(2), Discrete(3))), Box(0, 5, (), np.int8)):
        with pytest.raises(InputError, match="is not an index"):
            space_code(space, 6).decode(index)
        with pytest.raises(InputError, match=r"is not an index|is not a row of indices"):
            space_code(space, 6).decode_batch([index])


def test_more_states_than_64_bits_hold_need_another_table() -> None:
    with pytest.raises(InputError) as caught:
        space_code(MultiBinary(63))
    assert str(caught.value) == (
        "MultiBinary(63) has 9,223,372,036,854,775,808 states, and at most 9,223,372,036,854,775,807 can be numbered "
        "here. Use a sparse (hashed) table, which keeps only the visited states."
    )
    with pytest.raises(InputError, match=r"has about 10\^19117 states, .* visited states, or fewer bins\.$"):
        space_code(Box(0, 255, (84, 84, 3), np.uint8), 8)
    with pytest.raises(InputError, match="has 6 states, and at most 5 can be numbered"):
        space_code(Discrete(6), most=5)
    assert space_code(Discrete(6), most=6).size == 6
    last = space_code(MultiBinary(62))
    assert last.encode([1] * 62) == 2**62 - 1 == last.encode_batch([[1] * 62])[0]


@given(flags=st.lists(st.booleans(), min_size=84, max_size=84))
@settings(deadline=None, max_examples=30)
def test_without_a_limit_codes_stay_exact(flags: list[bool]) -> None:
    code = space_code(Tuple((MultiBinary(84), Discrete(3))), most=None)
    assert code.size == 3 * 2**84 > MOST_STATES
    member = (np.array(flags, np.int8), 2)
    index = code.encode(member)
    assert index == 3 * int("".join("01"[flag] for flag in flags), 2) + 2
    assert same(code.decode(index), member)
    with pytest.raises(InputError, match=r"cannot be encoded in batches\. Encode them one by one"):
        code.encode_batch(([member[0]], [2]))
