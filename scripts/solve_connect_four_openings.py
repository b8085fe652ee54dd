"""Generator of the connect four opening book that `minimax` ships.

On a GPU (under a minute on an H200; this is how the shipped file was made):

    python scripts/solve_connect_four_openings.py positions positions.bin
    nvcc -O3 -arch=native -o solve scripts/solve_connect_four_openings.cu
    ./solve positions.bin values.bin 600 100
    python scripts/solve_connect_four_openings.py pack values.bin

With the search that `minimax` itself uses (hours), for all openings or to check every Nth of the book:

    python scripts/solve_connect_four_openings.py search values.bin
    python scripts/solve_connect_four_openings.py check 1000
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import mosaic.policies.minimax.connect_four_book as book
from mosaic.envs.compiled.board_games.connect_four_bits import CELLS
from mosaic.policies.minimax.connect_four_search import Table, new_scratch, new_table, reaches


def hard_openings() -> list[tuple[np.uint64, np.uint64]]:
    """Return the mover's stones and all stones of every position whose value the file holds, in its order."""
    last = book.openings(book.BOOK_PLY)[-1]
    return list(zip(last.mine[~last.won], last.mask[~last.won], strict=True))


def solve(mine: np.uint64, mask: np.uint64, table: Table) -> int:
    position = mine, mask, int(mask).bit_count()
    if reaches(*position, True, CELLS, table, new_scratch()):
        return 1
    return 0 if reaches(*position, False, CELLS, table, new_scratch()) else -1


def check(step: int) -> None:
    openings, table = hard_openings()[::step], new_table()
    for mine, mask in openings:
        found, kept = solve(mine, mask, table), book.book_value(int(mine), int(mask))
        if found != kept:
            sys.exit(f"The book says {kept} of {int(mine):#x}, {int(mask):#x}; the search says {found}.")
    print(f"{len(openings)} positions agree.")


def pack(source: Path) -> None:
    values = np.fromfile(source, np.int8)
    if len(values) != len(hard_openings()) or not np.isin(values, (-1, 0, 1)).all():
        sys.exit(f"{source} does not hold the values of all {len(hard_openings())} positions.")
    target = Path(book.__file__).with_name(book.FILE_NAME)
    target.write_bytes(book.pack(values))
    print(f"{target}: {target.stat().st_size} bytes")


def main() -> None:
    match sys.argv[1:]:
        case ["positions", target]:
            np.array(hard_openings(), np.uint64).tofile(target)
        case ["search", target]:
            table = new_table(1 << 28)  # 2 GB
            np.array([solve(mine, mask, table) for mine, mask in hard_openings()], np.int8).tofile(target)
        case ["check", step]:
            check(int(step))
        case ["pack", source]:
            pack(Path(source))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
