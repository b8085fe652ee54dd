"""What is left of frames when writers and readers are processes that run at full speed and are killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO, Any

import numba
import numpy as np
import pytest

from mosaic.telemetry.frames import fences as fastlane_fences
from mosaic.telemetry.frames.paths import remove_ring, ring_paths
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.ring_file import open_ring
from mosaic.telemetry.frames.writer import FrameWriter
from tests.telemetry import fastlane_programs as programs

Program = subprocess.Popen[str]


@contextmanager
def program(*arguments: object) -> Iterator[Program]:
    command = [sys.executable, programs.__file__, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def lines(started: Program) -> IO[str]:
    assert started.stdout is not None
    return started.stdout


def tell(started: Program) -> None:
    """A writer that this is the end, a nursery to start the next."""
    assert started.stdin is not None
    started.stdin.write("\n")
    started.stdin.flush()


def last_words(reader: Program) -> dict[str, Any]:
    words: dict[str, Any] = json.loads(lines(reader).readlines()[-1])
    return words


@pytest.mark.parametrize("seconds", [pytest.param(2, marks=pytest.mark.chosen), 60])
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_reader_accepts_a_torn_an_old_or_a_second_frame(folder: Path, seconds: int) -> None:
    """A writer at full speed that changes the size of its frames, and four readers that check every byte."""
    enough, seen = (100_000 if seconds == 60 else 2_000), [0] * 4
    with program("write", folder) as writer:
        assert lines(writer).readline() == "writing\n"
        with (
            program("read", folder) as one,
            program("read", folder) as two,
            program("read", folder) as three,
            program("read", folder) as four,
        ):
            readers, until = (one, two, three, four), 0.0
            while monotonic() < until or sum(seen) < enough:
                for number, reader in enumerate(readers):
                    words = json.loads(lines(reader).readline())
                    assert words["faults"] == []
                    seen[number] = words["seen"]
                until = until or monotonic() + seconds  # from when all of them read
            tell(writer)
            ends = [last_words(reader) for reader in readers]
        assert writer.wait() == 0
    assert [words["faults"] for words in ends] == [[]] * 4
    assert all(words["ended"] for words in ends)
    assert sum(words["seen"] for words in ends) >= enough
    assert not ring_paths(folder)[0].exists()


@pytest.mark.parametrize("times", [pytest.param(10, marks=pytest.mark.chosen), 100])
@pytest.mark.slow
def test_a_writer_killed_in_the_middle_of_a_picture_leaves_whole_ones(folder: Path, times: int) -> None:
    half_written = 0
    with program("children", folder, times) as nursery, FrameReader(folder) as reader:
        for count in range(times):
            tell(nursery)
            pid = int(lines(nursery).readline())
            for _ in range(1 + count % 7):
                frame = None
                while frame is None:
                    frame = reader.read()
                assert programs.fault(frame) == ""
            os.kill(pid, signal.SIGKILL)
            while (state := reader.state()) != "writer died":
                assert state in ("waiting", "live", "stalled")  # until the signal has arrived
            reader.read()  # what it had not read yet: the next round waits for frames of the next writer
            with FrameReader(folder) as late:
                left = late.read()
            assert left is not None
            assert programs.fault(left) == ""
            assert left.number >= frame.number
            half_written += is_half_written(folder, left.number + 1)
            remove_ring(folder)
            assert not any(path.exists() for path in ring_paths(folder))
    assert half_written > 0  # or nothing was tested


def is_half_written(folder: Path, number: int) -> bool:
    """Whether the slot of a frame that never came holds parts of two."""
    ring = open_ring(folder)
    assert ring is not None
    pixels = ring.pixels(number, ring.head.capacity).astype(np.int64)
    return len(np.unique((pixels - np.arange(len(pixels))) % 251)) > 1


@pytest.mark.slow
@pytest.mark.chosen
def test_a_killed_reader_disturbs_nobody_and_is_forgotten(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as other:
        programs.publish(writer, 1, programs.SMALL)
        with program("read", folder) as reader:
            step = 1
            while not lines_ready(reader):
                step += 1
                programs.publish(writer, step, programs.SMALL)
            os.kill(reader.pid, signal.SIGKILL)
            reader.wait()
        programs.publish(writer, step + 1, programs.SMALL)
        frame = other.read()
        assert frame is not None
        assert frame.number == step + 1
        assert programs.fault(frame) == ""
        assert ring_paths(folder)[0].exists()
        with FrameReader(folder) as later:
            assert later.read() is not None


def lines_ready(started: Program) -> bool:
    return bool(select.select([lines(started)], [], [], 0)[0])


@pytest.mark.slow
def test_two_runs_at_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    with program("write", one) as first, program("write", other) as second:
        assert lines(first).readline() == lines(second).readline() == "writing\n"
        with program("read", one) as near, program("read", other) as far:
            for reader in (near, far):
                assert json.loads(lines(reader).readline())["faults"] == []
            tell(first)
            words = last_words(near)
            assert words["ended"]
            assert words["faults"] == []
            assert json.loads(lines(far).readline())["ended"] is False  # the other run goes on
            tell(second)
            assert last_words(far)["faults"] == []


@pytest.mark.parametrize("name", ["make_public", "holds", "withdraw"])
def test_the_fences_are_in_the_code_that_runs(name: str) -> None:
    """On x86 their lack would hardly ever be noticed by the tests above."""
    compiled = numba.njit(error_model="numpy")(getattr(fastlane_fences, name).py_func)
    count = {"make_public": 2, "holds": 2, "withdraw": 1}[name]
    compiled.compile((numba.int64,) * count)
    (code,) = compiled.inspect_llvm().values()
    assert code.count("fence seq_cst") == {"make_public": 2, "holds": 2, "withdraw": 1}[name]
    assert "load atomic i64" in code or "store atomic i64" in code
