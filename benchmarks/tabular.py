"""Benchmarks of tabular learning: ours and the peer back to back, medians, ratios, a gate on every row.

python benchmarks/tabular.py [ROW …] [--repeats 5] [--quick]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from figures import loosen_goals
from row_table import run_row
from tabular_rows.envs import direct, python_engines, python_env, toy_text
from tabular_rows.games import against_random, cluster, cores, public_command, self_play, train_command
from tabular_rows.sizes import table_sizes

ROWS: dict[str, Callable[[int], None]] = {
    "against_random": against_random,
    "cores": cores,
    "cluster": cluster,
    "self_play": self_play,
    "train_command": train_command,
    "toy_text": toy_text,
    "python_env": python_env,
    "direct": direct,
    "python_engines": python_engines,
    "public_command": lambda repeats: public_command(),
    "table_sizes": table_sizes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="Only these rows; default: all.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat")
    arguments = parser.parse_args()
    if arguments.quick:
        loosen_goals()
    repeats = 1 if arguments.quick else arguments.repeats
    failed = [name for name in arguments.rows or ROWS if not run_row(name, partial(ROWS[name], repeats))]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
