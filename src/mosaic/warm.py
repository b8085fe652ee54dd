"""Compiles once what is compiled at first use: `python -m mosaic.warm`, part of `make setup`."""

from __future__ import annotations

from time import perf_counter


def warm() -> float:
    """Seconds it took; next to nothing when the caches are warm."""
    start = perf_counter()
    from mosaic.policies.minimax.connect_four import EMPTY, best_moves

    best_moves(EMPTY, depth=1)
    return perf_counter() - start


if __name__ == "__main__":
    print(f"compiled caches are warm ({warm():.1f} s)")
