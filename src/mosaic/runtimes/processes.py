"""Several learners in processes on this machine, for envs that are stepped in Python and hold the GIL."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.child_process import ChildProcess
from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.tabular.experience import Values, Visits
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.stepped import SteppedTraining
from mosaic.learners.tabular.training.twin import SteppedEnv
from mosaic.runtimes.bookkeeping import ShareReport, SpreadTraining, WorkShare, run_share

_STOP_S = 10.0  # before a process that does not end by itself is killed


class ShareOrder(NamedTuple):
    """Message to a process; None ends it. The reply is a report, or the text of an InputError."""

    base: tuple[Values, Visits]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    share: WorkShare


class ProcessTraining(SpreadTraining):
    """Training in processes: all shares of a round start from one base and are merged when the last one is done."""

    def __init__(
        self,
        env: SteppedEnv,
        algorithm: str,
        options: TabularOptions,
        seed: int,
        *,
        processes: int,
        merge_every: int,
    ) -> None:
        super().__init__(env, algorithm, options, seed, "self", processes, merge_every)
        self._connections: list[Connection[ShareOrder | None, ShareReport | str]] = []
        self._processes = []
        atexit.register(self.close)
        for number in range(processes):
            here, there = Pipe()
            process = ChildProcess(
                target=_serve, args=(there, env, algorithm, options, self._seeds[number]), daemon=True
            )
            process.start()
            there.close()
            self._connections.append(here)
            self._processes.append(process)

    def _round(self, work: Sequence[WorkShare]) -> None:
        for share in work:
            progress = self._progress[share.number]
            order = ShareOrder((self.values, self.visits), progress.counts, progress.sums, share)
            self._connections[share.number].send(order)
        self._record(work, [self._hear(share.number) for share in work])

    def _hear(self, number: int) -> ShareReport:
        try:
            report = self._connections[number].recv()
        except (EOFError, OSError) as error:
            raise MosaicError(f"The process of learner {number} ended: its messages are in the log.") from error
        if isinstance(report, str):
            raise InputError(report)
        return report

    def close(self) -> None:
        atexit.unregister(self.close)
        for connection in self._connections:
            with suppress(OSError):  # the process is already gone
                connection.send(None)
            connection.close()
        for process in self._processes:
            process.join(_STOP_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._connections, self._processes = [], []


def _serve(
    connection: Connection[ShareReport | str, ShareOrder | None],
    env: SteppedEnv,
    algorithm: str,
    options: TabularOptions,
    seed: int,
) -> None:
    """Run shares until told to stop, or until the parent process is gone."""
    training = SteppedTraining(env, algorithm, options, seed)
    with suppress(EOFError, KeyboardInterrupt):
        while (order := connection.recv()) is not None:
            try:
                report = run_share(training, *order)
            except InputError as error:  # the env's own fault, to be reported by the parent
                connection.send(str(error))
                return
            connection.send(report)
