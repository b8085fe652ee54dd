"""The curves of a run that was long are ready when it has ended."""

import pytest

from mosaic.runs.monitoring import LONG_BYTES
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.curves.curves import Curves


@pytest.mark.parametrize(("iterations", "long"), [(20, False), (12_000, True)])
def test_curves_of_long_runs_are_read_when_they_end(tmp_path, iterations, long):
    params = {"steps_per_iteration": 1, "iteration_s": 0.0}
    training = {"worker": "toy", "total_timesteps": iterations, "params": params}
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "training": training}
    run = Trainer(tmp_path).submit({**config, "checkpoint": {"every_steps": iterations}})
    assert run.wait() == "finished"
    size = run.folder.metrics.stat().st_size
    assert (size >= LONG_BYTES) is long
    unread = Curves(run.folder.path).unread_bytes()
    assert (unread == 0) is long
