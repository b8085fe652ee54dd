"""How fast DQN learns CartPole beside Stable-Baselines3: the zoo's numbers, one thread each, back to back.

python benchmarks/dqn.py [--steps 10000] [--repeats 3]

Both learn from the same number of updates of the same net. Ours runs the compiled env; what it costs to compile is paid
before the clock starts. Beside the clock on the wall stands processor time, which a busy machine does not change much.
This is about speed alone: whether the policies are any good is asked in tests/learners.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

for library in ("OPENBLAS", "OMP", "MKL"):  # read when numpy and torch are first imported
    os.environ[f"{library}_NUM_THREADS"] = "1"

HIDDEN = (256, 256)
ZOO: dict[str, Any] = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
}


class Rate(NamedTuple):
    wall: float  # env steps a second
    processor: float  # env steps a second of processor time


def rate(work: Callable[[], int]) -> Rate:
    """Of work that answers how many env steps it made."""
    wall, processor = perf_counter(), process_time()
    steps = work()
    return Rate(steps / (perf_counter() - wall), steps / (process_time() - processor))


def ours(steps: int, seed: int) -> tuple[Rate, tuple[float, float, float]]:
    """And the seconds in env, inference and learning."""
    from mosaic.config.run import RunConfig
    from mosaic.learners.dqn_assembly import assemble_dqn
    from mosaic.learners.dqn_options import DqnOptions

    environment, training = {"env_id": "gym/CartPole-v1"}, {"total_timesteps": steps}
    config = RunConfig.model_validate({"seed": seed, "environment": environment, "training": training})
    learner = assemble_dqn(config, DqnOptions(**ZOO, hidden=HIDDEN)).learner

    def work() -> int:
        while learner.env_steps < steps:
            learner.iterate()
        return learner.env_steps

    found = rate(work)
    learner.close()
    return found, learner.split()


def peer(steps: int, seed: int) -> Rate:
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    model = DQN("MlpPolicy", "CartPole-v1", **ZOO, policy_kwargs={"net_arch": list(HIDDEN)}, seed=seed, device="cpu")
    return rate(lambda: model.learn(steps).num_timesteps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    ours(2000, seed=0)
    peer(600, seed=0)
    ratios = []
    for seed in range(arguments.repeats):
        mine, split = ours(arguments.steps, seed)
        theirs = peer(arguments.steps, seed)
        ratios.append(Rate(mine.wall / theirs.wall, mine.processor / theirs.processor))
        env, acting, learning = split
        for name, ours_, peers in zip(("wall", "processor"), mine, theirs, strict=True):
            print(f"{name:10} mosaic {ours_:8,.0f} steps/s   sb3 {peers:8,.0f} steps/s   ratio {ours_ / peers:5.2f}")
        print(f"mosaic's seconds: env {env:.2f}, acting {acting:.2f}, learning {learning:.2f}", flush=True)
    wall, processor = (median(column) for column in zip(*ratios, strict=True))
    print(f"median ratio over {len(ratios)} pairs: wall {wall:.2f}, processor {processor:.2f} (goal: at least 3)")


if __name__ == "__main__":
    main()
