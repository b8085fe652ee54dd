"""A script of Ray Tune that reports every trial to Mosaic with one line more: a callback.

    mosaic train gym/CartPole-v1 --worker script \\
        --set 'training.params.command=python examples/scripts/tune_script.py --trials 4'

Its trials are bandits that learn which of two arms pays more, at several step sizes; yours may be RLlib's algorithms.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from typing import Any

import ray
from ray import tune

from mosaic import MosaicTuneCallback


def learn(config: dict[str, Any]) -> None:
    chance, values = random.Random(config["seed"]), [0.0, 0.0]
    for iteration in range(1, config["iterations"] + 1):
        paid = 0.0
        for _ in range(100):
            arm = chance.randrange(2) if chance.random() < 0.1 else values.index(max(values))
            reward = chance.gauss((0.2, 0.8)[arm], 1.0)
            values[arm] += config["step_size"] * (reward - values[arm])
            paid += reward
        difference = values[1] - values[0]
        tune.report({"episode_reward_mean": paid, "timesteps_total": 100 * iteration, "difference": difference})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=10)
    args = parser.parse_args()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    seed = int(os.environ.get("MOSAIC_SEED", 0))
    sizes = [0.5 / 2**number for number in range(args.trials)]
    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            learn,
            param_space={"step_size": tune.grid_search(sizes), "iterations": args.iterations, "seed": seed},
            run_config=tune.RunConfig(storage_path=folder, callbacks=[MosaicTuneCallback()], verbose=0),
        ).fit()
    ray.shutdown()


if __name__ == "__main__":
    main()
