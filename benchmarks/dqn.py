"""Benchmark of DQN on CartPole against Stable-Baselines3: rl-zoo hyperparameters, one thread each, back to back.

python benchmarks/dqn.py [--steps 10000] [--repeats 3] [--quick]

Both learn from the same number of updates of the same net. Ours runs the compiled env, which is compiled before the
clock starts. Besides wall-clock time, processor time is reported, which a busy machine does not change much.
The gate: within the zoo's 50,000 steps our greedy policy reaches a mean of 475 of 500 steps over 100 fresh episodes at
least once (the zoo keeps its best policy too; DQN forgets and recovers). Without it the speed is meaningless and the
benchmark fails.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from figures import at_least, loosen_goals, note_failure, note_ratio

for library in ("OPENBLAS", "OMP", "MKL"):  # read when numpy and torch are first imported
    os.environ[f"{library}_NUM_THREADS"] = "1"

HIDDEN = (256, 256)
TOTAL, GOAL = 50_000, 475.0
QUICK_STEPS = 4000
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
    wall: float  # env steps per second
    processor: float  # env steps per second of processor time


def rate(work: Callable[[], int]) -> Rate:
    """Measure the rate of `work`, which returns the number of env steps it made."""
    wall, processor = perf_counter(), process_time()
    steps = work()
    return Rate(steps / (perf_counter() - wall), steps / (process_time() - processor))


def ours(steps: int, seed: int) -> tuple[Rate, tuple[float, float, float]]:
    """Return our rate, and the seconds in env, inference and learning."""
    from mosaic.config.run import RunConfig
    from mosaic.learners.dqn.build import assemble_dqn
    from mosaic.learners.dqn.options import DqnOptions

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


def best_return(seed: int) -> float:
    """Return the best mean return of our greedy policy, evaluated every 2,500 of 50,000 steps until the goal."""
    from mosaic.config.run import RunConfig
    from mosaic.learners.dqn.build import assemble_dqn
    from mosaic.learners.dqn.options import DqnOptions

    asked = {"seed": seed, "environment": {"env_id": "gym/CartPole-v1"}, "training": {"total_timesteps": TOTAL}}
    assembled = assemble_dqn(RunConfig.model_validate(asked), DqnOptions(**ZOO, hidden=HIDDEN))
    learner, best = assembled.learner, 0.0
    while learner.env_steps < TOTAL and best < GOAL:
        ask_at = learner.env_steps + 2500
        while learner.env_steps < ask_at:
            learner.iterate()
        best = max(best, greedy_return(assembled.architectures[0], learner.weights(0)))
    learner.close()
    return best


def greedy_return(architecture: Any, weights: Any, episodes: int = 100) -> float:
    """Return the mean return of the first episode of each env."""
    import numpy as np

    from mosaic.config.sections import EnvironmentConfig
    from mosaic.envs.compiled.vector import make_compiled_vector
    from mosaic.models.fused import build_model, greedy_rows, make_scratch

    vector = make_compiled_vector(EnvironmentConfig(env_id="gym/CartPole-v1"), episodes)
    assert vector is not None
    vector.reset(12345)
    model, act = build_model(architecture), np.zeros((episodes, 1), np.float32)
    scratch, alive, total = make_scratch(model, episodes), np.ones(episodes, bool), np.zeros(episodes)
    for _ in range(500):
        greedy_rows(weights, model, vector.obs, vector.mask, scratch, act)
        vector.step(act)
        total += alive * vector.rew
        alive &= (vector.term | vector.trunc) == 0
    return float(total.mean())


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
    parser.add_argument("--quick", action="store_true", help="one repeat of 4,000 steps")
    arguments = parser.parse_args()
    if arguments.quick:
        loosen_goals()
    repeats, steps = (1, QUICK_STEPS) if arguments.quick else (arguments.repeats, arguments.steps)
    learned = best_return(seed=0)
    if learned < GOAL:
        note_failure("DQN CartPole", reason := f"the gate failed: ours reaches {learned:.0f} of {GOAL:.0f}")
        raise SystemExit(f"{reason}, so the speed means nothing")
    ours(2000, seed=0)
    peer(600, seed=0)
    ratios, pairs = [], []
    for seed in range(repeats):
        mine, split = ours(steps, seed)
        theirs = peer(steps, seed)
        ratios.append(Rate(mine.wall / theirs.wall, mine.processor / theirs.processor))
        pairs.append((mine.processor, theirs.processor))
        env, acting, learning = split
        for name, ours_, peers in zip(("wall", "processor"), mine, theirs, strict=True):
            print(f"{name:10} mosaic {ours_:8,.0f} steps/s   sb3 {peers:8,.0f} steps/s   ratio {ours_ / peers:5.2f}")
        print(f"mosaic's seconds: env {env:.2f}, acting {acting:.2f}, learning {learning:.2f}", flush=True)
    mine_, theirs_ = ([pair[side] for pair in pairs] for side in (0, 1))
    verdict = note_ratio("DQN CartPole, by processor time", "steps/s", mine_, theirs_, "SB3", at_least(3))
    wall, processor = (median(column) for column in zip(*ratios, strict=True))
    print(f"median ratio over {len(ratios)} pairs: wall {wall:.2f}, processor {processor:.2f}; {verdict}")


if __name__ == "__main__":
    main()
