"""CartPole to 475 outside a run, for the time from process start: python whole_process.py SEED."""

from __future__ import annotations

import sys

from mosaic.config.loading import parse_run_config
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions
from mosaic.workers.presets import with_preset

GOAL = 475.0


def main() -> None:
    said = {"environment": {"env_id": "gym/CartPole-v1"}, "seed": int(sys.argv[1])}
    config = with_preset(parse_run_config(said), "native", "ppo")
    total = config.training.total_timesteps
    assert total is not None
    learner = assemble(config, PpoOptions(**config.training.params)).learner
    reached = 0.0
    while reached < GOAL and learner.env_steps < total:
        learner.iterate()
        reached = learner.progress().return_mean or 0.0
    learner.close()
    if reached < GOAL:
        raise SystemExit(f"only {reached:.0f} of {GOAL:.0f} after {learner.env_steps} steps")


if __name__ == "__main__":
    main()
