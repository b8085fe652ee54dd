"""Histories of supervisor, store and queue under faults: every invariant holds, and planted bugs are found.

A failing history prints its seed. Replay it, with its whole trace: python -m tests.simulation.history SEED
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("greenlet")

from mosaic.core.errors import notify
from tests.simulation.kernel import BrokenInvariantError
from tests.simulation.machine import machine
from tests.simulation.planted import PLANTED

EVERYTHING = {"power", "full", "room", "jump", "delete", "killed server", "killed supervisor", "killed worker",
              "killed client"}  # fmt: skip
SHOWN = 60  # lines of the trace
QUICK, ALL, PART = 200, 10_000, 200
EARLY = {"state-not-synced", "short-write", "folder-not-synced", "torn-end-kept", "lock-ignored", "end-not-cleared",
         "checkpoint-folder-not-synced", "overbooked", "stuck-for-ever", "exit-is-finished"}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The product's warnings about faults are expected, a few thousand times."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def check(first: int, last: int) -> Counter[str]:
    """Play histories; return how often what happened in them."""
    with machine() as simulated:
        for seed in range(first, last):
            try:
                simulated.history(seed)
            except BrokenInvariantError as broken:
                told = "\n".join(broken.args[1].kernel.trace[-SHOWN:])
                pytest.fail(
                    f"{told}\n{broken.args[0]}\nReplay: python -m tests.simulation.history {seed}", pytrace=False
                )
    return simulated.seen


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(QUICK // 4, QUICK, QUICK // 4))],
)
def test_no_invariant_is_broken(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    seen = check(first, first + QUICK // 4)
    notify("of this process")
    assert "of this process" in capsys.readouterr().err, "notices still go to a run of the simulation"
    assert seen["finished"] > QUICK // 4, "the histories are empty"
    assert not EVERYTHING - seen.keys(), "these faults never struck"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, ALL, PART))
def test_no_invariant_is_broken_in_ten_thousand_histories(first: int) -> None:
    check(first, first + PART)


def found(name: str) -> str:
    bug = PLANTED[name]
    with machine() as simulated, ExitStack() as stack:
        bug.plant(stack)
        for seed in range(bug.within):
            try:
                simulated.history(seed)
            except BrokenInvariantError as broken:
                return str(broken.args[0])
    pytest.fail(f"{name} ({bug.says}) is not found in {bug.within} histories")


def test_ten_bugs_are_planted() -> None:
    assert len(EARLY) >= 10
    assert PLANTED.keys() >= EARLY


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("name", sorted(EARLY))
def test_a_planted_bug_is_found(name: str) -> None:
    assert found(name).startswith("seed ")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLANTED.keys() - EARLY))
def test_a_planted_bug_that_shows_rarely_is_found(name: str) -> None:
    assert found(name).startswith("seed ")


def test_one_seed_is_one_history_in_every_process() -> None:
    """Nothing depends on the order of a set, on an address or on the real clock."""
    program = [sys.executable, "-m", "tests.simulation.history", "47"]
    told = [
        subprocess.run(program, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True)
        for salt in ("1", "2")
    ]
    assert told[0].stdout == told[1].stdout
    assert "FAULT" in told[0].stdout
    assert "The history of seed 47 holds" in told[0].stdout
