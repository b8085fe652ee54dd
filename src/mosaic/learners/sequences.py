"""How rows of many memories become minibatches of whole sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Sequences(NamedTuple):
    """Rows of each slot in time order, behind one another in a table; −1 fills the rest."""

    slots: Ints  # [S]
    rows: Ints  # [S, L]
    learned: NDArray[np.bool_]  # [S, L]: rows that are learned from, not only lived through


def line_up(sequence: Ints, idx: Ints) -> Sequences:
    """The sequences that hold a row of `idx`. The others teach nothing, so they are not replayed."""
    wanted = np.zeros(len(sequence), bool)
    wanted[idx] = True
    wanted &= sequence >= 0
    slots = np.unique(sequence[wanted])
    rows = np.flatnonzero(np.isin(sequence, slots))
    owner = np.searchsorted(slots, sequence[rows])
    order = np.argsort(owner, kind="stable")
    rows, owner = rows[order], owner[order]
    counts = np.bincount(owner, minlength=len(slots))
    position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((len(slots), int(counts.max(initial=0))), -1, np.int64)
    table[owner, position] = rows
    return Sequences(slots, table, (table >= 0) & wanted[table])


def sequences_per_minibatch(sequences: Sequences, batch_size: int) -> int:
    """As many whole sequences as come nearest to the asked number of rows, at least one."""
    mean_length = int(sequences.learned.sum()) / max(len(sequences.slots), 1)
    return max(1, min(round(batch_size / max(mean_length, 1.0)), len(sequences.slots)))


def minibatches(order: Ints, size: int) -> Iterator[Ints]:
    """Slices of one size; the last one holds what is left."""
    for start in range(0, len(order), size):
        yield order[start : start + size]
