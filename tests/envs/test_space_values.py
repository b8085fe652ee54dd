"""Members of spaces as plain JSON and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import FormatError
from mosaic.core.turn import digest_value
from mosaic.envs.space_values import value_from_json, value_to_json

BOX = spaces.Box(-1, 1, (2, 3), np.float32)
DICT = spaces.Dict({"a": BOX, "b": spaces.Tuple((spaces.Discrete(4, start=-2), spaces.Text(5)))})
ALL = [
    BOX,
    DICT,
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary((2, 2)),
    spaces.Box(0, 255, (4, 4, 1), np.uint8),
    spaces.Box(-np.inf, np.inf, (), np.float64),
]


@given(st.sampled_from(ALL), st.integers(0, 2**31))
def test_a_member_survives_json(space, seed):
    space.seed(seed)
    member = space.sample()
    text = json.dumps(value_to_json(member), allow_nan=False)
    found = value_from_json(space, json.loads(text), "here")
    assert space.contains(found)
    assert digest_value(found) == digest_value(member)


def test_numbers_that_json_lacks():
    space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    written = value_to_json(np.array([np.nan, -np.inf, 2], np.float32))
    assert written == ["NaN", "-Infinity", 2.0]
    np.testing.assert_array_equal(value_from_json(space, written, "here"), np.array([np.nan, -np.inf, 2], np.float32))


@pytest.mark.parametrize(
    ("space", "data", "text"),
    [
        (BOX, [[0, 0, 0]], r"here: an array of shape \(1, 3\), where one of shape \(2, 3\) belongs"),
        (BOX, [[0, 0, 0], [0, 0]], r"here: not an array of shape \(2, 3\)"),
        (BOX, None, r"here: an array of shape \(\)"),
        (BOX, [["a", 0, 0], [0, 0, 0]], r"here: .*'a'.*, where numbers belong"),
        (BOX, [[{}, 0, 0], [0, 0, 0]], r"here: .* where numbers belong"),
        (spaces.Discrete(4), 1.5, r"here: 1\.5, where an integer belongs"),
        (spaces.Discrete(4), None, r"here: None, where an integer belongs"),
        (spaces.MultiDiscrete([3, 2]), [0.5, 1], r"here: fractions, where integers belong"),
        (spaces.MultiDiscrete([3, 2]), [1e30, 1], r"here: a number outside"),
        (spaces.Box(0, 255, (2,), np.uint8), [300, 1], r"here: a number outside 0\.\.255"),
        (spaces.Box(0, 255, (2,), np.uint8), ["NaN", 1], r"here: .*, where numbers belong"),
        (DICT, {"a": 1}, r"here: an object without b; it has a, b"),
        (DICT, {"a": 1, "b": 2, "c": 3}, r"here: an object with unknown c; it has a, b"),
        (DICT, 3, r"here: 3, where an object with a, b belongs"),
        (DICT["b"], [1], r"here: \[1\], where a list of 2 belongs"),
        (DICT["b"], [1, 2], r"here\.1: 2, where a text belongs"),
        (spaces.Sequence(BOX), [], r"members of Sequence spaces cannot be read"),
    ],
)
def test_what_is_no_member_is_named_with_its_place(space, data, text):
    with pytest.raises(FormatError, match=text):
        value_from_json(space, data, "here")


def test_an_object_of_an_env_has_no_json_form():
    with pytest.raises(FormatError, match=r"^a Discrete cannot be written as JSON$"):
        value_to_json({"space": spaces.Discrete(2)})
