"""Checkpoints that are written while others read, and what a process that died while writing leaves behind."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mosaic.store import checkpoints
from mosaic.store.checkpoints import find_checkpoint, list_checkpoints
from tests.store.store_cases import steps_of, write


def names(run):
    return sorted(os.listdir(run.checkpoints))


def test_a_dead_writers_folder_is_cleared_away_and_never_read(run):
    write(run, 100)
    shutil.copytree(run.checkpoints / "100", run.checkpoints / ".tmp-deadbeef-1")
    (run.checkpoints / ".trash-1").mkdir()
    assert steps_of(list_checkpoints(run)) == [100]
    write(run, 200)
    assert names(run) == ["100", "200"]


def test_death_in_the_middle_of_a_replacement_loses_nothing(run):
    write(run, 100)
    (run.checkpoints / "100").rename(run.checkpoints / ".old-100")
    assert find_checkpoint(run).env_steps == 100
    write(run, 200)
    assert names(run) == ["100", "200"]
    shutil.copytree(run.checkpoints / "200", run.checkpoints / ".old-200")
    assert steps_of(list_checkpoints(run)) == [100, 200]
    write(run, 300)
    assert names(run) == ["100", "200", "300"]


@pytest.mark.parametrize("killed_at", range(1, 9))
def test_a_process_killed_at_any_rename_leaves_a_whole_checkpoint(run, killed_at):
    """Every rename, fsync of a folder and removal is a moment to die at."""
    write(run, 100, data=b"old")
    program = (
        "import os, shutil, signal, sys; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2]); from tests.store.store_cases import write\n"
        "from mosaic.store.run_folder import RunFolder\n"
        "left = [int(sys.argv[3])]\n"
        "def mortal(f):\n"
        "    def call(*a, **k):\n"
        "        left[0] -= 1\n"
        "        if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return f(*a, **k)\n"
        "    return call\n"
        "Path.rename, os.fsync, shutil.rmtree = mortal(Path.rename), mortal(os.fsync), mortal(shutil.rmtree)\n"
        "write(RunFolder(Path(sys.argv[1])), 100, data=b'new')"
    )
    here = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", program, str(run.path), here, str(killed_at)], check=False)
    found = find_checkpoint(run)
    assert found.env_steps == 100
    assert (found.path / "net" / "weights.bin").read_bytes() in (b"old", b"new")
    write(run, 200)
    assert names(run) == ["100", "200"]


def test_a_reader_always_finds_one_while_the_writer_replaces_and_removes(run):
    """Each new one removes the one before; every second one replaces its like."""
    write(run, 0, keep_last=1, keep_best=0)
    with ThreadPoolExecutor(1) as writer:
        steps = [step for step in range(1, 20) for _ in range(2)]
        writing = writer.submit(
            lambda: [
                write(run, step, seq=seq, data=bytes([seq]) * 100_000, keep_last=1, keep_best=0)
                for seq, step in enumerate(steps, 1)
            ]
        )
        seen = [0]
        while not writing.done():
            found = find_checkpoint(run)
            assert found.skipped == ()
            seen.append(found.env_steps)
        writing.result()
    assert seen == sorted(seen)
    assert find_checkpoint(run).env_steps == 19


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_not_called_damaged(run, monkeypatch):
    """Between the two renames of a replacement there is no folder of that name."""
    path, read = write(run, 5, data=b"old"), checkpoints.read_checkpoint

    def read_in_the_gap(path):
        monkeypatch.setattr(checkpoints, "read_checkpoint", read)
        path.rename(path.with_name("away"))
        try:
            return read(path)
        finally:
            write(run, 5, data=b"new")

    monkeypatch.setattr(checkpoints, "read_checkpoint", read_in_the_gap)
    found = find_checkpoint(run)
    assert (found.path, found.skipped) == (path, ())
    assert (path / "net" / "weights.bin").read_bytes() == b"new"


def test_one_that_is_replaced_while_its_files_are_compared_is_not_called_damaged(run, monkeypatch):
    path, read, compare = write(run, 5, data=b"old"), checkpoints.read_checkpoint, checkpoints.damage

    def compare_in_the_gap(checkpoint):
        monkeypatch.setattr(checkpoints, "damage", compare)
        monkeypatch.setattr(checkpoints, "read_checkpoint", read_in_the_gap)
        path.rename(path.with_name("away"))
        return compare(checkpoint)

    def read_in_the_gap(path):
        monkeypatch.setattr(checkpoints, "read_checkpoint", read)
        try:
            return read(path)
        finally:
            write(run, 5, data=b"new")

    monkeypatch.setattr(checkpoints, "damage", compare_in_the_gap)
    found = find_checkpoint(run)
    assert (found.path, found.skipped) == (path, ())
    assert (path / "net" / "weights.bin").read_bytes() == b"new"
