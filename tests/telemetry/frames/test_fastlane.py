"""What a frame writer and its readers promise each other, in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.telemetry.frames import paths as fastlane_place
from mosaic.telemetry.frames.fences import put_word
from mosaic.telemetry.frames.layout import PHASE_AT, READERS, VERSION, RingPhase, head_for
from mosaic.telemetry.frames.paths import remove_ring, ring_paths, unfinished
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.ring_file import open_ring
from mosaic.telemetry.frames.writer import FrameWriter
from tests.telemetry import fastlane_programs as programs

GREY = np.arange(12, dtype=np.uint8).reshape(3, 4)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    remove_ring(tmp_path)


def files(folder: Path) -> list[Path]:
    return [each for path in ring_paths(folder) for each in (path, unfinished(path)) if each.exists()]


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
        assert path.parent.parent == fastlane_place.SHARED_MEMORY
        assert path.stat().st_size < 4_000_000
        assert path.stat().st_blocks * 512 < 4_000_000
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_states_of_a_lane(folder: Path) -> None:
    clock = Clock()
    reader = FrameReader(folder, clock)
    assert reader.state() == "waiting"
    writer = FrameWriter(folder, clock)
    reader.look()
    clock.pass_s(100)
    assert reader.state() == "waiting"  # alive, and nothing to see yet
    writer.publish(GREY)
    assert reader.state() == "live"
    clock.pass_s(2)
    assert reader.state() == "live"
    clock.pass_s(0.1)
    assert reader.state() == "stalled"
    writer.publish(GREY)
    assert reader.state() == "live"
    reader.look(rate=0.1)
    clock.pass_s(29)
    assert reader.state() == "live"  # three intervals
    writer.close()
    assert reader.state() == "finished"
    assert reader.read() is not None  # the last picture stays
    assert reader.state() == "finished"
    with pytest.raises(MosaicError, match="This frame writer is closed; create a new one"):
        writer.publish(GREY)
    assert not writer.wanted()
    writer.close()


def test_an_old_picture_is_not_yet_live(folder: Path) -> None:
    clock = Clock()
    with FrameWriter(folder) as writer:
        writer.publish(GREY)
        reader = FrameReader(folder, clock)
        assert reader.state() == "waiting"
        assert reader.read() is not None
        clock.pass_s(3)
        assert reader.state() == "stalled"
        writer.publish(GREY)
        assert reader.state() == "live"


def test_a_writer_that_fails_has_died(folder: Path) -> None:
    reader = FrameReader(folder)
    writer = FrameWriter(folder)
    assert reader.state() == "waiting"
    with pytest.raises(ZeroDivisionError), writer:
        raise ZeroDivisionError
    assert reader.state() == "writer died"
    assert files(folder) == []


def test_a_reader_goes_on_with_the_next_attempt(folder: Path) -> None:
    with FrameWriter(folder) as writer:
        reader = FrameReader(folder)
        reader.look(env=3)
        for step in range(1, 9):
            programs.publish(writer, step, programs.SMALL)
        assert reader.read() is not None
    assert reader.state() == "finished"
    with FrameWriter(folder) as second:
        assert reader.state() == "waiting"
        assert reader.read() is None
        assert second.request() == pytest.approx(FrameRequest(30, 3, 1))
        programs.publish(second, 1, programs.SMALL)
        frame = reader.read()
        assert frame is not None
        assert frame.number == 1


def test_nothing_is_wanted_until_somebody_looks_and_then_at_the_rate_asked_for(folder: Path) -> None:
    clock = Clock()
    with FrameWriter(folder, clock) as writer, FrameReader(folder, clock) as reader:
        assert not writer.wanted()
        assert writer.request() is None
        reader.read()
        assert not writer.wanted()  # who only reads what is there asks for nothing
        reader.look(rate=10)
        drawn = 0
        for _ in range(200):
            clock.pass_s(0.02)
            reader.read()  # keeps on asking
            drawn += writer.wanted()
        assert drawn in (40, 41)  # 4 s
        clock.pass_s(2)
        assert writer.wanted()
        clock.pass_s(0.2)
        assert not writer.wanted()  # nobody looked for more than 2 s
        assert writer.request() is None
        reader.look(rate=10)
        assert writer.wanted()
        reader.close()
        clock.pass_s(1)
        assert not writer.wanted()


def test_a_rate_that_the_writer_cannot_meet_exactly_is_met_on_average(folder: Path) -> None:
    clock = Clock()
    with FrameWriter(folder, clock) as writer, FrameReader(folder, clock) as reader:
        reader.look(rate=30)
        assert writer.wanted()
        drawn = 0
        for _ in range(500):  # 10 s
            clock.pass_s(0.02)
            reader.read()
            drawn += writer.wanted()
        assert 298 <= drawn <= 301


def test_the_fastest_rate_counts_and_the_last_change_of_mind(folder: Path) -> None:
    clock = Clock()
    with FrameWriter(folder, clock) as writer, FrameReader(folder, clock) as one, FrameReader(folder, clock) as other:
        one.look(rate=50, env=1)
        clock.pass_s(0.001)
        other.look(rate=1, env=2, grid=4)
        assert writer.request() == pytest.approx(FrameRequest(1, 2, 4))
        clock.pass_s(0.001)
        one.look(rate=50, env=1)  # looks again, asks for nothing else
        assert writer.request() == pytest.approx(FrameRequest(1, 2, 4))
        assert writer.wanted()
        clock.pass_s(0.02)
        assert writer.wanted()
        one.look(rate=50, env=5)
        assert writer.request() == pytest.approx(FrameRequest(50, 5, 1))


def test_more_readers_than_areas_are_served(folder: Path) -> None:
    clock = Clock()
    with FrameWriter(folder, clock) as writer:
        readers = [FrameReader(folder, clock) for _ in range(READERS + 3)]
        for _ in range(3):
            for reader in readers:
                clock.pass_s(0.01)
                reader.look()
                assert writer.request() is not None
        writer.publish(GREY)
        assert all(reader.read() is not None for reader in readers)
        for reader in readers[1:]:
            reader.close()
        clock.pass_s(1)
        readers[0].look(env=9)
        assert writer.request() == pytest.approx(FrameRequest(30, 9, 1))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rate": 0}, "Pictures at 0 a second are not possible; ask for 0.01 to 1000."),
        ({"rate": float("nan")}, "Pictures at nan a second"),
        ({"env": -1}, "There is no grid of 1 envs from env -1;"),
        ({"grid": 0}, "There is no grid of 0 envs from env 0;"),
    ],
)
def test_impossible_wishes_are_refused(folder: Path, asked: dict[str, float], said: str) -> None:
    with FrameReader(folder) as reader, pytest.raises(InputError, match=said):
        reader.look(**asked)  # type: ignore[arg-type]


def test_two_runs_do_not_see_each_other(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    with FrameWriter(one) as first, FrameWriter(other) as second, FrameReader(one) as reader, FrameReader(other) as far:
        reader.look()
        assert first.wanted()
        assert not second.wanted()
        first.publish(GREY)
        second.publish(GREY, step=2)
        second.publish(GREY, step=3)
        frames = reader.read(), far.read()
        assert [frame and frame.step for frame in frames] == [0, 3]


def test_the_name_is_that_of_the_folder_however_it_is_written(folder: Path) -> None:
    link = folder / "link"
    link.symlink_to(folder)
    assert ring_paths(link) == ring_paths(folder) == ring_paths(folder / "x" / "..")


def test_without_shared_memory_the_ring_is_in_the_run_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastlane_place, "SHARED_MEMORY", folder / "none")
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        programs.publish(writer, 1, programs.SMALL)
        assert [path.name for path in folder.iterdir()] == ["frames.ring"]
        frame = reader.read()
        assert frame is not None
        assert programs.fault(frame) == ""
    assert list(folder.iterdir()) == []


def test_where_shared_memory_is_full_the_ring_moves_to_the_run_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = os.posix_fallocate

    def full(file: int, start: int, size: int) -> None:
        if size > 4096 and os.readlink(f"/proc/self/fd/{file}").startswith(str(fastlane_place.SHARED_MEMORY)):
            raise OSError(28, "No space left on device")
        room(file, start, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        reader.look()
        programs.publish(writer, 1, programs.SMALL)
        assert files(folder) == [folder.resolve() / "frames.ring"]
        frame = reader.read()
        assert frame is not None
        assert programs.fault(frame) == ""
        assert writer.request() is not None


def test_no_room_anywhere_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        MosaicError, match=r"no room for live pictures \(0.0 MB\). Tried /.*No space left.*; /.*No space"
    ):
        FrameWriter(folder)
    assert files(folder) == []


def test_what_a_dead_writer_left_is_replaced_or_removed(folder: Path) -> None:
    for path in ring_paths(folder):
        path.write_bytes(head_for(0, 2**22 + 1, 5, 6).pack().ljust(4096, b"\0"))
        unfinished(path).write_bytes(b"half a ring")
    reader = FrameReader(folder)
    assert reader.state() == "writer died"
    with FrameWriter(folder) as writer:
        assert len(files(folder)) == 1
        writer.publish(GREY)
        assert reader.read() is not None
        assert reader.state() == "live"
    for path in ring_paths(folder):
        path.write_bytes(b"rest")
        unfinished(path).write_bytes(b"half a ring")
    remove_ring(folder)
    assert files(folder) == []
    remove_ring(folder)
    remove_ring(folder / "never" / "was")


def test_a_process_that_took_over_the_writers_number_is_not_the_writer(folder: Path) -> None:
    path = ring_paths(folder)[0]
    path.write_bytes(head_for(0, os.getpid(), 1, 6).pack().ljust(4096, b"\0"))
    assert FrameReader(folder).state() == "writer died"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a frame ring. Remove it"),
        (b"x" * 5000, "is not a frame ring. Remove it"),
        (
            head_for(0, 1, 1, 1)._replace(version=VERSION + 1).pack().ljust(4096, b"\0"),
            "has version 2 of the frame ring, but this Mosaic reads version 1. Watch with the version",
        ),
        (head_for(100, 1, 1, 1).pack().ljust(4096, b"\0"), "is damaged: its sizes are inconsistent"),
        (head_for(0, 1, 1, 1)._replace(slots=4).pack().ljust(4096, b"\0"), "is damaged: its sizes"),
    ],
)
def test_a_file_that_is_no_ring_is_refused(folder: Path, content: bytes, said: str) -> None:
    ring_paths(folder)[0].write_bytes(content)
    with pytest.raises(FormatError, match=said):
        FrameReader(folder)


def test_a_link_in_shared_memory_is_not_followed(folder: Path) -> None:
    target = folder / "precious"
    target.write_bytes(head_for(0, 1, 1, 1).pack().ljust(4096, b"\0"))
    ring_paths(folder)[0].symlink_to(target)
    with pytest.raises(MosaicError, match=r"cannot be opened: /.* Only the user who started the run can watch it."):
        FrameReader(folder)
    with FrameWriter(folder) as writer:
        writer.publish(GREY)
    assert target.stat().st_size == 4096


def test_a_forged_phase_is_damage(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        reader.look()
        writer.publish(GREY)
        ring = open_ring(folder)
        assert ring is not None
        put_word(ring.address + PHASE_AT, 77)
        with pytest.raises(FormatError, match=r"is damaged: there is no phase 77\.$"):
            reader.state()
        ring.enter(RingPhase.WRITING)
