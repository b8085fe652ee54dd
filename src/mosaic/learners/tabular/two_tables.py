"""Self-play in which each seat learns in a table of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.compiled.board_games.game import Game
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.settings import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining

FIRST, SECOND = "first", "second"
TENSORS = {FIRST: "values", SECOND: "values_second"}  # by seat, in a checkpoint


class TwoTableTraining(TwinTraining):
    """`values` and `visits` are those of the seat that begins."""

    def __init__(self, game: Game, algorithm: str, options: TabularOptions, seed: int) -> None:
        super().__init__(game, algorithm, options, seed, "self")
        self.values_second = self.values.copy()
        self.visits_second = self.visits.copy()

    def advance(self, steps: int, episodes: int = 0) -> None:
        tables, visits = (self.values, self.values_second), (self.visits, self.visits_second)
        kernels.train_two_tables(self.twin, self._moves, tables, visits, self._knobs, self.progress, steps, episodes)

    @property
    def coverage(self) -> float:
        """The share of legal (state, action) pairs that were ever tried, from whichever seat."""
        tried = np.count_nonzero((self.visits > 0) | (self.visits_second > 0))
        return float(tried / np.count_nonzero(self.twin.legal))

    def tensors(self) -> dict[str, NDArray[Any]]:
        second = {TENSORS[SECOND]: self.values_second, "visits_second": self.visits_second}
        return {**super().tensors(), **second}
