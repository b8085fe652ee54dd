"""Files of a frame ring: names, places, leftovers of dead writers, and forged ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mosaic.core.errors import FormatError, MosaicError
from mosaic.core.system import allocate
from mosaic.telemetry.frames import paths as fastlane_place
from mosaic.telemetry.frames import ring_file
from mosaic.telemetry.frames.fences import put_word
from mosaic.telemetry.frames.layout import PHASE_AT, VERSION, RingPhase, head_for
from mosaic.telemetry.frames.paths import remove_ring, ring_paths, unfinished
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.ring_file import open_ring
from mosaic.telemetry.frames.writer import FrameWriter
from tests.telemetry import fastlane_programs as programs
from tests.telemetry.frames.fastlane_kit import GREY, files


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
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused: list[int] = []

    def full(file: int, size: int) -> None:
        if size > 4096 and not refused:  # the first place that is tried
            refused.append(size)
            raise OSError(28, "No space left on device")
        allocate(file, size)

    monkeypatch.setattr(ring_file, "allocate", full)
    monkeypatch.setattr(fastlane_place, "SHARED_MEMORY", tmp_path_factory.mktemp("shared"))
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        reader.look()
        assert files(folder) == [ring_paths(folder)[0]]
        programs.publish(writer, 1, programs.SMALL)
        assert refused
        assert files(folder) == [folder.resolve() / "frames.ring"]
        frame = reader.read()
        assert frame is not None
        assert programs.fault(frame) == ""
        assert writer.request() is not None


def test_no_room_anywhere_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def full(file: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ring_file, "allocate", full)
    monkeypatch.setattr(fastlane_place, "SHARED_MEMORY", tmp_path_factory.mktemp("shared"))
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
