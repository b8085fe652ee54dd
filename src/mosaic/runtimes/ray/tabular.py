"""Tabular training on Ray, on this machine or a cluster, that survives the loss of actors.

The driver holds the whole state: the table and every learner's progress as of the last merge. An actor is given both
with its share of a round and returns the changes. Whatever becomes of an actor, a share is recorded either whole or not
at all; repeated, its result is bit-identical.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.tabular.experience import Values, Visits
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.mdp import open_training
from mosaic.learners.tabular.training.twin import Opponent, Twin
from mosaic.runtimes.bookkeeping import ShareReport, SpreadTraining, WorkShare, run_share

if TYPE_CHECKING:
    from ray import ObjectRef

Base: TypeAlias = "ObjectRef[tuple[Values, Visits]]"
_MOST_DEATHS = 3  # per share: if every actor that takes it dies, it is not an accident


class TabularActor:
    """Ray actor that trains shares: its only state between rounds is its random stream, which its seed restores."""

    def __init__(self, twin: Twin, algorithm: str, options: TabularOptions, seed: int, opponent: Opponent) -> None:
        self._training = open_training(_writable(twin), algorithm, options, seed, opponent)

    def train(
        self, base: tuple[Values, Visits], counts: NDArray[np.int64], sums: NDArray[np.float64], share: WorkShare
    ) -> ShareReport:
        return run_share(self._training, base, counts, sums, share)


class RayTraining(SpreadTraining):
    """Training on the actors of a Ray that is running."""

    def __init__(
        self,
        twin: Twin,
        algorithm: str,
        options: TabularOptions,
        seed: int,
        opponent: Opponent = "self",
        *,
        actors: int,
        merge_every: int,
        cpus_per_actor: float = 1.0,
    ) -> None:
        if actors < 1:
            raise InputError(f"Training on Ray needs at least 1 actor, not {actors}.")
        super().__init__(twin, algorithm, options, seed, opponent, actors, merge_every)
        import ray

        self._actor_class = ray.remote(num_cpus=cpus_per_actor)(TabularActor)
        self._given = (ray.put(twin), algorithm, options)
        atexit.register(self.close)
        self._actors = [self._start(number) for number in range(actors)]

    def _start(self, number: int) -> Any:
        twin, algorithm, options = self._given
        return self._actor_class.remote(twin, algorithm, options, self._seeds[number], self._table.opponent)

    def _round(self, work: Sequence[WorkShare]) -> None:
        """Run all shares from one base and update the state at once when the last one is done."""
        import ray

        base = ray.put((self.values, self.visits))
        self._record(work, self._gather(base, work))

    def _gather(self, base: Base, work: Sequence[WorkShare]) -> list[ShareReport]:
        """Return reports in the order of the work: merging rounds, and the same run must always round the same way."""
        import ray
        from ray.exceptions import ObjectLostError, RayActorError

        waiting = {self._ask(base, share): share for share in work}
        reports: dict[int, ShareReport] = {}
        deaths = [0] * len(self._actors)
        while waiting:
            (done, *_), _ = ray.wait(list(waiting))
            share = waiting.pop(done)
            try:
                reports[share.number] = ray.get(done)
            except (RayActorError, ObjectLostError) as error:
                deaths[share.number] += 1
                if deaths[share.number] == _MOST_DEATHS:
                    raise MosaicError(
                        f"Actor {share.number} died {_MOST_DEATHS} times over the same {share.steps:,} steps: {error}"
                    ) from error
                print(f"Actor {share.number} died and is replaced; its {share.steps:,} steps are done again.")
                self._replace(share.number)
                waiting[self._ask(base, share)] = share
        return [reports[share.number] for share in work]

    def _ask(self, base: Base, share: WorkShare) -> ObjectRef[ShareReport]:
        progress = self._progress[share.number]
        report: ObjectRef[ShareReport] = self._actors[share.number].train.remote(
            base, progress.counts, progress.sums, share
        )
        return report

    def _replace(self, number: int) -> None:
        import ray

        ray.kill(self._actors[number])  # it may only be unreachable, and would hold its CPU
        self._actors[number] = self._start(number)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._actors = []  # actors end with their last handle, also on an existing cluster


def _writable(twin: Twin) -> Twin:
    """Copy the arrays: Ray's are read-only, for which numba would compile every loop again."""
    own: dict[str, Any] = {
        name: np.array(part) for name, part in twin._asdict().items() if isinstance(part, np.ndarray)
    }
    return twin._replace(**own)
