"""kill -9 of worker and supervisor at any moment: nothing is lost, doubled or left alive, and the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from time import monotonic
from typing import NamedTuple

import pytest

from mosaic.runs.processes import marked
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.lock import held
from mosaic.store.state import ENDED, ProcessRecord, State
from tests.runs.run_cases import assert_no_gap, curve, eventually, toy

MOMENTS = 50
CHOSEN = 3
ASKED = toy(6000, iteration_s=0.01, checkpoint={"every_steps": 500})


def moments() -> list[object]:
    slow, chosen = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.chosen]
    return [pytest.param(number, marks=chosen if number < CHOSEN else slow) for number in range(MOMENTS)]


class Undisturbed(NamedTuple):
    """A run that nobody kills."""

    curve: list[tuple[int, float]]
    lasted_s: float  # from the moment it could be killed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    run = Trainer(Path(tmp_path_factory.mktemp("undisturbed"))).submit(ASKED)
    start_s = monotonic()
    assert run.wait(60) is State.FINISHED
    return Undisturbed(curve(run), monotonic() - start_s)


def kill(process: ProcessRecord | None) -> None:
    assert process is not None
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # too late: it had finished


def check(run: Run, undisturbed: Undisturbed) -> None:
    assert run.state is State.FINISHED
    assert_no_gap(run)
    assert curve(run) == undisturbed.curve
    assert find_checkpoint(run.folder, "latest").env_steps == 6000
    assert not marked(run.id)
    assert not run.folder.control.exists()
    assert run.folder.manifest.exists()
    assert len(run.record().attempts) <= 2


@pytest.mark.parametrize("number", moments())
def test_kill_of_the_worker(trainer: Trainer, undisturbed: Undisturbed, number: int) -> None:
    run = trainer.submit(ASKED)
    attempt = run.record().attempts[-1]
    threading.Event().wait(Random(number).uniform(0.0, undisturbed.lasted_s))
    kill(attempt.worker)
    state = run.wait(60)
    assert not marked(run.id)
    assert_no_gap(run)
    if state is not State.FINISHED:
        assert (state, run.reason) == (State.FAILED, "the worker ended with signal SIGKILL")
        assert run.record().attempts[-1].exit == -signal.SIGKILL
        run.resume()
        run.wait(60)
    check(run, undisturbed)


@pytest.mark.parametrize("number", moments())
def test_kill_of_the_supervisor(trainer: Trainer, undisturbed: Undisturbed, number: int) -> None:
    run = trainer.submit(ASKED)
    attempt = run.record().attempts[-1]
    threading.Event().wait(Random(1000 + number).uniform(0.0, undisturbed.lasted_s))
    kill(attempt.supervisor)
    assert eventually(lambda: run.state in ENDED, within_s=60)
    if run.state is not State.FINISHED:
        assert run.state is State.LOST
        if number % 2:  # the worker notices by itself; the others are resumed while it may still be there
            assert eventually(lambda: not marked(run.id))
        run.resume()
        run.wait(60)
    assert eventually(lambda: not marked(run.id))
    check(run, undisturbed)


def test_a_run_does_not_need_the_process_that_waits_for_its_start(trainer: Trainer) -> None:
    """Killed while the supervisor starts the worker: the run is none the worse for it."""
    run = trainer.submit(toy(300, iteration_s=0.0), start=False)
    argv = [sys.executable, "-P", "-m", "mosaic.runs.supervisor", str(run.folder.path), "1"]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as starter:
        assert eventually(lambda: run.state is not State.QUEUED)  # it has begun, and has not said so yet
        starter.kill()
    assert eventually(lambda: not held(run.folder))
    assert run.state is State.FINISHED
