"""Short runs whose policies are played."""

from __future__ import annotations

from mosaic.config.loading import parse_run_config
from mosaic.runs.trainer import Trainer


def finished_run(home, monkeypatch, worker, params, env, steps=2000, **fields):
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    name, _, algorithm = worker.partition(" ")
    training = {"worker": name, "algorithm": algorithm or None, "total_timesteps": steps, "params": params}
    config = parse_run_config(
        {"environment": {"env_id": env}, "training": training, "evaluation": {"episodes": 1}, **fields}
    )
    run = Trainer(home).submit(config)
    assert run.wait(300) == "finished", run.log()
    return run
