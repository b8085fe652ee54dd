"""A hundred kills over runs of every kind, thirty of them on Ray; in `make test` one of each kind without Ray.

Killed runs on Ray are in `make test` with tests of their own: `runtimes/ray/test_tabular.py` and
`workers/rllib/test_rllib_cluster.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.store.state import State
from tests.runs.kill_storm import RAY, Kill, plan, strike

KILLS, SEED = 100, 1


def kills() -> list[object]:
    planned = plan(KILLS, SEED)
    first = {kill.kind: kill.number for kill in reversed(planned) if kill.kind not in RAY}  # one of each kind
    chosen = set(first.values())
    marks = [pytest.mark.slow, pytest.mark.timeout(900)]
    return [
        pytest.param(
            kill, marks=[*marks, *([pytest.mark.chosen] if kill.number in chosen else [])], id=str(kill.number)
        )
        for kill in planned
    ]


@pytest.mark.parametrize("kill", kills())
def test_a_killed_run_leaves_nothing_and_resumes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: Kill
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    outcome = strike(kill, tmp_path)
    if outcome.cleared_s is not None:
        assert outcome.state in {State.LOST, State.FAILED, State.FINISHED}


def test_a_seed_plans_the_same_storm() -> None:
    planned = plan(KILLS, SEED)
    assert planned == plan(KILLS, SEED)
    assert sum(kill.kind in RAY for kill in planned) == 30
    assert {kill.kind for kill in planned} == {"native", "tabular", "rllib", "tabular-ray", "mpi", "script"}
