"""A full disk: a clear failure, nothing that was written before is harmed, and the run can go on.

On a small file system of its own where mounting is allowed, and everywhere by a limit on the size of files.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mosaic.runs import state_file
from mosaic.runs.launch import StartError
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.errors import StorageError
from mosaic.store.state import State
from tests.runs.run_cases import asked_of, assert_no_gap, eventually, first_event, toy

DISK_MB = 2
FILE_LIMIT = 512 << 10


def _mount(place: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "mosaic-test", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _unmount(place: Path) -> None:
    """As soon as the last process has let go of it."""
    command = ["umount", str(place)]
    assert eventually(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0)


def _may_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["which", "mount"], capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["file size", "small disk"] if _may_mount() else ["file size"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """What the system will say. The store is on the small disk, or its files may not grow."""
    home = tmp_path / "home"
    home.mkdir()
    if request.param == "small disk" and _mount(home):
        yield "No space left on device"
        _unmount(home)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, hard))
    try:
        yield "File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_checkpoint_that_finds_no_room(full: str, trainer: Trainer, rogue: str) -> None:
    run = trainer.submit(asked_of(rogue, "heavy", {"megabytes": DISK_MB}))
    assert run.wait(60) is State.FAILED
    assert f"The checkpoint at 3 env steps could not be written: {full}. The one at 2 is intact." in run.reason
    assert [checkpoint.env_steps for checkpoint in run.checkpoints()] == [1, 2]
    assert find_checkpoint(run.folder, "latest").env_steps == 2
    assert_no_gap(run)
    assert run.record().attempts[0].exit == 1


def test_metrics_that_find_no_room(full: str, trainer: Trainer, rogue: str) -> None:
    run = trainer.submit(asked_of(rogue, "heavy"))
    assert run.wait(60) is State.FAILED
    assert full in run.reason
    assert "was not stored; all before it were" in run.reason
    assert_no_gap(run)
    assert run.folder.metrics.read_bytes().endswith(b"}\n")
    assert find_checkpoint(run.folder, "latest").env_steps == 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A store on a disk that can be filled to the last byte."""
    home = tmp_path / "home"
    home.mkdir()
    if not _mount(home):
        pytest.skip("a whole disk can only be filled where mounting is allowed; the tests above stand in for it")
    yield home
    _unmount(home)


def test_the_end_is_written_on_a_disk_without_one_free_byte(small_disk: Path, trainer: Trainer) -> None:
    run = trainer.submit(toy(iteration_s=0.05))
    first_event(run)
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"f" * 4096)
    assert run.wait(60) is State.FAILED
    assert "No space left on device" in run.reason
    assert_no_gap(run)
    (small_disk / "filler").unlink()
    run.resume()
    assert eventually(lambda: run.state is State.RUNNING)
    run.stop()
    assert_no_gap(run)
    assert [attempt.exit for attempt in run.record().attempts] == [1, 3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_start_that_finds_no_room_says_why(tmp_path: Path) -> None:
    """A supervisor that cannot even write its log."""
    code = (
        "import os, sys; from pathlib import Path; from mosaic.runs.daemonize import detach; "
        "detach(Path(sys.argv[1])); os.dup2(os.open('/dev/full', os.O_WRONLY), 2); "
        "raise OSError(28, 'No space left on device')"
    )
    log = tmp_path / "supervisor.log"
    ended = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"The run could not be started: No space left on device (see {log})\n"


def test_a_queued_run_whose_stop_cannot_be_written_says_so_at_once(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer.submit(toy(100), start=False)

    def no_room(folder: object, state: object) -> None:
        raise StorageError("'state.json' could not be written: No space left on device.")

    monkeypatch.setattr(state_file, "write_state", no_room)
    with pytest.raises(StorageError, match=f"^The run {run.id} stays queued: .* type: mosaic runs stop {run.id}$"):
        run.stop()
    assert run.state is State.QUEUED
    monkeypatch.undo()
    run.stop()
    assert run.state is State.STOPPED


def test_a_resume_that_finds_no_room_leaves_the_attempt_before_as_it_was(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer.submit(toy(1_000_000, iteration_s=0.01))
    first_event(run)
    run.stop()
    before = run.record()
    (run.folder.path / ".reserve").mkdir()  # in the way of the room that an attempt is given
    with pytest.raises(StartError, match="has no room for a run"):
        run.resume()
    assert run.record() == before
