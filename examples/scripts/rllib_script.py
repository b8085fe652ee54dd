"""A script of RLlib that reports to Mosaic with one line more: a callback.

    mosaic train gym/CartPole-v1 --worker script \\
        --set 'training.params.command=python examples/scripts/rllib_script.py --iterations 20'
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from mosaic import MosaicRllibCallback


class Saving(MosaicRllibCallback):
    """Saves what the script resumes from every five iterations."""

    checkpoint_every = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--iterations", type=int, default=20, help="of all attempts together")
    parser.add_argument("--batch", type=int, default=2000, help="env steps of an iteration")
    args = parser.parse_args()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    config: Any = PPOConfig()  # type: ignore[no-untyped-call]
    config = (
        config.environment(args.env)
        .env_runners(num_env_runners=0)
        .training(train_batch_size_per_learner=args.batch, num_epochs=4)
        .debugging(seed=int(os.environ.get("MOSAIC_SEED", 0)))
        .callbacks(Saving)
    )
    algorithm: Any = config.build_algo()
    start = os.environ.get("MOSAIC_RESUME_FROM")
    if start:
        algorithm.restore_from_path(f"{start}/rllib")
    try:
        while algorithm.iteration < args.iterations:
            algorithm.train()
    except KeyboardInterrupt:
        print("asked to stop")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
