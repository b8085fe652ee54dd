"""Solve all connect four openings and write the book that `minimax` ships (hours on one core).

python scripts/solve_connect_four_openings.py [--threads 2] [--table-mb 2048]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import mosaic.policies.minimax.connect_four_book as book
from mosaic.policies.minimax.connect_four_search import CELLS, Table, new_scratch, new_table, reaches


def solve(position: book.Position, table: Table) -> int:
    mine, mask = position
    if book.wins_in_one(mine, mask):
        return 1
    stones = np.uint64(mine), np.uint64(mask), mask.bit_count()
    if not reaches(*stones, False, CELLS, table, new_scratch()):
        return -1
    return 1 if reaches(*stones, True, CELLS, table, new_scratch()) else 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--threads", type=int, default=2, help="they share one table")
    arguments.add_argument("--table-mb", type=int, default=2048)
    chosen = arguments.parse_args()
    table = new_table((chosen.table_mb << 17) - 1)  # 8 bytes an entry
    positions = list(book.openings(book.BOOK_PLY)[-1].values())
    values: list[int] = []
    with ThreadPoolExecutor(chosen.threads) as pool:
        for value in pool.map(lambda position: solve(position, table), positions):
            values.append(value)
            if len(values) % 100 == 0:
                print(f"{len(values)} of {len(positions)}", flush=True)
    target = Path(book.__file__).with_name(book.FILE_NAME)
    target.write_bytes(book.pack(values))
    print(
        f"{target}: {len(positions)} positions, {values.count(1)} won, {values.count(0)} drawn, {values.count(-1)} lost"
    )


if __name__ == "__main__":
    main()
