"""Many runs at once on few cores: all of them finish, each with its own metrics."""

from __future__ import annotations

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from tests.runs.run_cases import assert_no_gap, curve, toy


@pytest.mark.slow
def test_twenty_runs_at_once(trainer: Trainer) -> None:
    runs = trainer.submit_group(toy(3000, iteration_s=0.02), seeds=20)
    assert [run.wait(240) for run in runs] == [State.FINISHED] * 20
    for run in runs:
        assert_no_gap(run)
        assert curve(run)[-1][0] == 3000
    assert len({curve(run)[-1][1] for run in runs}) == 20
    assert {summary.env_steps for summary in trainer.summaries()} == {3000}
