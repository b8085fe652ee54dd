"""RLlib through Mosaic: its speed beside the same configuration by hand, and whether it learns.

    python benchmarks/rllib.py [ROW …] [--repeats 5] [--quick] [--list]

Speed: the same algorithm, options, seed and number of envs on one core with one thread, once through Mosaic's worker
(metrics and callbacks included) and once by hand with RLlib's stock wrapper; the first iteration is not counted.
Learning: on two cores, the resources that a run gets by itself; a row whose learner misses its goal has failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from ppo_rows.measure import GateFailed, PeerMissing, Plan

ROWS = {  # name: function and what it shows
    "speed-cartpole": ("speed:cartpole", "PPO CartPole, 8 envs; by hand. At least 0.97×"),
    "speed-spread": ("speed:spread", "PPO simple_spread, one policy, 8 envs; by hand, stock wrapper. At least 2×"),
    "speed-runner": ("speed:runner", "PPO CartPole with an env runner of its own, two cores; by hand. At least 0.97×"),
    "ppo": ("learning:ppo", "CartPole to 450"),
    "dqn": ("learning:dqn", "CartPole to 400"),
    "a2c": ("learning:a2c", "CartPole to 400"),
    "impala": ("learning:impala", "CartPole to 400"),
    "appo": ("learning:appo", "CartPole to 400"),
    "sac": ("learning:sac", "Pendulum to -400"),
    "spread": (
        "learning:spread",
        "simple_spread, parameter sharing: a third of the way to the scripted policy, 10 min",
    ),
    "spread-central": ("learning:spread_central", "the same with a critic that sees all agents"),
    "connect-four": ("learning:connect_four", "self-play: 90 % against random, 10 min"),
    "scale": ("scale:scale", "what 100 and 1,000 env runners would cost the driver and the learner"),
}
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="those of --list; none: all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat, lower goals")
    parser.add_argument("--list", action="store_true", help="name the rows and leave")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (_, what) in ROWS.items():
            print(f"{name:18}{what}")
        return
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), SDL_VIDEODRIVER="dummy", RAY_USAGE_STATS_ENABLED="0")
    warnings.simplefilter("ignore")  # of RLlib, about its own dependencies
    plan = Plan(1 if arguments.quick else arguments.repeats, arguments.quick, with_peers=False)
    _say_where(plan)
    failed = [name for name in arguments.rows or ROWS if not _run(name, plan)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _say_where(plan: Plan) -> None:
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    names = ("ray", "torch", "numpy", "gymnasium", "pettingzoo", "mpe2")
    print(f"{_processor()}, {os.cpu_count()} cores, load {load}; medians of {plan.repeats}")
    print(f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in names)}", flush=True)


def _processor() -> str:
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in facts if line.startswith("model name")), "unknown")


def _run(name: str, plan: Plan) -> bool:
    module, _, function = ROWS[name][0].partition(":")
    row: Callable[[Plan], None] = getattr(import_module(f"rllib_rows.{module}"), function)
    began = perf_counter()
    try:
        row(plan)
    except (GateFailed, PeerMissing) as reason:
        print(f"{name}: failed: {reason}", flush=True)
        return False
    print(f"  ({name}: {perf_counter() - began:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    main()
