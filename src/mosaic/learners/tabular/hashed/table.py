"""Hashed table for states that cannot be enumerated: rows are found by a key, and only states that were met have one.

Open addressing with linear probing. A row's index changes when the table grows, so rows are identified by key and never
by index; a compiled loop may add rows while there is room (`Rows.filled` against `most_filled`) but cannot grow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mosaic.core.errors import InputError
from mosaic.core.machine import free_memory
from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import draw
from mosaic.learners.tabular.experience import Values

EMPTY = np.uint64(0)  # the one key that no state may have
NOWHERE = -1
LOAD_PERCENT = 60  # above it runs of full entries, and so the probes of a search, grow quickly
LEAST_CAPACITY = 16
_ONE = np.uint64(1)


class Rows(NamedTuple):
    """Arrays as compiled loops take them; an entry whose key is EMPTY is free."""

    keys: NDArray[np.uint64]  # [places]
    values: Values  # [places, actions]
    visits: NDArray[np.int32]  # [places, actions]
    filled: NDArray[np.int64]  # [1]: number of entries in use


class HashedTable:
    """Values and visits by key; the capacity is a power of two, of which at most 60 % is ever used."""

    def __init__(
        self,
        actions: int,
        capacity: int = 2**16,
        dtype: str = "float32",
        initial_value: float = 0.0,
        memory_limit: int | None = None,
    ) -> None:
        """Create the table; `memory_limit` in bytes includes the copy while it grows (None: what is free then)."""
        if actions < 1 or capacity < 1:
            raise InputError(f"A table needs at least 1 action and 1 place, not {actions} and {capacity}.")
        self.actions, self.dtype, self.initial_value = actions, np.dtype(dtype), initial_value
        self.memory_limit = memory_limit
        places = _power_of_two(capacity)
        self._refuse_too_large(places, 0)
        self.rows = self._new_rows(places)

    @property
    def capacity(self) -> int:
        return len(self.rows.keys)

    @property
    def most_filled(self) -> int:
        """Number of rows that fit before the table has to grow."""
        return self.capacity * LOAD_PERCENT // 100

    @property
    def nbytes(self) -> int:
        return self._bytes(self.capacity)

    def __len__(self) -> int:
        return int(self.rows.filled[0])

    def find(self, key: int) -> int | None:
        """Return the index of a known state, valid until the table grows."""
        row = int(find(self.rows.keys, _checked(key)))
        return None if row == NOWHERE else row

    def add(self, key: int) -> int:
        """Return the index of a known or new state; grow where there is no room."""
        checked = _checked(key)
        if len(self) >= self.most_filled:
            self.grow()
        return int(find_or_add(self.rows.keys, self.rows.filled, checked))

    def grow(self) -> None:
        """Double the capacity; on an error nothing has changed."""
        self._refuse_too_large(2 * self.capacity, self.capacity)
        larger = self._new_rows(2 * self.capacity)
        _copy(self.rows, larger)
        self.rows = larger

    def new_row(self) -> Values:
        """Return the values [1, actions] of a state that was never met."""
        return np.full((1, self.actions), self.initial_value, self.dtype)

    def sorted_rows(self) -> Rows:
        """Return a copy of the rows in use by ascending key: equal for equal tables, however they grew."""
        keys, values, visits, filled = self.rows
        places = np.flatnonzero(keys)
        places = places[np.argsort(keys[places])]
        return Rows(keys[places], values[places], visits[places], filled.copy())

    def fill(self, keys: NDArray[np.uint64], values: Values, visits: NDArray[np.int32]) -> None:
        """Replace the contents with these rows, as `sorted_rows` returned them."""
        shape = (len(keys), self.actions)
        for name, array, dtype, wanted in (
            ("keys", keys, np.dtype(np.uint64), shape[:1]),
            ("values", values, self.dtype, shape),
            ("visits", visits, np.dtype(np.int32), shape),
        ):
            if array.shape != wanted or array.dtype != dtype:
                raise InputError(
                    f"The saved '{name}' is {array.dtype} {array.shape}, but this run's is {dtype} {wanted}."
                )
        if np.any(keys == EMPTY) or np.any(keys[1:] <= keys[:-1]):
            raise InputError("The saved keys are not in increasing order from 1: this is not a hashed table.")
        places = self.capacity
        while places * LOAD_PERCENT // 100 < len(keys):
            places *= 2
        self._refuse_too_large(places, self.capacity)
        rows = self._new_rows(places)
        _copy(Rows(keys, values, visits, np.array([len(keys)])), rows)
        self.rows = rows

    def _new_rows(self, places: int) -> Rows:
        return Rows(
            np.zeros(places, np.uint64),
            np.full((places, self.actions), self.initial_value, self.dtype),
            np.zeros((places, self.actions), np.int32),
            np.zeros(1, np.int64),
        )

    def _bytes(self, places: int) -> int:
        return places * (8 + self.actions * (self.dtype.itemsize + 4))

    def _refuse_too_large(self, places: int, beside: int) -> None:
        """Raise InputError where the table does not fit; `beside` is the old one's capacity, kept while copying."""
        needed = self._bytes(places)
        if self.memory_limit is None:
            room, bound = free_memory(), "are free here"
        else:
            room, bound = self.memory_limit - self._bytes(beside), "are left by the limit"
        if needed <= room:
            return
        raise InputError(
            f"A hashed table of {places:,} places × {self.actions} actions needs {needed:,} bytes; {max(room, 0):,} "
            f"{bound}{self._standing()}. Train for fewer steps, explore less, use dtype float32, or a worker that "
            "learns a function instead of a table: --worker native"
        )

    def _standing(self) -> str:
        if not hasattr(self, "rows"):
            return ""
        return f" beside the {self.nbytes:,} bytes that hold {len(self):,} states now"


