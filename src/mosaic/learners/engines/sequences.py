"""Sequences of a rollout's rows, as networks with memory replay them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.models.engine import Ints


class Sequences(NamedTuple):
    """Rows of each slot in time order, one table row per sequence; padded with −1."""

    slots: Ints  # [S]
    rows: Ints  # [S, L]
    learned: NDArray[np.bool_]  # [S, L]: rows that are learned from, not only replayed


def line_up(sequence: Ints, idx: Ints) -> Sequences:
    """Return the sequences that hold a row of `idx`; nothing is learned from the others, so they are not replayed."""
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


class EpisodeParts(NamedTuple):
    """Rows of each slot, cut where an episode begins: memories are empty there, so the parts can be replayed apart."""

    sequence: Ints  # [rows] the part that a row belongs to; −1: none
    slots: Ints  # [parts] the slot whose state a part begins with; −1: it begins an episode, or its slot is new


def cut_at_episodes(sequence: Ints, first: NDArray[np.uint8]) -> EpisodeParts:
    rows = np.flatnonzero(sequence >= 0)
    rows = rows[np.argsort(sequence[rows], kind="stable")]  # by slot, in time order
    slots = sequence[rows]
    new_slot = np.diff(slots, prepend=-1) != 0
    begins = new_slot | (first[rows] > 0)
    parts = np.full(len(sequence), -1, np.int64)
    parts[rows] = np.cumsum(begins) - 1
    return EpisodeParts(parts, np.where(new_slot & (first[rows] == 0), slots, -1)[begins])


def sequences_per_minibatch(sequences: Sequences, batch_size: int) -> int:
    """Return the number of whole sequences nearest to the requested number of rows, at least one."""
    mean_length = int(sequences.learned.sum()) / max(len(sequences.slots), 1)
    return max(1, min(round(batch_size / max(mean_length, 1.0)), len(sequences.slots)))


def largest_minibatch(sequences: Sequences, size: int) -> int:
    """Return the most rows that `size` of the sequences can have."""
    counts = np.sort(sequences.learned.sum(1))
    return int(counts[-size:].sum())


def minibatches(order: Ints, size: int) -> Iterator[Ints]:
    """Yield slices of one size; the last one may be shorter."""
    for start in range(0, len(order), size):
        yield order[start : start + size]
