"""Tables from the size of the first-level cache to 10**8 entries, beside the latency of memory of that size."""

from __future__ import annotations

from typing import Any

import numpy as np
from tabular_rows.rows import row, seconds

from mosaic.envs.compiled.mdp.mdp import Mdp
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining


def table_sizes(repeats: int) -> None:
    """Measure tables from the size of the first-level cache to 10**8 entries; with one repeat to 10**7: 1 GB, not 5.

    An update touches two rows of the table, a count of visits and the env's own arrays (next state, reward, end,
    threshold, legal actions), which are larger than the table.
    """
    sizes = (1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 22, 25_000_000)
    for states in sizes if repeats > 1 else sizes[:-1]:
        training = TwinTraining(_random_mdp(states), "q_learning", TabularOptions(), 0)
        training.advance(100_000)
        taken = [1e3 * seconds(lambda t=training: t.advance(1_000_000)) for _ in range(3)]
        entries, size = training.values.size, training.values.nbytes / 2**20
        del training
        table = f"table of {entries:,} entries ({size:,.3f} MiB)"
        row(f"{table}: an update", taken, "ns")
        row(f"{table}: a read that waits for the one before", _read_ns(entries), "ns")


def _random_mdp(states: int) -> Mdp:
    random = np.random.default_rng(1)
    shape = (states, 4, 1)
    return Mdp(
        random.integers(states, size=shape, dtype=np.int32), np.full(shape, 2.0), random.random(shape),
        np.zeros(shape, np.uint8), np.zeros(1, np.int32), np.full(1, 2.0), np.ones((states, 4), np.uint8), 0,
    )  # fmt: skip


def _read_ns(entries: int, steps: int = 1_000_000) -> list[float]:
    """Measure the latency of memory of the table's size: a cycle through all entries, each naming the next.

    The step of a linear congruential generator is a single cycle where the multiplier minus one is divisible by 4 and
    by each prime factor of the number of entries (here 2 and 5), and the increment shares none with it.
    """
    from numba import njit

    @njit
    def chase(ring: Any, steps: int) -> int:
        place = np.int64(0)
        for _ in range(steps):
            place = np.int64(ring[place])
        return place

    ring = ((np.arange(entries) * 1_664_525_021 + 1_013_904_223) % entries).astype(np.int32)
    chase(ring, 1000)
    return [seconds(lambda: chase(ring, steps)) / steps * 1e9 for _ in range(3)]
