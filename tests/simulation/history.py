"""Replays histories: `python -m tests.simulation.history SEED` prints the trace of one and what broke, if anything;
`python -m tests.simulation.history FIRST LAST` runs many and prints those that break."""

from __future__ import annotations

import logging
import sys
from time import perf_counter

from tests.simulation.kernel import BrokenInvariantError
from tests.simulation.machine import machine


def replay(seed: int) -> int:
    try:
        with machine() as simulated:
            world = simulated.history(seed)
    except BrokenInvariantError as broken:
        print("\n".join(broken.args[1].kernel.trace))
        print(f"BROKEN {broken.args[0]}")
        return 1
    print("\n".join(world.kernel.trace))
    print(f"The history of seed {seed} holds: {world.kernel.calls} system calls.")
    return 0


def survey(first: int, last: int) -> int:
    began_s, broken_seeds = perf_counter(), 0
    with machine() as simulated:
        for seed in range(first, last):
            try:
                simulated.history(seed)
            except BrokenInvariantError as broken:
                broken_seeds += 1
                print(f"BROKEN {broken.args[0]}", flush=True)
    print(f"{last - first} histories, {broken_seeds} broken, {(perf_counter() - began_s) / (last - first):.4f} s each")
    return int(broken_seeds > 0)


if __name__ == "__main__":
    logging.disable()
    seeds = [int(text) for text in sys.argv[1:]]
    sys.exit(replay(*seeds) if len(seeds) == 1 else survey(*seeds))