def _power_of_two(capacity: int) -> int:
    return max(LEAST_CAPACITY, 1 << (capacity - 1).bit_length())


def _checked(key: int) -> np.uint64:
    if not 0 < key < 2**64:
        raise InputError(f"The key is {key}; it should be in 1..2**64-1, since 0 marks a free place.")
    return np.uint64(key)


def find_sorted(keys: NDArray[np.uint64], key: ArrayLike) -> int | None:
    """Return the index of a key among sorted ones, to read a saved table without rebuilding it."""
    wanted = np.uint64(key)  # type: ignore[arg-type]
    place = int(np.searchsorted(keys, wanted))
    return place if place < len(keys) and keys[place] == wanted else None


@njit(cache=True, nogil=True, error_model="numpy")
def place_of(keys, key):  # type: ignore[no-untyped-def]
    """Return the index of the key, or of the free entry where it belongs."""
    last = np.uint64(keys.shape[0] - 1)
    place = draw(key, EMPTY) & last  # spreads keys that differ in few bits over all entries
    while keys[place] != key and keys[place] != EMPTY:
        place = (place + _ONE) & last
    return np.int64(place)


@njit(cache=True, nogil=True, error_model="numpy")
def find(keys, key):  # type: ignore[no-untyped-def]
    """Return the row of a key, or NOWHERE."""
    place = place_of(keys, key)
    return place if keys[place] == key else np.int64(NOWHERE)


@njit(cache=True, nogil=True, error_model="numpy")
def find_or_add(keys, filled, key):  # type: ignore[no-untyped-def]
    """Return the row of a key, adding it if it is new; the calling loop ensures that there is room."""
    place = place_of(keys, key)
    if keys[place] == EMPTY:
        keys[place] = key
        filled[0] += 1
    return place


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(old, new):  # type: ignore[no-untyped-def]
    for place in range(old.keys.shape[0]):
        if old.keys[place] != EMPTY:
            row = find_or_add(new.keys, new.filled, old.keys[place])
            for action in range(old.values.shape[1]):
                new.values[row, action] = old.values[place, action]
                new.visits[row, action] = old.visits[place, action]
