"""Calls in JSON and MessagePack: arrays come back bit for bit, anything damaged is one typed error."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mosaic.core.errors import FormatError
from mosaic.policies.serving import messages
from mosaic.policies.serving.messages import CallError, GetAction, encode, read_calls, read_document

DTYPES = st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">f4", ">i2"])
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))


@given(ARRAYS)
def test_arrays_survive_the_binary_form(array):
    call = {"call": "get_action", "episode_id": "a", "observation": array}
    read = read_calls(encode(call, binary=True), binary=True)
    assert isinstance(read, GetAction)
    assert read.observation.shape == array.shape
    assert read.observation.dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(read.observation, array)


@given(ARRAYS, st.data())
def test_a_truncated_binary_message_is_an_error_and_never_a_crash(array, data):
    body = encode([{"call": "get_action", "episode_id": "a", "observation": array}], binary=True)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(CallError, match="is not a call in MessagePack"):
        read_calls(body[:cut], binary=True)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_call_or_an_error(body):
    for binary in (False, True):
        with suppress(CallError):
            read_calls(body, binary=binary)
    with suppress(FormatError):
        messages.unpack_array(body)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"<f4\x01\x03\x00\x00\x00" + bytes(8), r"shape \(3,\) and float32 has 12 bytes, and 8 came"),
        (b"<f4\x02\xff\xff\xff\xff\xff\xff\xff\xff", r"has \d+ bytes, and 0 came"),
        (b"|O8\x00", r"an array of '\|O8' is not one of"),
        (b"<f4\x09", r"is not one of"),
        (b"<f4\x02\x01", r"without its shape"),
    ],
)
def test_damaged_arrays_are_refused(payload, text):
    with pytest.raises(FormatError, match=text):
        messages.unpack_array(payload)


def test_other_extensions_and_objects_are_refused():
    body = msgspec.msgpack.encode({"call": "get_action", "episode_id": "a", "observation": msgspec.msgpack.Ext(4, b"")})
    with pytest.raises(CallError, match="the extension type 4 is not known"):
        read_calls(body, binary=True)
    with pytest.raises(FormatError, match="a object cannot be sent"):
        encode({"a": object()}, binary=True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "JSON"),
        ('{"call": "get_action"}', "missing required field `episode_id`"),
        ('{"call": "get_acton", "episode_id": "a"}', "Invalid value 'get_acton'"),
        ('{"call": "get_action", "episode_id": "a", "observatoin": 1}', "unknown field `observatoin`"),
        ('{"call": "get_action", "episode_id": 3}', r"Expected `str`, got `int` - at `\$.episode_id`"),
        ('{"call": "get_action", "episode_id": "a", "observation": NaN}', "malformed"),
        ("[" * 5000, "JSON"),
        ('{"call": "get_action", "episode_id": "a", "observation": ' + "[" * 100_000, "JSON"),
        (json.dumps([{"call": "forget", "episode_id": "a", "agent": "b"}] * 1025), "has 1025 calls"),
    ],
)
def test_messages_that_are_not_calls_say_where(body, text):
    with pytest.raises(CallError, match=text) as caught:
        read_calls(body)
    assert (caught.value.status, caught.value.retry) == (400, None)


def test_a_route_knows_its_call_and_takes_lists():
    one, two = read_calls('[{"episode_id": "a"}, {"call": "get_action", "episode_id": "b"}]', name="get_action")
    assert (one.episode_id, two.episode_id) == ("a", "b")
    with pytest.raises(CallError, match="Invalid value 'forget'"):
        read_calls('{"call": "forget", "episode_id": "a", "agent": "x"}', name="get_action")


def test_replies_name_numbers_that_json_lacks():
    reply = {"action": np.array([np.nan, np.inf, 1.5])}
    assert json.loads(encode(reply)) == {"action": ["NaN", "Infinity", 1.5]}
    np.testing.assert_array_equal(read_document(encode(reply, binary=True), binary=True)["action"], reply["action"])


def test_an_error_is_a_document_with_what_to_do_next():
    error = CallError("episode_lost", "Gone \ud800.", agent="red", expected="Box(4) float32")
    assert error.document() == {
        "error": "Gone \\ud800.",
        "code": "episode_lost",
        "retry": "episode",
        "status": 410,
        "agent": "red",
        "expected": "Box(4) float32",
    }
