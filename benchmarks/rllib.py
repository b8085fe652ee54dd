"""Benchmarks of RLlib through Mosaic: speed against the same configuration by hand, and learning.

    python benchmarks/rllib.py [ROW …] [--repeats 5] [--quick] [--list]

Speed: the same algorithm, options, seed and number of envs on one core with one thread, once through Mosaic's worker
(metrics and callbacks included) and once by hand with RLlib's stock wrapper; the first iteration is not counted.
Learning: on two cores, with a run's default resources; a row whose learner misses its goal has failed.
"""

from __future__ import annotations

import os
import warnings

from ppo_rows.measure import Plan
from row_table import ONE_THREAD, asked, row_parser, run_rows, say_where

PACKAGES = ("ray", "torch", "numpy", "gymnasium", "pettingzoo", "mpe2")
ROWS = {  # name: function and what it shows
    "speed-cartpole": ("speed:cartpole", "PPO CartPole, 8 envs; by hand. At least 0.97×"),
    "speed-spread": ("speed:spread", "PPO simple_spread, one policy, 8 envs; by hand, stock wrapper. At least 2×"),
    "speed-runner": ("speed:runner", "PPO CartPole with an env runner of its own, two cores; by hand. At least 0.97×"),
    "ppo": ("learning:ppo", "CartPole to 450"),
    "dqn": ("learning:dqn", "CartPole to 400"),
    "a2c": ("learning:a2c", "CartPole to 400"),
    "impala": ("learning:impala", "CartPole to 400"),
    "appo": ("learning:appo", "CartPole to 400"),
    "sac": ("learning:sac", "Pendulum: the likeliest actions reach -400 after 8,000 steps; by hand"),
    "spread": (
        "learning:spread",
        "simple_spread, parameter sharing: a third of the way to the scripted policy, 10 min",
    ),
    "spread-central": ("learning:spread_central", "the same with a critic that sees all agents"),
    "connect-four": ("learning:connect_four", "self-play: 90 % against random, 10 min"),
    "scale": ("scale:scale", "what 100 and 1,000 env runners would cost the driver and the learner"),
}


def main() -> None:
    arguments = asked(row_parser(__doc__), ROWS)
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), SDL_VIDEODRIVER="dummy", RAY_USAGE_STATS_ENABLED="0")
    warnings.simplefilter("ignore")  # from RLlib, about its own dependencies
    plan = Plan(1 if arguments.quick else arguments.repeats, arguments.quick, with_peers=False)
    say_where(f"{os.cpu_count()} cores", plan, PACKAGES)
    run_rows("rllib_rows", ROWS, arguments.rows, plan)


if __name__ == "__main__":
    main()
