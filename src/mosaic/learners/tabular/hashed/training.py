"""Training on a hashed table: self-play in connect four, resumable after any move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from mosaic.core.errors import InputError
from mosaic.envs.compiled.board_games.connect_four import COLUMNS
from mosaic.learners.tabular.hashed.table import HashedTable
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.kernels.hashed import connect_four_moves, train_connect_four
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.random import stream
from mosaic.learners.tabular.save_load import Tensors, read_table
from mosaic.learners.tabular.training.twin import Statistics, knobs_of, take_statistics

FILE = "hashed.safetensors"
FIRST_CAPACITY = 2**16


class HashedTraining:
    """One learner for both players, one table that grows with the positions it meets, one random stream."""

    def __init__(
        self,
        algorithm: str,
        options: TabularOptions,
        seed: int,
        memory_limit: int | None = None,
        capacity: int = FIRST_CAPACITY,
    ) -> None:
        self._knobs = knobs_of(algorithm, options)
        if algorithm != "q_learning":
            raise InputError(f"Games are trained with q_learning, not {algorithm}.")
        self.table = HashedTable(COLUMNS, capacity, options.dtype, options.initial_value, memory_limit)
        self._moves = connect_four_moves()
        self.progress = kernels.new_progress(options.epsilon, stream(seed, "tabular"), stream(seed, "env"))

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Play this many moves, or until `episodes` have ended in all (0: no limit); release the GIL."""
        goal = self.env_steps + steps
        while True:
            table = self.table
            left = goal - self.env_steps
            train_connect_four(table.rows, table.most_filled, self._moves, self._knobs, self.progress, left, episodes)
            if self.env_steps >= goal or (episodes and self.episodes >= episodes):
                return
            table.grow()

    @property
    def env_steps(self) -> int:
        return int(self.progress.counts[kernels.STEPS])

    @property
    def agent_steps(self) -> int:
        return int(self.progress.counts[kernels.AGENT_STEPS])

    @property
    def episodes(self) -> int:
        return int(self.progress.counts[kernels.EPISODES])

    @property
    def coverage(self) -> float:
        """Fraction of (position, column) pairs ever tried, among the positions that were met."""
        pairs = len(self.table) * COLUMNS
        return float(np.count_nonzero(self.table.rows.visits) / pairs) if pairs else 0.0

    def read_statistics(self) -> Statistics:
        """Return the statistics and reset them."""
        return take_statistics(self.progress)

    def tensors(self) -> Tensors:
        """Return all that training needs to resume bit for bit; rows by ascending key, whatever their index was."""
        rows = self.table.sorted_rows()
        return {
            "keys": rows.keys,
            "values": rows.values,
            "visits": rows.visits,
            "new_row": self.table.new_row(),
            "counts": self.progress.counts,
            "sums": self.progress.sums,
        }

    def save(self, folder: Path) -> None:
        save_file(self.tensors(), folder / FILE)

    def restore(self, folder: Path, env_steps: int) -> None:
        tensors = read_table(folder / FILE)
        if not np.array_equal(tensors["new_row"], self.table.new_row()):
            raise InputError(
                f"The saved table began at {tensors['new_row'].flat[0]}, but this run's initial_value is "
                f"{self.table.initial_value}."
            )
        self.table.fill(tensors["keys"], tensors["values"], tensors["visits"])
        self.progress.counts[:] = tensors["counts"]
        self.progress.sums[:] = tensors["sums"]
