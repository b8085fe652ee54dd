"""Benchmarks of Stable-Baselines3 through Mosaic: speed and returns against the same calls by hand.

    python benchmarks/sb3.py [ROW …] [--repeats 5] [--quick] [--list]

Both sides have the same algorithm, options, seed and number of envs, on one core with one thread, each in a process of
its own, in turn. Through Mosaic the time includes reports and checkpoints. A row whose learner misses its goal, or
whose returns differ where they should be the same, has failed.
"""

from __future__ import annotations

import os
import warnings

from ppo_rows.measure import Plan
from row_table import ONE_THREAD, asked, row_parser, run_rows, say_where

PACKAGES = ("stable-baselines3", "sb3-contrib", "torch", "numpy", "gymnasium")
ROWS = {  # name: function and what it shows
    "ppo": ("speed:ppo", "PPO CartPole, 8 envs; by hand. At least 0.97×, the same returns"),
    "dqn": ("speed:dqn", "DQN CartPole, 1 env; by hand. At least 0.97×, the same returns"),
    "sac": ("speed:sac", "SAC Pendulum, 1 env; by hand. At least 0.97×, the same returns"),
    "twin": ("speed:twin", "PPO CartPole, 512 compiled envs; SB3's DummyVecEnv. At least 1.5×"),
    "twins": ("speed:twins", "PPO on 8 to 128 compiled envs; SB3's own vector envs. Acrobot: at least 2×"),
}


def main() -> None:
    arguments = asked(row_parser(__doc__), ROWS)
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    warnings.simplefilter("ignore")
    plan = Plan(1 if arguments.quick else arguments.repeats, arguments.quick, with_peers=False)
    say_where("one core", plan, PACKAGES)
    run_rows("sb3_rows", ROWS, arguments.rows, plan)


if __name__ == "__main__":
    main()
