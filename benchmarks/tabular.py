"""Benchmarks of tabular learning: ours and the peer back to back, medians, ratios, a gate on every row.

python benchmarks/tabular.py [ROW ...] [--repeats 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

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
    "table_sizes": lambda repeats: table_sizes(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="Only these rows; default: all.")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.rows or ROWS:
        ROWS[name](arguments.repeats)


if __name__ == "__main__":
    main()
