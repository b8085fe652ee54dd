"""Benchmarks of Godot games: the cost of a step over a bare socket loop, games in parallel, and learning.

    python benchmarks/godot.py [ROW …] [--repeats 5] [--quick] [--list]

The game is examples/godot/orchard3 in the real engine (godot3-server). Round trip: the same game, seed and messages,
once through the env, once by a loop that sends bytes made in advance and reads the answer without looking at it, and
once by a client that writes and parses the messages but checks nothing; the three are alternated. On a busy machine put
`chrt -f 1` (root) before the command: other programs then do not interrupt a step. Learning: a row whose learner misses
the stated return has failed.
"""

from __future__ import annotations

import os
import warnings

from ppo_rows.measure import Plan
from row_table import ONE_THREAD, asked, row_parser, run_rows, say_where

PACKAGES = ("numpy", "gymnasium", "msgspec")
ROWS = {  # name: function and what it shows
    "round-trip": ("round_trip:game", "a step of the env; bare loop to the same game. At most 1.3×"),
    "echo": ("round_trip:echo", "the same against a peer that computes nothing: the env's own microseconds"),
    "games": ("games:games", "steps/s of 1, 2 and 4 games in one vector env"),
    "native": ("learning:native", "two policies, by the names that the game declares, to a return of 6"),
    "sb3": ("learning:sb3", "one policy for both agents, to a return of 6"),
    "rllib": ("learning:rllib", "two policies, by the names that the game declares, to a return of 6"),
}


def main() -> None:
    arguments = asked(row_parser(__doc__), ROWS)
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), RAY_USAGE_STATS_ENABLED="0")
    warnings.simplefilter("ignore")  # from RLlib, about its own dependencies
    plan = Plan(1 if arguments.quick else arguments.repeats, arguments.quick, with_peers=False)
    say_where(f"{os.cpu_count()} cores", plan, PACKAGES)
    run_rows("godot_rows", ROWS, arguments.rows, plan)


if __name__ == "__main__":
    main()
