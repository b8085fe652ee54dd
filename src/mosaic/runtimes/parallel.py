"""Several learners in one process, on all cores: the compiled loops release the GIL.

A small table is private to each learner and merged periodically: two cores that write into the same cache lines are
slower than one. A large table is shared without locks: its rows rarely collide, a lost update is one of millions, and
copies would not fit into memory. From `SHARED_FROM_BYTES` on, sharing is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from mosaic.core.errors import InputError
from mosaic.core.machine import available_cores
from mosaic.learners.tabular.experience import Values, Visits
from mosaic.learners.tabular.kernels.loops import LoopProgress
from mosaic.learners.tabular.save_load import Tensors, read_table
from mosaic.learners.tabular.training.twin import FILE, Statistics, Twin, TwinTraining, save_tensors
from mosaic.runtimes.merging import merge

SHARED_FROM_BYTES = 64 * 2**20


class ParallelTraining:
    """Training in threads. `make(number)` creates the learner of that index, each with its own random stream."""

    def __init__(
        self, make: Callable[[int], TwinTraining], learners: int, merge_every: int, shared: bool | None = None
    ) -> None:
        self._learners = [make(number) for number in range(learners)]
        self._merge_every = merge_every
        first = self._learners[0]
        self.shared = first.values.nbytes >= SHARED_FROM_BYTES if shared is None else shared
        if self.shared:
            for learner in self._learners:
                learner.values, learner.visits, learner.sole_writer = first.values, first.visits, False
        self._base_values, self._base_visits = first.values.copy(), first.visits.copy()
        cores = available_cores()  # with fewer cores than learners some wait; the result is the same
        self._pool = ThreadPoolExecutor(min(learners, cores), thread_name_prefix="learner")

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Take exactly this many agent steps over all learners, or stop once `episodes` have ended in total."""
        while steps > 0:
            missing = episodes - self.episodes if episodes else 0
            if episodes and missing <= 0:
                return
            before = self.agent_steps
            ask = shares(min(steps, self._merge_every * len(self._learners)), len(self._learners))
            ends = shares(missing, len(self._learners)) if episodes else [0] * len(self._learners)
            work = [
                (learner, own, learner.episodes + end if episodes else 0)
                for learner, own, end in zip(self._learners, ask, ends, strict=True)
                if own and (end or not episodes)
            ]
            list(self._pool.map(lambda each: each[0].advance(each[1], each[2]), work))
            if not self.shared:
                self._merge()
            steps -= self.agent_steps - before

    def _merge(self) -> None:
        learners = self._learners
        values, visits = merge(
            self._base_values, [each.values for each in learners], self._base_visits, [each.visits for each in learners]
        )
        for learner in learners:
            learner.values[:], learner.visits[:] = values, visits
        self._base_values, self._base_visits = values, visits.astype(self._base_visits.dtype)

    @property
    def progress(self) -> list[LoopProgress]:
        """Progress of each learner."""
        return [learner.progress for learner in self._learners]

    @property
    def round_steps(self) -> int:
        """Agent steps between two merges: advancing by any multiple of them gives the same result."""
        return self._merge_every * len(self._learners)

    @property
    def twin(self) -> Twin:
        return self._learners[0].twin

    @property
    def values(self) -> Values:
        return self._learners[0].values

    @property
    def visits(self) -> Visits:
        return self._learners[0].visits

    @property
    def env_steps(self) -> int:
        return sum(learner.env_steps for learner in self._learners)

    @property
    def agent_steps(self) -> int:
        return sum(learner.agent_steps for learner in self._learners)

    @property
    def episodes(self) -> int:
        return sum(learner.episodes for learner in self._learners)

    @property
    def coverage(self) -> float:
        return self._learners[0].coverage

    def read_statistics(self) -> Statistics:
        return together([learner.read_statistics() for learner in self._learners])

    def tensors(self) -> Tensors:
        parts = [learner.tensors() for learner in self._learners]
        return {
            "values": parts[0]["values"],
            "visits": parts[0]["visits"],
            "counts": np.stack([part["counts"] for part in parts]),
            "sums": np.stack([part["sums"] for part in parts]),
        }

    def save(self, folder: Path) -> None:
        save_tensors(folder, self.tensors())

    def restore(self, folder: Path, env_steps: int) -> None:
        tensors = read_table(folder / FILE)
        if len(tensors["counts"]) != len(self._learners):
            raise InputError(
                f"The checkpoint was written by {len(tensors['counts'])} learners; resume it with "
                f"--num-env-runners {len(tensors['counts'])}."
            )
        for number, learner in enumerate(self._learners):
            own = {"counts": tensors["counts"][number], "sums": tensors["sums"][number]}
            learner.load({**tensors, **own})
        self._base_values, self._base_visits = self.values.copy(), self.visits.copy()


def shares(total: int, parts: int) -> list[int]:
    """Split a whole number into parts that are as equal as possible."""
    each, rest = divmod(total, parts)
    return [each + (number < rest) for number in range(parts)]


def together(parts: Sequence[Statistics]) -> Statistics:
    """Combine the statistics of several learners."""
    ended = [part for part in parts if part.episodes]
    errors = [part.td_error_mean for part in parts if part.td_error_mean is not None]
    count = sum(part.episodes for part in ended)
    return Statistics(
        count,
        _mean([(part.return_mean, part.episodes) for part in ended]),
        min((part.return_min for part in ended if part.return_min is not None), default=None),
        max((part.return_max for part in ended if part.return_max is not None), default=None),
        _mean([(part.length_mean, part.episodes) for part in ended]),
        sum(errors) / len(errors) if errors else None,
        sum(part.epsilon for part in parts) / len(parts),
    )


def _mean(weighted: Sequence[tuple[float | None, int]]) -> float | None:
    weight = sum(count for value, count in weighted if value is not None)
    return sum(value * count for value, count in weighted if value is not None) / weight if weight else None
