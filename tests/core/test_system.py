"""System calls of Linux and their portable forms: both do the same."""

from __future__ import annotations

import mmap
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mosaic.core import proc, system

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
AMPLE_S = 60.0


@pytest.fixture(params=[False, True], ids=["here", "portable"], autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Each test with the calls of this system, and with those that every system has."""
    if request.param:
        monkeypatch.setattr(system, "PORTABLE", True)
        monkeypatch.setattr(proc, "PORTABLE", True)
    return bool(request.param)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPER) as process:
        yield process
        process.kill()


def test_a_handle_tells_when_its_process_ends(sleeper: subprocess.Popen[bytes]) -> None:
    handle = system.open_process(sleeper.pid)
    try:
        assert not proc.wait_gone(handle, 0.1)
        system.send_signal(handle, sleeper.pid, signal.SIGKILL)
        assert proc.wait_gone(handle, AMPLE_S)
        assert sleeper.wait(AMPLE_S) == -signal.SIGKILL
    finally:
        os.close(handle)
    with pytest.raises(ProcessLookupError):
        system.open_process(sleeper.pid)


def test_a_process_of_another_user_has_a_handle(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    handle = system.open_process(sleeper.pid)
    try:
        assert not proc.wait_gone(handle, 0.1)
    finally:
        os.close(handle)
        monkeypatch.undo()  # the fixture kills the process


def test_a_terminal_that_was_closed_on_the_other_side(form: bool) -> None:
    ours, terminal = os.openpty()
    waiting = threading.Thread(target=system.wait_for_hangup, args=(terminal,), daemon=True)
    waiting.start()
    try:
        waiting.join(0.1)
        assert waiting.is_alive()
    finally:
        os.close(ours)
    waiting.join(AMPLE_S)
    assert not waiting.is_alive()
    os.close(terminal)


def test_a_closed_handle_leaves_no_thread(sleeper: subprocess.Popen[bytes]) -> None:
    os.close(system.open_process(sleeper.pid))
    for thread in threading.enumerate():
        if thread.name == f"process {sleeper.pid}":
            thread.join(AMPLE_S)
            assert not thread.is_alive()


def test_a_closed_handle_is_noticed_where_poll_reports_only_what_it_was_asked_for(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS; Linux reports a closed pipe in any case."""
    real = select.poll

    class Poll:
        def __init__(self) -> None:
            self._poll, self._masks = real(), dict[int, int]()

        def register(self, file: int, mask: int) -> None:
            self._masks[file] = mask
            self._poll.register(file, mask)

        def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
            return [(file, found) for file, found in self._poll.poll(timeout_ms) if self._masks[file]]

    monkeypatch.setattr(system.select, "poll", Poll)
    near = system.open_process(sleeper.pid)
    os.close(near)
    threads = [thread for thread in threading.enumerate() if thread.name == f"process {sleeper.pid}"]
    for thread in threads:
        thread.join(AMPLE_S)
    left = [thread for thread in threads if thread.is_alive()]
    sleeper.kill()  # ends them in any case
    assert left == []


def test_a_limit_that_the_system_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    code = "import sys; from mosaic.core import system; print(system.limit_address_space(1 << 40))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in (["True\n"] if sys.platform == "linux" else ["True\n", "False\n"])
    monkeypatch.setattr(system.resource, "setrlimit", refuse)
    assert not system.limit_address_space(1 << 40)


@pytest.mark.parametrize("limit", [-1, 64])
def test_files_are_closed_even_if_their_number_has_no_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "sysconf", lambda _: limit)
    monkeypatch.setattr(os, "closerange", lambda first, end: closed.append((first, end)))
    system.close_files_from(3)
    assert closed == [(3, 64 if limit == 64 else 65536)]


def test_a_file_without_a_name() -> None:
    with os.fdopen(system.anonymous_file(), "r+b") as file:
        file.truncate(1000)
        assert os.fstat(file.fileno()).st_nlink == 0
        assert file.read() == bytes(1000)


