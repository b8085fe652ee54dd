"""Columns of many runs, brought up to date by several processes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic.telemetry.curves.curves import Curves
from mosaic.telemetry.curves.prefetch import bring_up_to_date
from tests.telemetry.event_cases import write_lines


def runs_of(folder: Path, lengths: list[int]) -> list[Path]:
    made = []
    for number, length in enumerate(lengths):
        run = folder / f"run-{number}"
        run.mkdir()
        events: list[dict[str, Any]] = [
            {
                "kind": "iteration",
                "seq": seq,
                "attempt": 1,
                "timestamp": 1.0,
                "env_steps": 10 * seq,
                "loss": seq * number,
            }
            for seq in range(1, length + 1)
        ]
        write_lines(run / "metrics.jsonl", events)
        made.append(run)
    return made


def test_processes_leave_the_columns_that_asking_would_make(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, [300, 200, 100])
    assert all(Curves(run).unread_bytes() == (run / "metrics.jsonl").stat().st_size for run in runs)
    assert bring_up_to_date(runs, processes=2, worth_bytes=1) == 2
    assert [Curves(run).unread_bytes() for run in runs] == [0, 0, 0]
    for number, (run, length) in enumerate(zip(runs, (300, 200, 100), strict=True)):
        curve = Curves(run).query("loss", buckets=1000)
        assert np.array_equal(curve.mean, number * np.arange(1, length + 1))
    assert bring_up_to_date(runs, processes=2, worth_bytes=1) == 0  # nothing is left to read


def test_a_little_is_left_to_whoever_asks(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, [30, 20])
    assert bring_up_to_date(runs, processes=2) == 0
    assert bring_up_to_date(runs[:1], processes=2, worth_bytes=1) == 0  # one file is not read by two
    assert bring_up_to_date(runs, processes=1, worth_bytes=1) == 0
    assert all(Curves(run).unread_bytes() > 0 for run in runs)
    assert bring_up_to_date([tmp_path / "nowhere", tmp_path], processes=2, worth_bytes=1) == 0


def test_a_process_that_fails_leaves_the_reading_to_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(tmp_path, [30, 20])
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert bring_up_to_date(runs, processes=2, worth_bytes=1) == 2
    assert [len(Curves(run).query("loss").x) for run in runs] == [30, 20]


def test_whether_a_run_has_told_a_metric(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, [3])
    curves = Curves(run)
    assert [curves.has(name) for name in ("loss", "env_steps", "agent_steps", "lost")] == [True, True, False, False]
    assert not Curves(tmp_path).has("loss")
