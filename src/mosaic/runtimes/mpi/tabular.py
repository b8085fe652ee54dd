"""Tabular training on MPI ranks, driven from the process that started them.

Rank 0 receives the driver's messages on a socket and broadcasts them. In mode `allreduce` every rank does its share of
a round, then all agree on the table by exchanging the entries they visited: bit-identical every time. In mode `server`
rank 0 holds the table and the others send it the entries they visited, each at its own pace: no rank waits for the
slowest, and no two runs are quite the same. The table is sent to the driver only when it is read.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.tabular.experience import Values, Visits
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import Opponent, Twin
from mosaic.runtimes.bookkeeping import SpreadTraining, WorkShare
from mosaic.runtimes.mpi.launch import check_installed, mpiexec_path, run_ranks

MpiMode: TypeAlias = Literal["allreduce", "server"]
Table: TypeAlias = tuple[Values, Visits]


class MpiSetup(NamedTuple):
    """First message to the ranks. The reply is True when all are ready."""

    twin: Twin
    algorithm: str
    options: TabularOptions
    seeds: Sequence[int]  # of each rank
    opponent: Opponent


class Round(NamedTuple):
    """Round of mode allreduce. The reply is every rank's counts and sums."""

    shares: dict[int, WorkShare]  # of the ranks that have one
    counts: Sequence[NDArray[np.int64]]  # of each rank
    sums: Sequence[NDArray[np.float64]]
    table: Table | None  # to start from; None: continue with the last round's


class Order(NamedTuple):
    """Order of mode server. The reply is every rank's counts and sums."""

    steps: int
    episodes: int  # additional ones; 0: no limit
    tell_every: int  # steps, at most
    counts: Sequence[NDArray[np.int64]]  # of each rank
    sums: Sequence[NDArray[np.float64]]
    table: Table | None  # to start from; None: continue with the last order's


class LookAtTable(NamedTuple):
    """Request for the table. The reply is values and visits."""


class StopRanks(NamedTuple):
    """Last message to the ranks. There is no reply."""


Message: TypeAlias = Round | Order | LookAtTable | StopRanks


class MpiTraining(SpreadTraining):
    """Training on MPI ranks. A rank that fails ends all, and the next call raises the reason."""

    def __init__(
        self,
        twin: Twin,
        algorithm: str,
        options: TabularOptions,
        seed: int,
        opponent: Opponent = "self",
        *,
        ranks: int,
        merge_every: int,
        mode: MpiMode = "allreduce",
    ) -> None:
        if ranks < 1:
            raise InputError(f"MPI needs at least 1 rank, not {ranks}.")
        check_installed()
        if ranks > 1:
            mpiexec_path()  # fail here, before any rank is started
        super().__init__(twin, algorithm, options, seed, opponent, ranks, merge_every)
        self._mode = mode
        self._newer: Literal["here", "there", "nowhere"] = "nowhere"  # which copy of the table is newer
        self._error: BaseException | None = None
        self._closed = False
        self._place = tempfile.TemporaryDirectory(prefix="mosaic-mpi-")
        address = str(Path(self._place.name, "driver"))
        self._ranks = threading.Thread(target=self._run_ranks, args=(address, ranks), name="mpi ranks", daemon=True)
        atexit.register(self.close)
        with Listener(address, "AF_UNIX") as listener:
            self._ranks.start()
            self._connection = listener.accept()
        self._say(MpiSetup(twin, algorithm, options, self._seeds, opponent))
        self._hear()

    def _run_ranks(self, address: str, ranks: int) -> None:
        try:
            run_ranks("mosaic.runtimes.mpi.rank_training", [address], ranks)
        except BaseException as error:  # noqa: BLE001 - raised by the call that waits for a reply
            self._error = error
        finally:
            with suppress(OSError):  # ranks that ended before they connected leave the driver waiting for a connection
                Client(address, "AF_UNIX").close()

    def advance(self, steps: int, episodes: int = 0) -> None:
        missing = episodes - self.episodes if episodes else 0
        if self._mode == "allreduce":
            super().advance(steps, episodes)
        elif steps > 0 and (missing > 0 or not episodes):
            self._do(Order(steps, missing, self._merge_every, *self._start()))

    def _round(self, work: Sequence[WorkShare]) -> None:
        self._do(Round({share.number: share for share in work}, *self._start()))

    def _start(self) -> tuple[Sequence[NDArray[np.int64]], Sequence[NDArray[np.float64]], Table | None]:
        counts = [progress.counts for progress in self._progress]
        sums = [progress.sums for progress in self._progress]
        return counts, sums, (self._table.values, self._table.visits) if self._newer == "here" else None

    def _do(self, work: Round | Order) -> None:
        self._say(work)
        for progress, (its_counts, its_sums) in zip(self._progress, self._hear(), strict=True):
            progress.counts[:], progress.sums[:] = its_counts, its_sums
        self._newer = "there"

    def _look(self) -> None:
        if self._newer == "there":
            self._say(LookAtTable())
            self._table.values, self._table.visits = self._hear()
            self._newer = "nowhere"

    @property
    def values(self) -> Values:
        self._look()
        return super().values

    @property
    def visits(self) -> Visits:
        self._look()
        return super().visits

    @property
    def coverage(self) -> float:
        self._look()
        return super().coverage

    def restore(self, folder: Path, env_steps: int) -> None:
        super().restore(folder, env_steps)
        self._newer = "here"

    def _say(self, message: NamedTuple) -> None:
        try:
            self._connection.send(message)
        except OSError:
            self._fail()

    def _hear(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            self._fail()

    def _fail(self) -> NoReturn:
        self._end()
        raise self._error or MosaicError("The MPI ranks ended without a result.")

    def close(self) -> None:
        if self._closed:
            return
        with suppress(OSError):  # ranks that are gone have already reported why
            self._connection.send(StopRanks())
        self._end()
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        self._closed = True
        atexit.unregister(self.close)
        self._ranks.join()
        self._connection.close()
        self._place.cleanup()


def call_driver(address: str) -> Connection[Any, Any]:
    return Client(address, "AF_UNIX")
