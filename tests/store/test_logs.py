"""The worker's log: bounded on disk, one stream of positions for its readers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.store.logs import WorkerLog
from mosaic.store.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def write(path: Path, data: bytes) -> None:
    """As a worker does, which knows nothing of rotation."""
    with path.open("ab") as file:
        file.write(data)


def test_a_log_that_is_not_there_is_empty(folder: RunFolder) -> None:
    assert WorkerLog(folder).read() == (b"", 0, 0)
    assert not WorkerLog(folder).rotate(0)


def test_positions_hold_across_rotation_and_the_size_is_bounded(folder: RunFolder) -> None:
    log = WorkerLog(folder)
    descriptor = os.open(folder.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)  # stays open, as the worker's does
    told, followed, position = b"", b"", 0
    for number in range(1000):
        line = b"line %d\n" % number
        os.write(descriptor, line)
        told += line
        if number % 7 == 0:
            part = log.read(position)
            followed, position = followed + part.data, part.end
        log.rotate(500)
        kept = sum(path.stat().st_size for path in folder.path.iterdir())
        assert kept <= 2 * (500 + len(line))
    os.close(descriptor)
    followed += log.read(position).data
    assert followed == told
    assert log.read().end == len(told)
    assert told.endswith(log.read().data)
    assert len(list(folder.path.iterdir())) == 2


def test_what_was_dropped_is_left_out(folder: RunFolder) -> None:
    log = WorkerLog(folder)
    for number in range(3):
        write(folder.log, b"%d" % number * 10)
        log.rotate(5)
    write(folder.log, b"end")
    assert log.read(0) == (b"2222222222end", 20, 33)
    assert log.read(5, 4) == (b"2222", 20, 24)
    assert log.read(28, 100) == (b"22end", 28, 33)
    assert log.read(size=2) == (b"nd", 31, 33)
    assert log.read(99) == (b"", 33, 33)


def test_stderr_has_a_file_of_its_own(folder: RunFolder) -> None:
    write(folder.log, b"out")
    write(folder.errors, b"err")
    assert WorkerLog(folder, "stderr").rotate(1)
    assert WorkerLog(folder, "stderr").read().data == b"err"
    assert WorkerLog(folder, "stdout").read() == (b"out", 0, 3)
    assert not WorkerLog(folder, "stdout")._earlier()


@given(text=st.text(max_size=40), size=st.integers(4, 9))
def test_no_character_is_torn_apart(tmp_path_factory: pytest.TempPathFactory, text: str, size: int) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("log"))
    data = text.encode(errors="replace")
    write(folder.log, data)
    log, read, position = WorkerLog(folder), "", 0
    while position < len(data):
        part, position = log.read(position, size).text()
        read += part
    assert read == data.decode()
