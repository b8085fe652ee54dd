"""States of a frame ring as its readers see them, and the rates that they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.telemetry.frames.layout import READERS
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.writer import FrameWriter
from tests.telemetry import fastlane_programs as programs
from tests.telemetry.frames.fastlane_kit import GREY, files


class Clock:
    def __init__(self) -> None:
        self.now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


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
