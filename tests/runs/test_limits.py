"""What a run may take, by clocks that nobody sets."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from mosaic.runs.lifecycle import Life, LimitExceeded, StartAsked, WorkerStarted, advance
from mosaic.runs.monitoring import RunLimits
from mosaic.runs.state_file import StateFile
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import RunState, State, read_written_state, write_state


@pytest.mark.parametrize(
    ("limits", "elapsed_s", "exceeded"),
    [
        (RunLimits(), 1e9, None),
        (RunLimits(max_wall_s=10), 9.99, None),
        (RunLimits(max_wall_s=10), 10.0, "its time limit of 10 s (resources.max_wall_s) is over"),
        (RunLimits(max_memory_mb=300), 1e9, None),
        (RunLimits(max_memory_mb=299), 0.0, "its processes took 300 MB, 299 MB are allowed (resources.max_memory_mb)"),
    ],
)
def test_limits(limits: RunLimits, elapsed_s: float, exceeded: str | None) -> None:
    found = limits.exceeded(elapsed_s, lambda: 300.0, now_s=5.0)
    assert (found.detail if found else None) == exceeded


def test_memory_is_not_measured_where_it_is_not_limited() -> None:
    def measure() -> float:
        raise AssertionError("measured for nothing")

    assert RunLimits(max_wall_s=10).exceeded(1.0, measure, now_s=0.0) is None


def test_a_jump_of_the_clock_changes_what_is_written_not_what_is_done(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_state(folder, RunState(run_id=tmp_path.name, state=State.QUEUED, queued_at=5e9, updated=5e9))
    times = cycle([1e9, 9e9, -1.0, 3.0, 4e9, 0.0])
    state_file = StateFile(folder, clock=lambda: next(times))
    state_file.begin(1, None)
    life, _ = advance(Life(), StartAsked())
    life, _ = advance(life, WorkerStarted())
    state_file.note(life.state)
    life, _ = advance(life, LimitExceeded("wall time", "over", now_s=3.0))
    state_file.note(life.state)
    assert state_file.end(State.STOPPED, "over", 3, try_for_s=0.0)
    written = read_written_state(folder)
    assert (written.state, written.attempts[0].reason, written.attempts[0].exit) == (State.STOPPED, "over", 3)
    assert [attempt.number for attempt in written.attempts] == [1]