def test_facts_of_a_process(sleeper: subprocess.Popen[bytes]) -> None:
    me = proc.read_stat(sleeper.pid)
    assert me is not None
    assert (me.alive, me.parent) == (True, os.getpid())
    assert proc.started_at(sleeper.pid) == me.started
    assert sleeper.pid in set(proc.pids())
    assert "time.sleep(600)" in proc.command_line(sleeper.pid)
    sleeper.kill()
    proc.wait_unreaped(sleeper.pid)  # a zombie from now on
    assert proc.started_at(sleeper.pid) is None
    sleeper.wait(AMPLE_S)
    assert proc.read_stat(sleeper.pid) is None
    assert (proc.command_line(sleeper.pid), list(proc.open_files(sleeper.pid))) == ("", [])


def test_a_stepped_clock_moves_no_start(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil shifts the time of day of a start with the clock, and what is recorded must stay the same process."""
    before = proc.started_at(sleeper.pid)
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3600)
    assert proc.started_at(sleeper.pid) == before


def test_environment_and_files_of_a_process(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    code = f"file = open({str(opened)!r}, 'w'); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "MARK": "x"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert b"MARK=x" in proc.environment(process.pid)
        assert str(opened) in set(proc.open_files(process.pid))
        process.communicate(b"\n")


def test_one_of_two_gets_a_lock_and_a_test_does_not_take_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, two, reader = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(3))
    try:
        assert not system.is_locked(reader)
        assert system.take_lock(one)
        assert system.is_locked(reader)
        assert not system.take_lock(two)
        os.close(one)
        assert not system.is_locked(reader)
        assert system.take_lock(two)
    finally:
        os.close(two)
        os.close(reader)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import os, sys, time; from mosaic.core import system; system.PORTABLE = bool(int(sys.argv[2]));"
        "print(system.take_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)), flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, path, str(int(system.PORTABLE))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"True\n"
            mine = os.open(path, os.O_RDWR)
            assert system.is_locked(mine)
        finally:
            holder.kill()
        holder.wait(AMPLE_S)
        assert system.take_lock(mine)
        os.close(mine)


def test_room_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "room"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    system.allocate(file, 200_000)
    assert path.stat().st_size == 200_000
    assert path.stat().st_blocks * 512 >= 200_000
    with mmap.mmap(file, 200_000) as memory:
        memory[10] = 1
        assert memory[10] == 1
    os.close(file)


@pytest.mark.parametrize("portable", ["0", "1"])
def test_a_program_ends_with_its_parent(portable: str) -> None:
    """The parent is killed; its program, which would print and wait for ever, is gone soon."""
    code = (
        "import os, subprocess, sys; from mosaic.core import parent_death;"
        "command = [sys.executable, '-I', '-S', parent_death.__file__, str(os.getpid()), sys.executable, '-S', '-c',"
        "'import os, time; print(os.getpid(), flush=True); time.sleep(600)'];"
        "subprocess.Popen(command).wait()"
    )
    environment = {**os.environ, "MOSAIC_PORTABLE": portable}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        program = int(parent.stdout.readline())
        parent.kill()
        parent.wait(AMPLE_S)
        # The program has inherited the pipe: its end is the end of the program, and of nothing else.
        assert select.select([parent.stdout], [], [], AMPLE_S)[0]
        assert parent.stdout.read() == b""
    assert program > 0


def test_few_modules_make_calls_that_linux_alone_has() -> None:
    root = Path(system.__file__).parents[1]
    allowed = {"core/system.py", "core/proc.py", "core/parent_death.py", "core/machine.py", "envs/godot/names.py"}
    words = ("pidfd_", "prctl", "sigtimedwait", "F_OFD_", "posix_fallocate", "MADV_REMOVE", "sched_getaffinity(")
    words += ("waitid(", "SO_PEERCRED", "memfd_create", "RLIMIT_AS", '"\\0mosaic')
    found = {
        f"{path.relative_to(root)}: {word}"
        for path in root.rglob("*.py")
        if str(path.relative_to(root)) not in allowed
        for word in words
        if word in path.read_text()
    }
    assert found == set()
