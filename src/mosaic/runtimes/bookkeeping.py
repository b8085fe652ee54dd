"""Base class for training one table with several processes, with the state kept by the driver.

A round is dealt out as exact shares from one base, and is recorded when all of it is done: the table, and every
learner's progress with its position in its own random stream. Between two rounds the processes hold no state that the
driver does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.learners.tabular.experience import Values, Visits
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.save_load import Tensors, read_table
from mosaic.learners.tabular.training.mdp import open_training
from mosaic.learners.tabular.training.twin import (
    FILE,
    Opponent,
    Statistics,
    Twin,
    TwinTraining,
    save_tensors,
    take_statistics,
)
from mosaic.runtimes.merging import Delta, apply, combine, delta
from mosaic.runtimes.parallel import shares, together


class WorkShare(NamedTuple):
    """Work of one learner in one round."""

    number: int  # index of the learner
    steps: int
    episodes: int  # total number of ended episodes to stop at; 0: no limit


class ShareReport(NamedTuple):
    """Result of a share."""

    change: Delta
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]


def run_share(
    training: TwinTraining,
    base: tuple[Values, Visits],
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    share: WorkShare,
) -> ShareReport:
    """Train a share from a base and a learner's progress."""
    values, visits = base
    training.load({"values": values, "visits": visits, "counts": counts, "sums": sums})
    training.advance(share.steps, share.episodes)
    change = delta(values, visits, training.values, training.visits)
    return ShareReport(change, training.progress.counts, training.progress.sums)


class SpreadTraining(ABC):
    """Multi-process counterpart of ParallelTraining, with identical values. Call `close` at the end."""

    def __init__(
        self,
        twin: Twin,
        algorithm: str,
        options: TabularOptions,
        seed: int,
        opponent: Opponent,
        learners: int,
        merge_every: int,
    ) -> None:
        self._table = open_training(twin, algorithm, options, seed, opponent)  # never advances; validates the arguments
        start = self._table.progress
        self._progress = [start._replace(counts=start.counts.copy(), sums=start.sums.copy()) for _ in range(learners)]
        self._seeds = [child_seed(seed, "learner", number) for number in range(learners)]
        self._merge_every = merge_every

    @abstractmethod
    def _round(self, work: Sequence[WorkShare]) -> None:
        """Run the shares from one base and update the recorded state."""

    @abstractmethod
    def close(self) -> None:
        """End the processes. Calling it again does nothing."""

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Take exactly this many agent steps over all learners, or stop once `episodes` have ended in total."""
        parts = len(self._progress)
        while steps > 0:
            missing = episodes - self.episodes if episodes else 0
            if episodes and missing <= 0:
                return
            before = self.agent_steps
            ask = shares(min(steps, self._merge_every * parts), parts)
            ends = shares(missing, parts) if episodes else [0] * parts
            self._round(
                [
                    WorkShare(number, own, _count(self._progress[number], kernels.EPISODES) + end if episodes else 0)
                    for number, (own, end) in enumerate(zip(ask, ends, strict=True))
                    if own and (end or not episodes)
                ]
            )
            steps -= self.agent_steps - before

    def _record(self, work: Sequence[WorkShare], reports: Sequence[ShareReport]) -> None:
        """Merge the results of all shares of a round, in the order of the work."""
        values, visits = apply(self.values, self.visits, combine([report.change for report in reports]))
        for share, report in zip(work, reports, strict=True):
            progress = self._progress[share.number]
            progress.counts[:], progress.sums[:] = report.counts, report.sums
        self._table.values, self._table.visits = values, visits.astype(self.visits.dtype, copy=False)

    @property
    def progress(self) -> list[kernels.LoopProgress]:
        """Progress of each learner."""
        return self._progress

    @property
    def twin(self) -> Twin:
        return self._table.twin

    @property
    def values(self) -> Values:
        return self._table.values

    @property
    def visits(self) -> Visits:
        return self._table.visits

    @property
    def coverage(self) -> float:
        return self._table.coverage

    @property
    def env_steps(self) -> int:
        return sum(_count(progress, kernels.STEPS) for progress in self._progress)

    @property
    def agent_steps(self) -> int:
        return sum(_count(progress, kernels.AGENT_STEPS) for progress in self._progress)

    @property
    def episodes(self) -> int:
        return sum(_count(progress, kernels.EPISODES) for progress in self._progress)

    def read_statistics(self) -> Statistics:
        return together([take_statistics(progress) for progress in self._progress])

    def tensors(self) -> Tensors:
        """Return the tensors in ParallelTraining's format: each class can resume the other's checkpoints."""
        return {
            "values": self.values,
            "visits": self.visits,
            "counts": np.stack([progress.counts for progress in self._progress]),
            "sums": np.stack([progress.sums for progress in self._progress]),
        }

    def save(self, folder: Path) -> None:
        save_tensors(folder, self.tensors())

    def restore(self, folder: Path, env_steps: int) -> None:
        tensors = read_table(folder / FILE)
        if len(tensors["counts"]) != len(self._progress):
            raise InputError(
                f"The checkpoint was written by {len(tensors['counts'])} learners; resume it with "
                f"--num-env-runners {len(tensors['counts'])}."
            )
        for number, progress in enumerate(self._progress):
            progress.counts[:], progress.sums[:] = tensors["counts"][number], tensors["sums"][number]
        self._table.load({**tensors, "counts": tensors["counts"][0], "sums": tensors["sums"][0]})


def _count(progress: kernels.LoopProgress, place: int) -> int:
    return int(progress.counts[place])
