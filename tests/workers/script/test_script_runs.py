"""A program under a supervisor: however something of it ends, nothing of it is left."""

import os
import sys
from signal import SIGKILL

import psutil
import pytest

from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from mosaic.telemetry.events.reader import follow
from tests.workers.hosting import run_config

# Both the program and a child that left its session print where they are; the child ignores what is sent to it.
FAMILY = """
import os, signal, sys, time
begun = time.monotonic()
if not os.fork():
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
while True:
    steps = int(100 * (time.monotonic() - begun))  # of the run, not of one of the two: steps that fall are refused
    try:
        print('@METRIC {"env_steps": %d, "pid": %d}' % (steps, os.getpid()), flush=True)
    except BrokenPipeError:
        pass
    time.sleep(0.01)
"""


def start(home, code, **settings):
    return Trainer(home).submit(run_config("script", {"command": [sys.executable, "-c", code]}, **settings))


def family(run):
    """The processes of both, once both were heard."""
    pids = set()
    for event in follow(run.folder.metrics, poll_s=0.005):
        if event["kind"] in ("started", "alert"):  # one may print a line later than the other, with fewer steps
            continue
        pids.add(event["custom_metrics"]["pid"])
        if len(pids) == 2:
            return [psutil.Process(pid) for pid in pids]


def assert_gone(processes):
    gone, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    assert len(gone) == len(processes)


def test_a_failure_is_the_runs_reason(tmp_path):
    run = start(tmp_path, "raise SystemExit('no more memory')")
    assert run.wait(60) is State.FAILED
    assert "ended with exit code 1. Its last lines:\nno more memory" in run.reason


def test_a_limit_ends_the_program_and_what_it_started(tmp_path):
    run = start(tmp_path, FAMILY, training={"total_timesteps": 30})
    processes = family(run)
    assert run.wait(60) is State.FINISHED
    assert_gone(processes)


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_stop_ends_the_program_and_what_it_started(tmp_path, paused):
    run = start(tmp_path, FAMILY)
    processes = family(run)
    if paused:
        run.pause()
    run.stop()
    assert run.state is State.STOPPED
    assert run.record().attempts[-1].exit == 3
    assert_gone(processes)


def test_a_killed_worker_leaves_no_program(tmp_path):
    run = start(tmp_path, FAMILY)
    processes = family(run)
    os.kill(run.record().attempts[-1].worker.pid, SIGKILL)
    assert run.wait(60) is State.FAILED
    assert_gone(processes)


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_killed_supervisor_takes_the_program_along(tmp_path, paused):
    """The child that left the session goes when the lost run is cleared away."""
    run = start(tmp_path, FAMILY)
    processes = family(run)
    if paused:
        run.pause()
    record = run.record().attempts[-1]
    worker = psutil.Process(record.worker.pid)
    os.kill(record.supervisor.pid, SIGKILL)
    assert_gone([worker])
    assert run.state is State.LOST
    run.stop()
    assert_gone(processes)
