"""Members of spaces as whole numbers and back."""

from __future__ import annotations

import itertools
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.config.loading import apply_overrides
from mosaic.core.errors import InputError
from mosaic.core.turn import digest_value
from mosaic.envs.codes import MOST_STATES, Bins, flatten_mask, read_bins, space_code

small = st.integers(1, 4)
starts = st.integers(-3, 3)
leaves: st.SearchStrategy[Space[Any]] = st.one_of(
    st.builds(lambda n, start: Discrete(n, start=start), small, starts),
    st.lists(st.tuples(small, starts), min_size=1, max_size=3).map(
        lambda pairs: MultiDiscrete([n for n, _ in pairs], start=[start for _, start in pairs])
    ),
    st.builds(lambda n, start: MultiDiscrete([[n, 2], [1, 3]], start=[[start, 0], [5, 1]]), small, starts),
    st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 2), st.integers(1, 2))).map(MultiBinary),
)
discrete_spaces = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(Tuple),
        st.dictionaries(st.sampled_from(["b", "a", "c"]), parts, min_size=1, max_size=3).map(Dict),
    ),
    max_leaves=4,
)
bounded_boxes = st.one_of(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 9)), min_size=1, max_size=3).map(
        lambda ends: Box(np.array([a for a, _ in ends]), np.array([a + b for a, b in ends]), dtype=np.int64)
    ),
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0.5, 9)), min_size=1, max_size=3).map(
        lambda ends: Box(np.array([a for a, _ in ends]), np.array([a + b for a, b in ends]), dtype=np.float64)
    ),
    st.sampled_from([Box(0, 1, (2, 2), np.bool_), Box(-1, 1, ()), Box(0, 255, (3,), np.uint8)]),
)


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
