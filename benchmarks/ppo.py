"""How fast networks learn, beside what people use: ours and each peer back to back, medians, ratios, gates.

    python benchmarks/ppo.py [ROW …] [--repeats 5] [--quick] [--with-peers] [--core N] [--list]

Every row runs on one core with one thread on each side. The speed of something that does not learn means nothing, so
a row whose learner misses its goal is reported as failed. Peers that cannot share our environment (JAX, VMAS,
Pgx) get one of their own, made in the user's cache folder, where --with-peers is given.
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
from time import perf_counter

from ppo_rows.measure import GateFailed, PeerMissing, Plan

ROWS = {  # name: function and what it compares
    "cartpole": ("single:zoo", "PPO CartPole, rl-zoo hyper-parameters; SB3"),
    "cleanrl": ("single:cleanrl", "PPO CartPole, CleanRL hyper-parameters; the same in one file of torch"),
    "start": ("single:start", "CartPole to 475 from process start, CLI and in process; RLlib"),
    "many-envs": ("single:many_envs", "PPO, 1,024 envs, one epoch; JAX (--with-peers)"),
    "python-cartpole": ("single:python_cartpole", "PPO on 8 CartPoles in Python; SB3"),
    "python-lander": ("single:python_lander", "PPO on 4 LunarLanders in Python; SB3"),
    "spread": ("several:spread", "simple_spread, shared policy, compiled twin; RLlib, SB3 + SuperSuit"),
    "python-spread": ("several:python_spread", "the same with the Python env; RLlib, SB3 + SuperSuit"),
    "connect-four": ("several:connect_four", "connect four self-play, moves/s with learning"),
    "a2c": ("single:a2c", "A2C, 8 CartPoles; SB3"),
    "dqn": ("single:dqn", "DQN CartPole: runs benchmarks/dqn.py"),
    "env-cartpole": ("worlds:cartpole", "compiled CartPole; Gymnasium's vector envs"),
    "env-spread": ("worlds:spread", "compiled simple_spread; VMAS (--with-peers)"),
    "env-tictactoe": ("worlds:tictactoe", "compiled tic-tac-toe; Pgx (--with-peers)"),
    "decision": ("moments:decision", "one decision of a 64×64 net, p50; SB3 predict"),
    "kernels": ("moments:kernels", "first iteration with numba's cache, and cold"),
}
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="those of --list; none: all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat, lower goals")
    parser.add_argument("--with-peers", action="store_true", help="also those that need an environment of their own")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the only core that is used")
    parser.add_argument("--list", action="store_true", help="name the rows and leave")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (_, what) in ROWS.items():
            print(f"{name:18}{what}")
        return
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    _stay_on(arguments.core)
    plan = Plan(1 if arguments.quick else arguments.repeats, arguments.quick, arguments.with_peers)
    _say_where(arguments.core, plan)
    failed = [name for name in arguments.rows or ROWS if not _run(name, plan)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _stay_on(core: int) -> None:
    """Before anything that starts threads is imported; children inherit both."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.sched_setaffinity(0, {core})
    warnings.simplefilter("ignore")  # of peers, about their own dependencies


def _say_where(core: int, plan: Plan) -> None:
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    names = ("numpy", "numba", "torch", "stable-baselines3", "ray", "gymnasium")
    print(f"{_processor()}, core {core} of {os.cpu_count()}, load {load}; medians of {plan.repeats}")
    print(f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in names)}", flush=True)


def _processor() -> str:
    with open("/proc/cpuinfo") as facts:
        return next((line.partition(":")[2].strip() for line in facts if line.startswith("model name")), "unknown")


def _run(name: str, plan: Plan) -> bool:
    module, _, function = ROWS[name][0].partition(":")
    row: Callable[[Plan], None] = getattr(import_module(f"ppo_rows.{module}"), function)
    began = perf_counter()
    try:
        row(plan)
    except GateFailed as reason:
        print(f"{name}: the gate failed, so the speed means nothing: {reason}", flush=True)
        return False
    except PeerMissing as reason:
        print(f"{name}: a peer cannot be had here: {reason}", flush=True)
    print(f"  ({name}: {perf_counter() - began:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    main()
