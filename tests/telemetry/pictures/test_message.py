"""Frame messages: what is packed is read again, and what cannot be read is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mosaic.core.errors import FormatError
from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.pictures.message import VERSION, pack, unpack

sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))
drawings = sizes.flatmap(lambda size: arrays.arrays(np.uint8, (*size, 3), elements=st.sampled_from((0, 7, 255))))
frames = st.builds(
    Frame,
    number=st.integers(1, 2**62),
    pixels=drawings,
    step=st.integers(0, 2**62),
    episode=st.integers(0, 2**62),
    env=st.integers(0, 2**31),
    agent=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    wall_time=st.floats(0, 1e10),
    reward=st.floats(),
    ret=st.floats(),
)


@given(frames, st.sampled_from(("waiting", "live", "stalled", "finished", "writer died")))
@settings(max_examples=60)
def test_a_message_is_its_frame_again(frame: Frame, state: str) -> None:
    message = unpack(pack(state, frame))  # type: ignore[arg-type]
    again = message.frame()
    assert again is not None
    assert message.facts.state == state
    assert (message.facts.height, message.facts.width) == frame.pixels.shape[:2]
    assert np.array_equal(again.pixels, frame.pixels)
    assert (again.number, *again[2:7]) == (frame.number, *frame[2:7])
    for value, was in zip(again[7:], frame[7:], strict=True):
        assert value == was if np.isfinite(was) else np.isnan(value)  # JavaScript reads neither NaN nor infinity


def test_a_photograph_comes_back_nearly_the_same() -> None:
    y, x = np.mgrid[0:90, 0:120]
    photograph = np.stack([x * 2, y * 2, x + y], axis=2).astype(np.uint8)
    message = unpack(pack("live", Frame(1, photograph, 0, 0, 0, "", 0.0, 0.0, 0.0)))
    again = message.frame()
    assert again is not None
    assert message.facts.format == "jpeg"
    assert np.abs(again.pixels.astype(int) - photograph).mean() < 4


def test_a_drawing_that_is_too_wide_for_webp_is_sent_as_jpeg() -> None:
    message = unpack(pack("live", Frame(1, np.zeros((1, 16_384, 3), np.uint8), 0, 0, 0, "", 0.0, 0.0, 0.0)))
    assert (message.facts.format, message.facts.width) == ("jpeg", 16_384)


def test_a_state_has_no_picture() -> None:
    message = unpack(pack("stalled"))
    assert (message.facts.state, message.picture, message.frame()) == ("stalled", b"", None)


@given(st.binary(max_size=40))
def test_bytes_that_are_not_a_message_are_refused(data: bytes) -> None:
    for message in (data, bytes([VERSION]) + data):
        with pytest.raises(FormatError, match="The server sent a picture"):
            unpack(message)


def test_another_version_is_refused_and_both_are_named() -> None:
    message = bytes([VERSION + 1]) + pack("live")[1:]
    with pytest.raises(FormatError, match=rf"of version {VERSION + 1}; this Mosaic reads version {VERSION}\. Install"):
        unpack(message)
    with pytest.raises(FormatError, match="is incomplete"):
        unpack(pack("live")[:-1])
