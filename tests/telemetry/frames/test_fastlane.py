"""What a frame writer and its readers promise each other, in one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.core.system import PORTABLE
from mosaic.telemetry.frames import paths as fastlane_place
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.ring_file import open_ring
from mosaic.telemetry.frames.writer import FrameWriter
from tests.telemetry import fastlane_programs as programs
from tests.telemetry.frames.fastlane_kit import GREY, files


def test_a_frame_arrives_once_with_its_numbers(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        assert reader.read() is None
        for step in (1, 2, 3):
            programs.publish(writer, step, programs.SMALL)
        frame = reader.read()
        assert frame is not None
        assert (frame.number, frame.step, frame.agent) == (3, 3, "agent_0")  # the newest, not the oldest
        assert programs.fault(frame) == ""
        assert frame.wall_time > 1.7e9
        assert reader.read() is None
        programs.publish(writer, 4, programs.SMALL)
        again = reader.read()
        assert again is not None
        assert again.number == 4
        assert programs.fault(frame) == ""  # a copy


def test_each_reader_gets_every_frame_for_itself(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as one, FrameReader(folder) as other:
        writer.publish(GREY)
        assert one.read() is not None
        assert other.read() is not None
        one.close()
        writer.publish(GREY)
        frame = other.read()
        assert frame is not None
        assert frame.number == 2


@pytest.mark.filterwarnings("ignore:overflow")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    colour=st.booleans(),
    step=st.integers(-(2**63), 2**63 - 1),
    agent=st.text(max_size=300),
    reward=st.floats(),
)
def test_any_picture_and_any_numbers_come_back(
    folder: Path, shape: tuple[int, int], colour: bool, step: int, agent: str, reward: float
) -> None:
    whole = (*shape, 3) if colour else shape
    agent = agent.encode(errors="ignore").decode()  # lone surrogates are no text
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        writer.publish(programs.picture(7, whole), step=step, agent=agent, reward=reward)
        frame = reader.read()
    assert frame is not None
    assert np.array_equal(frame.pixels, programs.picture(7, whole))
    assert frame.step == step
    assert frame.reward == reward or (np.isnan(reward) and np.isnan(frame.reward))
    assert agent.startswith(frame.agent)
    assert frame.agent == agent or len(frame.agent.encode()) > 252


@pytest.mark.parametrize("turn", [np.flipud, np.fliplr, np.asfortranarray, lambda rgb: rgb.transpose(1, 0, 2)])
def test_rows_may_lie_anyhow_in_memory(folder: Path, turn: object) -> None:
    rgb = turn(programs.picture(5, (20, 30, 3)))  # type: ignore[operator]
    rgb.flags.writeable = False
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        writer.publish(rgb)
        frame = reader.read()
    assert frame is not None
    assert np.array_equal(frame.pixels, rgb)


def test_numbers_may_be_numpys(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        writer.publish(GREY, step=np.int64(3), env=np.uint8(2), reward=np.float32(0.5), ret=4)  # type: ignore[arg-type]
        frame = reader.read()
    assert frame is not None
    assert (frame.step, frame.env, frame.reward, frame.ret) == (3, 2, 0.5, 4.0)


@pytest.mark.parametrize(
    ("rgb", "said"),
    [
        (np.zeros((3, 4, 3)), r"An array of float64 and shape \(3 × 4 × 3\) is not a picture. Give uint8"),
        (np.zeros((3, 4, 4), np.uint8), r"uint8 and shape \(3 × 4 × 4\)"),
        (np.zeros(5, np.uint8), r"shape \(5\)"),
        (np.zeros((0, 4), np.uint8), r"shape \(0 × 4\)"),
    ],
)
def test_what_is_no_picture_is_refused_and_the_next_one_is_shown(folder: Path, rgb: object, said: str) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        with pytest.raises(InputError, match=said):
            writer.publish(rgb)  # type: ignore[arg-type]
        writer.publish(np.zeros((3, 4, 3), np.uint8))
        with pytest.raises(InputError, match="int8 and shape"):
            writer.publish(np.zeros((3, 4, 3), np.int8))  # type: ignore[arg-type]
        writer.publish(np.ones((3, 4, 3), np.uint8))
        frame = reader.read()
        assert frame is not None
        assert frame.number == 2
        assert frame.pixels.min() == 1


def test_frames_may_change_their_size(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        reader.look()
        shapes = [(60, 80, 3), (30, 40, 3), (120, 160, 3), (120, 160), (480, 640, 3), (1, 1)]
        for step, shape in enumerate(shapes, 1):
            programs.publish(writer, step, shape)
            frame = reader.read()
            assert frame is not None
            assert frame.pixels.shape == shape
            assert programs.fault(frame) == ""
            assert reader.state() == "live"
        assert writer.request() is not None  # the reader is known in the new ring too
    assert files(folder) == []


def test_a_reader_that_slept_through_a_larger_ring_learns_how_it_ended(folder: Path) -> None:
    readers = []
    writer = FrameWriter(folder)
    for size in (10, 20, 30):
        readers.append(FrameReader(folder))
        writer.publish(np.zeros((size, size), np.uint8))
    writer.close()
    for reader in readers:
        assert reader.state() == "finished"
    assert readers[0].read() is None  # its ring never held one
    late = FrameReader(folder)
    assert late.state() == "waiting"


@pytest.mark.skipif(PORTABLE, reason="only Linux gives back pages of a mapped file")
def test_the_memory_of_a_ring_that_was_replaced_is_given_back(folder: Path) -> None:
    with FrameWriter(folder) as writer:
        writer.publish(np.full((50, 50), 9, np.uint8))
        reader, ring = FrameReader(folder), open_ring(folder)
        assert ring is not None
        assert ring.pixels(1, 2500).all()
        writer.publish(np.full((60, 60), 9, np.uint8))
        assert not ring.pixels(1, 2500).any()
        frame = reader.read()
        assert frame is not None
        assert frame.number == 2


def test_a_ring_for_a_large_picture_stays_below_four_megabytes(folder: Path) -> None:
    with FrameWriter(folder) as writer:
        assert sum(path.stat().st_size for path in files(folder)) == 4096
        programs.publish(writer, 1, programs.LARGE)
        (path,) = files(folder)
        if fastlane_place.SHARED_MEMORY.is_dir():
            assert path.parent.parent == fastlane_place.SHARED_MEMORY
        assert path.stat().st_size < 4_000_000
        assert path.stat().st_blocks * 512 < 4_000_000
        assert path.stat().st_mode & 0o777 == 0o600
