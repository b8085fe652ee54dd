"""Benchmarks of PPO, A2C and compiled envs against other libraries: back to back, medians, ratios, gates.

    python benchmarks/ppo.py [ROW …] [--repeats 5] [--quick] [--with-peers] [--core N] [--list]

Every row but two-cores runs on one core with one thread on each side. The speed of something that does not learn is
meaningless, so a row whose learner misses its goal is reported as failed. Peers that cannot share our environment (JAX,
VMAS, Pgx) get one of their own, created in the user's cache folder, if --with-peers is given.
"""

from __future__ import annotations

import os
import warnings

from ppo_rows.measure import Plan, keep_on, usable_cores
from row_table import ONE_THREAD, asked, row_parser, run_rows, say_where

PACKAGES = ("numpy", "numba", "torch", "stable-baselines3", "sb3-contrib", "ray", "gymnasium")
ROWS = {  # name: function and what it compares
    "cartpole": ("single:zoo", "PPO CartPole, rl-zoo hyper-parameters; SB3"),
    "cleanrl": ("single:cleanrl", "PPO CartPole, CleanRL hyper-parameters; the same in one file of torch"),
    "start": ("single:start", "CartPole to 475 from process start, CLI and in process; RLlib's tuned example"),
    "many-envs": ("single:many_envs", "PPO, 1,024 envs, one epoch; JAX (--with-peers)"),
    "two-cores": ("single:two_cores", "PPO, 1,024 envs, two epochs, on two cores; on one"),
    "python-cartpole": ("single:python_cartpole", "PPO on 8 CartPoles in Python; SB3"),
    "python-lander": ("single:python_lander", "PPO on 4 LunarLanders in Python; SB3"),
    "spread": ("several:spread", "simple_spread, shared policy, compiled twin; RLlib, SB3 + SuperSuit"),
    "python-spread": ("several:python_spread", "the same with the Python env; RLlib, SB3 + SuperSuit"),
    "critic": ("critic:critic", "what a centralised critic brings, with its interval"),
    "connect-four": ("several:connect_four", "connect four self-play, moves/s with learning"),
    "a2c": ("single:a2c", "A2C, 8 CartPoles; SB3"),
    "memory": ("memory:memory", "PPO with a GRU and a minGRU on recall; sb3-contrib's RecurrentPPO"),
    "env-cartpole": ("worlds:cartpole", "compiled CartPole; Gymnasium's vector envs"),
    "env-spread": ("worlds:spread", "compiled simple_spread; VMAS (--with-peers)"),
    "env-tictactoe": ("worlds:tictactoe", "compiled tic-tac-toe; Pgx (--with-peers)"),
    "decision": ("moments:decision", "one decision of a 64×64 net, p50; SB3 predict"),
    "kernels": ("moments:kernels", "first iteration with numba's cache, and cold"),
}


def main() -> None:
    parser = row_parser(__doc__)
    parser.add_argument("--with-peers", action="store_true", help="also those that need an environment of their own")
    parser.add_argument("--core", type=int, default=max(usable_cores()), help="the only core that is used")
    arguments = asked(parser, ROWS)
    _stay_on(arguments.core)
    plan = Plan(1 if arguments.quick else arguments.repeats, arguments.quick, arguments.with_peers)
    say_where(f"core {arguments.core} of {os.cpu_count()}", plan, PACKAGES)
    run_rows("ppo_rows", ROWS, arguments.rows, plan)


def _stay_on(core: int) -> None:
    """Pin the process to one core and one thread, before any import that starts threads; children inherit both."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    keep_on({core})
    warnings.simplefilter("ignore")  # from peers, about their own dependencies


if __name__ == "__main__":
    main()
