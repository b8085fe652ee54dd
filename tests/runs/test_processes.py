"""Which processes are found, and that none of them survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from mosaic.config.run import RunConfig
from mosaic.core.proc import wait_unreaped
from mosaic.core.system import boot_id
from mosaic.runs.processes import MARK, Row, below, end_all, is_alive, list_processes, look, marked
from mosaic.runs.resume import end_leftovers
from mosaic.store.state import Attempt, ProcessRecord, read_state
from mosaic.store.store import Store
from tests.runs.run_cases import eventually

FAMILY = """
import os, sys, time
for generation in range(int(sys.argv[1])):
    if os.fork():
        os.setsid() if generation else None
        break
os.write(1, b"here\\n")
time.sleep(600)
"""

ESCAPED = """
import os, time
if os.fork():
    os._exit(0)
os.setsid()
os.write(1, b"here\\n")
time.sleep(600)
"""


HEADLESS = """
import ctypes, os, subprocess, threading, time
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)  # exit, of this thread alone
"""


def start(program: str, *arguments: str, run_id: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, MARK: run_id} if run_id else None
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


def identities(run_id: str) -> set[Row]:
    return marked(run_id)


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    me = look(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(replace(me, start_time=me.start_time - 1))
    row = look(os.getpid())
    assert row is not None
    assert row.parent == os.getppid()
    assert row.memory_mb > 1


def test_a_process_of_an_earlier_boot_is_never_taken_for_one_of_this(tmp_path: Path) -> None:
    """Numbers and start times begin again: after a reboot another process may have both."""
    run = Store(tmp_path).create(RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1"}}))
    other = start("import time; print(flush=True); time.sleep(60)")
    try:
        row = look(other.pid)
        assert row is not None
        today = ProcessRecord(pid=row.pid, start_time=row.start_time, boot=boot_id())
        assert is_alive(today)
        assert is_alive(today.model_copy(update={"boot": ""})), "as older versions recorded it"
        before = today.model_copy(update={"boot": "00000000-0000-0000-0000-000000000000"})
        assert not is_alive(before)
        record = read_state(run).model_copy(update={"attempts": (Attempt(number=1, supervisor=before, worker=before),)})
        end_leftovers(run, record)
        assert other.poll() is None
        end_leftovers(run, record.model_copy(update={"attempts": (Attempt(number=1, worker=today),)}), grace_s=0.0)
        assert other.wait(60) == -signal.SIGKILL
    finally:
        other.kill()
        other.communicate()


def test_zombies_are_gone() -> None:
    with start("pass") as child:
        process = look(child.pid)
        wait_unreaped(child.pid)
        assert look(child.pid) is None
        assert child.pid not in list_processes()
        assert process is None or not is_alive(process)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first thread cannot end alone")
def test_children_of_a_process_whose_first_thread_ended_are_found() -> None:
    """As while a process with many threads dies: it is a zombie by then, and still their parent."""
    with start(HEADLESS) as headless:
        assert headless.stdout is not None
        child = look(int(headless.stdout.readline()))
        try:
            assert child is not None
            assert eventually(lambda: look(headless.pid) is None)
            assert child in below(os.getpid())
        finally:
            headless.kill()
            if child is not None:
                os.kill(child.pid, signal.SIGKILL)


def test_a_whole_family_is_found_and_ended() -> None:
    with start(FAMILY, "3") as child:
        assert child.stdout is not None
        for _ in range(4):
            assert child.stdout.readline() == "here\n"
        family = below(child.pid)
        assert len(family) == 3

        def find() -> set[Row]:
            root = look(child.pid)
            return below(child.pid) | ({root} if root else set()) | family

        alive = family | {find().pop()}
        assert end_all(lambda: {each for each in find() if is_alive(each)}, monotonic() + 60) == []
        assert not [process for process in alive if is_alive(process)]


def test_the_mark_finds_what_ran_away_and_spares_everybody_else() -> None:
    run_id = f"marked-{os.getpid()}"
    with start(ESCAPED, run_id=run_id) as runaway, start(ESCAPED, run_id=f"{run_id}-other") as other:
        for each in (runaway, other):
            assert each.stdout is not None
            assert each.stdout.readline() == "here\n"
            each.wait()
        (found,) = identities(run_id)
        assert found.pid not in {row.pid for row in below(os.getpid())}
        assert end_all(lambda: identities(run_id), monotonic() + 60) == []
        assert not is_alive(found)
        (spared,) = identities(f"{run_id}-other")
        assert end_all(lambda: {spared} if is_alive(spared) else set(), monotonic() + 60) == []
        assert eventually(lambda: not marked(f"{run_id}-other"))


def test_what_is_found_first_when_the_time_is_over_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the end of the first processes takes all the time, and one of them has just started another."""
    first, second = (start("import time; print(flush=True); time.sleep(60)") for _ in range(2))
    rows = [look(process.pid) for process in (first, second)]

    def find() -> set[Row]:
        return {next(row for row in rows if row is not None and is_alive(row))} if any(map(_alive, rows)) else set()

    monkeypatch.setattr("mosaic.runs.processes.monotonic", lambda: 0.0 if _alive(rows[0]) else 100.0)
    try:
        end_all(find, 10.0)
        assert [first.wait(60), second.wait(60)] == [-signal.SIGKILL] * 2
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def _alive(row: Row | None) -> bool:
    return row is not None and is_alive(row)


def test_whoever_asks_is_spared() -> None:
    me = look(os.getpid())
    assert me is not None
    assert end_all(lambda: {me}, monotonic() + 60) == []


def test_the_supervisor_imports_nothing_heavy_before_it_starts_the_worker() -> None:
    """Users wait for the first attempt: pydantic alone would take twice as long as everything before it."""
    code = "import sys, mosaic.runs.supervisor; print(*{'pydantic', 'numpy', 'yaml', 'asyncio'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == []
