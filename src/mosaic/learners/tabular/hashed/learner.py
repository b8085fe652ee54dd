"""Tabular learner whose rows are allocated as states are met, and the keys of states.

A state's row never changes, so every algorithm and every engine works on it as on a table of all states, and gives the
same numbers: only the set of rows differs. Keys are exact where 64 bits suffice, else hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from mosaic.core.errors import FormatError, InputError
from mosaic.core.machine import free_memory
from mosaic.core.turn import Observation
from mosaic.envs.codes import SpaceCode
from mosaic.envs.codes.space_code import count_text
from mosaic.learners.tabular.engines.base import EngineState, first_snapshot, open_engine, table_bytes
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.random import stream

KEY_BITS = 64
KeyOf: TypeAlias = Callable[[Observation], int]
FIRST_ROWS = 1024
BYTES_PER_KEY = 100  # of a dictionary from int to int, on average between two of its own growths


class HashedLearner(TabularLearner):
    """Learner on a growing table; `row(key)` is the state that the other methods take."""

    def __init__(
        self,
        actions: int,
        algorithm: str = "q_learning",
        options: TabularOptions | None = None,
        seed: int = 0,
        *,
        memory_limit: int | None = None,
        rows: int = FIRST_ROWS,
    ) -> None:
        """Create the learner; `memory_limit` in bytes includes the copy while it grows (None: what is free then)."""
        self.memory_limit = memory_limit
        self._rows: dict[int, int] = {}
        super().__init__(rows, actions, algorithm, options, seed)

    def __len__(self) -> int:
        """Return the number of states that were met."""
        return len(self._rows)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Keys by row."""
        return np.fromiter(self._rows, np.uint64, len(self._rows))

    def row(self, key: int) -> int:
        """Return the row of a known or new state; grow the table where there is no room."""
        row = self._rows.get(key)
        return self._add(key) if row is None else row

    def find(self, key: int) -> int | None:
        return self._rows.get(key)

    def new_row(self) -> Values:
        """Return the values [1, actions] of a state that was never met."""
        return np.full((1, self.actions), self.options.initial_value, self.options.dtype)

    def save(self, path: Path | str) -> None:
        """Save an ordinary table of the rows in use, and their keys beside it."""
        path = Path(path)
        rows = max(1, len(self))
        taken = TabularLearner(
            rows, self.actions, self.algorithm, self.options, self.seed, start=_cut(self._engine.snapshot(), rows)
        )
        taken.episodes, taken.epsilon = self.episodes, self.epsilon
        taken.save(path)
        save_file({"keys": self.keys}, keys_file(path))

    @classmethod
    def load(cls, path: Path | str, memory_limit: int | None = None) -> Self:
        path = Path(path)
        saved = TabularLearner.load(path)
        keys = load_file(keys_file(path))["keys"]
        if max(1, len(keys)) != saved.states or keys.dtype != np.uint64 or len(np.unique(keys)) != len(keys):
            raise FormatError(f"{keys_file(path)} does not hold one key for each of the {saved.states:,} rows.")
        learner = cls(saved.actions, saved.algorithm, saved.options, saved.seed, memory_limit=memory_limit, rows=1)
        learner._take(saved, keys.tolist())
        return learner

    def _take(self, saved: TabularLearner, keys: Iterable[int]) -> None:
        self._engine, self.states = saved._engine, saved.states
        self.episodes = saved.episodes
        self._rows = {key: row for row, key in enumerate(keys)}

    def _add(self, key: int) -> int:
        if len(self._rows) == self.states:
            self._grow(2 * self.states)
        self._rows[key] = row = len(self._rows)
        return row

    def _grow(self, rows: int) -> None:
        """Add rows; on an error nothing has changed."""
        old, epsilon = self._engine.snapshot(), self.epsilon
        self._refuse_too_large(rows, len(old.values))
        new = first_snapshot(rows, self.actions, self.algorithm, self.options, stream(self.seed, "tabular"))
        new.values[:, : self.states], new.visits[: self.states] = old.values, old.visits
        self._engine = open_engine(old._replace(values=new.values, visits=new.visits), self.algorithm, self.options)
        self._engine.epsilon = epsilon
        self.states = rows

    def _refuse_too_large(self, rows: int, layers: int) -> None:
        """Raise InputError where a larger table does not fit; the old one exists until all is copied."""
        needed = table_bytes(rows, self.actions, layers, self.options) + rows * BYTES_PER_KEY
        now = table_bytes(self.states, self.actions, layers, self.options) + self.states * BYTES_PER_KEY
        if self.memory_limit is None:
            room, bound = free_memory(), "are free here"
        else:
            room, bound = self.memory_limit - now, "are left by the limit"
        if needed > room:
            raise InputError(
                f"A hashed table of {rows:,} rows × {self.actions:,} actions needs {needed:,} bytes; "
                f"{max(room, 0):,} {bound} beside the {now:,} bytes that hold {len(self):,} states now. Use fewer "
                "bins, train for fewer steps, explore less, use dtype float32, or a worker that learns a function "
                "instead of a table: --worker native"
            )


def keys_file(path: Path) -> Path:
    return path.with_suffix(".keys.safetensors")


def _cut(snapshot: EngineState, rows: int) -> EngineState:
    values, visits = snapshot.values[:, :rows], snapshot.visits[:rows]
    return snapshot._replace(values=np.ascontiguousarray(values), visits=np.ascontiguousarray(visits))


def is_exact(code: SpaceCode) -> bool:
    """Return whether every state has its own key."""
    return code.size <= 1 << KEY_BITS


def keys_of(code: SpaceCode) -> KeyOf:
    """Return the code itself where it fits; else a hash of it, the same on every machine."""
    if is_exact(code):
        return code.encode
    width = ((code.size - 1).bit_length() + 7) // 8

    def key(observation: Observation) -> int:
        whole = code.encode(observation).to_bytes(width, "little")
        return int.from_bytes(blake2b(whole, digest_size=KEY_BITS // 8).digest(), "little")

    return key


def describe_keys(code: SpaceCode) -> str:
    """Describe the keys for readers of the log."""
    if is_exact(code):
        return f"{count_text(code.size)} states, each with a key of its own"
    return (
        f"{count_text(code.size)} states, more than {KEY_BITS} bits can number, so each is known by a hash: the "
        f"probability that any two of a million states share one is 1 in {round(1 / collision_odds(10**6)):,}"
    )


def collision_odds(states: int) -> float:
    """Return an upper bound (birthday bound) on the probability that any two of `states` states share a hash."""
    return min(1.0, states * (states - 1) / 2 / 2.0**KEY_BITS)
