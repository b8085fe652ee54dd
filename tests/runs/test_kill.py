"""kill -9 of worker and supervisor at any moment: nothing is lost, doubled or left alive, and the run goes on."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from random import Random

import pytest
from run_cases import assert_no_gap, curve, eventually, toy

from mosaic.runs.processes import marked
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.state import ENDED, Process, State

MOMENTS = 50
CHOSEN = 5
LASTS_S = 1.5  # about as long as the run takes, its start included
ASKED = toy(6000, iteration_s=0.01, checkpoint={"every_steps": 500})


def moments() -> list[object]:
    slow, chosen = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.chosen]
    return [pytest.param(number, marks=chosen if number < CHOSEN else slow) for number in range(MOMENTS)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, float]]:
    """The curve of a run that nobody disturbs."""
    run = Trainer(Path(tmp_path_factory.mktemp("undisturbed"))).submit(ASKED)
    assert run.wait(60) is State.FINISHED
    return curve(run)


def kill(process: Process | None) -> None:
    assert process is not None
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # too late: it had finished


def check(run: Run, undisturbed: list[tuple[int, float]]) -> None:
    assert run.state is State.FINISHED
    assert_no_gap(run)
    assert curve(run) == undisturbed
    assert find_checkpoint(run.folder, "latest").env_steps == 6000
    assert not marked(run.id)
    assert not run.folder.control.exists()
    assert len(run.record().attempts) <= 2


@pytest.mark.parametrize("number", moments())
def test_kill_of_the_worker(trainer: Trainer, undisturbed: list[tuple[int, float]], number: int) -> None:
    run = trainer.submit(ASKED)
    attempt = run.record().attempts[-1]
    threading.Event().wait(Random(number).uniform(0.0, LASTS_S))
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
def test_kill_of_the_supervisor(trainer: Trainer, undisturbed: list[tuple[int, float]], number: int) -> None:
    run = trainer.submit(ASKED)
    attempt = run.record().attempts[-1]
    threading.Event().wait(Random(1000 + number).uniform(0.0, LASTS_S))
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
