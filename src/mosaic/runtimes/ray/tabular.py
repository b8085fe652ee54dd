"""Several learners on Ray, here or on a cluster: what one actor loses, another does again.

The driver holds everything that counts: the table and every learner's progress as of the last merge. An actor is given
both with its share of a round and answers with what changed, so that whatever becomes of it, a share is either whole
in the books or not in them at all; done again, it comes out the same to the last bit.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.mdp import open_training
from mosaic.learners.tabular.training.twin import Opponent, Twin
from mosaic.runtimes.bookkeeping import Share, SpreadTraining
from mosaic.runtimes.merging import Delta, apply, combine, delta

_MOST_DEATHS = 3  # of one share: what kills every actor that takes it up is no accident


class Report(NamedTuple):
    """What came of a share."""

    change: Delta
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]


class Learner:
    """The actor: nothing in it outlives a round but its stream of chance, which its seed makes anew."""

    def __init__(self, twin: Twin, algorithm: str, options: TabularOptions, seed: int, opponent: Opponent) -> None:
        self._training = open_training(_writable(twin), algorithm, options, seed, opponent)

    def train(
        self, base: tuple[NDArray[Any], NDArray[Any]], counts: NDArray[Any], sums: NDArray[Any], share: Share
    ) -> Report:
        training = self._training
        values, visits = base
        training.load({"values": values, "visits": visits, "counts": counts, "sums": sums})
        training.advance(share.steps, share.episodes)
        change = delta(values, visits, training.values, training.visits)
        return Report(change, training.progress.counts, training.progress.sums)


class RayTraining(SpreadTraining):
    """On actors. `session` is entered here and left by `close`; without one, Ray must be up."""

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
        session: AbstractContextManager[Any] | None = None,
    ) -> None:
        if actors < 1:
            raise InputError(f"Training on Ray needs at least 1 actor, not {actors}.")
        super().__init__(twin, algorithm, options, seed, opponent, actors, merge_every)
        self._stack = ExitStack()
        atexit.register(self.close)
        try:
            self._stack.enter_context(session or nullcontext())
            import ray

            self._actor_class = ray.remote(num_cpus=cpus_per_actor)(Learner)
            self._given = (ray.put(twin), algorithm, options)
            self._actors = [self._start(number) for number in range(actors)]
        except BaseException:
            self.close()
            raise

    def _start(self, number: int) -> Any:
        twin, algorithm, options = self._given
        return self._actor_class.remote(twin, algorithm, options, self._seeds[number], self._table.opponent)

    def _round(self, work: Sequence[Share]) -> None:
        """All shares from one base; the books change when the last one is done, and then at once."""
        import ray

        base = ray.put((self.values, self.visits))
        reports = self._gather(base, work)
        change = combine([report.change for report in reports])
        values, visits = apply(self.values, self.visits, change)
        for share, report in zip(work, reports, strict=True):
            progress = self._progress[share.number]
            progress.counts[:], progress.sums[:] = report.counts, report.sums
        self._table.values, self._table.visits = values, visits.astype(self.visits.dtype, copy=False)

    def _gather(self, base: Any, work: Sequence[Share]) -> list[Report]:
        """In the order of the work: merging rounds, and the same run must round the same way every time."""
        import ray
        from ray.exceptions import ObjectLostError, RayActorError

        waiting = {self._ask(base, share): share for share in work}
        reports: dict[int, Report] = {}
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

    def _ask(self, base: Any, share: Share) -> Any:
        progress = self._progress[share.number]
        return self._actors[share.number].train.remote(base, progress.counts, progress.sums, share)

    def _replace(self, number: int) -> None:
        import ray

        ray.kill(self._actors[number])  # it may be out of reach only, and would hold its CPU
        self._actors[number] = self._start(number)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._actors = []  # actors end with their last handle, on a cluster that is not ours too
        self._stack.close()


def _writable(twin: Twin) -> Twin:
    """Ray hands out arrays that are read-only, for which numba would compile every loop once more."""
    own: dict[str, Any] = {
        name: np.array(part) for name, part in twin._asdict().items() if isinstance(part, np.ndarray)
    }
    return twin._replace(**own)
