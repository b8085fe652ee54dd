"""The end of a benchmark: Ctrl-C keeps its figures, and nothing that it has started is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from mosaic.core.proc import read_stat
from tests.ui.cli.bench_folder import program, programs

__all__ = ["programs"]

CHILDREN = """
    import os, signal, subprocess
    wait = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
    same, own = (subprocess.Popen(wait, stdout=subprocess.PIPE, start_new_session=new) for new in (False, True))
    same.stdout.readline(), own.stdout.readline()
    open(os.environ["PIDS"], "w").write(f"{same.pid} {own.pid}")
"""
CTRL_C = """
    try:
        os.kill(os.getppid(), getattr(signal, "NAME"))
        signal.pause()
    finally:
        open(os.environ["PIDS"] + ".cleaned", "w").close()
"""


def alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.alive


@pytest.fixture
def pids(tmp_path, monkeypatch):
    path = tmp_path / "pids"
    monkeypatch.setenv("PIDS", str(path))
    return lambda: [int(word) for word in path.read_text().split()]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_keeps_what_was_measured_and_ends_all_processes(mosaic, programs, pids, name):
    (programs / "stopped.py").write_text(program("1", CHILDREN.strip() + CTRL_C.replace("NAME", name)))
    done = mosaic("bench", "good", "stopped", "slow", "--out", "here")
    assert (done.code, "Written: here/report.json" in done.err) == (130, True)
    figures = json.loads(Path("here/report.json").read_text())["figures"]
    assert [(each["benchmark"], each["what"], each.get("failed")) for each in figures] == [
        ("good", "counting", None),
        ("good", "a start", None),
        ("stopped", "counting", None),
        ("stopped", "a start", None),
        ("stopped", "stopped", "interrupted before its end"),
    ]
    assert (len(pids()), [pid for pid in pids() if alive(pid)]) == (2, [])
    assert Path(os.environ["PIDS"] + ".cleaned").exists()


def test_ctrl_c_while_a_program_starts_ends_it_too(mosaic, programs, pids, monkeypatch):
    class Started(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            if options.get("start_new_session"):
                while "waiting" not in self.stdout.readline():
                    pass
                signal.raise_signal(signal.SIGINT)

    waiting = """
    import os, signal
    try:
        open(os.environ["PIDS"], "w").write(str(os.getpid()))
        print("waiting")
        signal.pause()
    finally:
        open(os.environ["PIDS"] + ".cleaned", "w").close()
"""
    (programs / "starting.py").write_text(program("1", waiting.strip()))
    monkeypatch.setattr(subprocess, "Popen", Started)
    assert mosaic("bench", "starting", "--out", "here").code == 130
    assert (len(pids()), [pid for pid in pids() if alive(pid)]) == (1, [])
    assert Path(os.environ["PIDS"] + ".cleaned").exists()


def test_a_program_that_ignores_ctrl_c_is_killed(mosaic, programs, monkeypatch):
    monkeypatch.setattr("mosaic.ui.cli.bench.programs.GRACE_S", 0.3)
    deaf = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.kill(os.getppid(), signal.SIGINT)"
    (programs / "deaf.py").write_text(program("1", f"{deaf}; [signal.pause() for _ in range(9)]"))
    assert mosaic("bench", "deaf", "--out", "here").code == 130
    assert "interrupted before its end" in Path("here/report.md").read_text()


def test_what_a_program_leaves_running_is_ended(mosaic, programs, pids):
    """Children that hold the end of the output would keep the command waiting for ever."""
    leaving = (
        CHILDREN.strip()
        .replace("stdout=subprocess.PIPE, ", "")
        .replace("same.stdout.readline(), own.stdout.readline()", "")
    )
    (programs / "leaving.py").write_text(program("1", leaving))
    assert mosaic("bench", "leaving", "--out", "here").code == 0
    assert (len(pids()), [pid for pid in pids() if alive(pid)]) == (2, [])
