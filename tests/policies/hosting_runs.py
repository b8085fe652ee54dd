"""Short runs whose policies are played."""

from __future__ import annotations

from mosaic.config.loading import parse_run_config
from tests.in_process import trained_here


def finished_run(home, monkeypatch, worker, params, env, steps=2000, **fields):
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    name, _, algorithm = worker.partition(" ")
    training = {"worker": name, "algorithm": algorithm or None, "total_timesteps": steps, "params": params}
    config = parse_run_config(
        {"environment": {"env_id": env}, "training": training, "evaluation": {"episodes": 1}, **fields}
    )
    run = trained_here(home, config)
    assert run.state == "finished", run.log()
    return run
