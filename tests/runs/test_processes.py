"""Which processes are found, and that none of them survives."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from time import monotonic

from run_cases import eventually

from mosaic.runs.processes import MARK, Row, below, end_all, is_alive, list_processes, look, marked

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


def test_zombies_are_gone() -> None:
    with start("pass") as child:
        process = look(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped by us
        assert look(child.pid) is None
        assert child.pid not in list_processes()
        assert process is None or not is_alive(process)


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
        assert end_all(lambda: {each for each in find() if is_alive(each)}, monotonic() + 20) == []
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
        assert end_all(lambda: identities(run_id), monotonic() + 20) == []
        assert not is_alive(found)
        (spared,) = identities(f"{run_id}-other")
        assert end_all(lambda: {spared} if is_alive(spared) else set(), monotonic() + 20) == []
        assert eventually(lambda: not marked(f"{run_id}-other"))


def test_whoever_asks_is_spared() -> None:
    me = look(os.getpid())
    assert me is not None
    assert end_all(lambda: {me}, monotonic() + 20) == []
