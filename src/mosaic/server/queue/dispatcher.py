"""Dispatcher: the server's thread that starts queued runs.

No failure of one run, the index or the disk ends it: a run that cannot be started is retried later, and a failed check
of the queue is logged, reported by `/health` and repeated.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError
from mosaic.runs.trainer import Trainer
from mosaic.server.queue.policy import Demand, QueueLimits, choose, demand_of, in_order, too_much, why_waiting
from mosaic.store.atomic import private_folder
from mosaic.store.index.summary import RunSummary
from mosaic.store.lock import held
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import LIVE, RunState, State, read_state

logger = logging.getLogger(__name__)
T = TypeVar("T")

POLL_S = 1.0  # runs are also submitted and end without this server
STALLED_S = 60.0  # a longer check is reported: a start waits for its supervisor, which takes a second or two
_RETRY_FIRST_S, _RETRY_LONGEST_S = 10.0, 600.0


class NoRoomError(MosaicError):
    """Error for a run that does not fit beside the running ones."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """A run that could not be started."""

    reason: str
    failures: int
    retry_at_s: float  # on the dispatcher's clock


class Dispatcher:
    """Thread that starts queued runs. It keeps no state beyond the store's: a new server continues where the old one
    was.
    """

    def __init__(
        self, trainer: Trainer, limits: QueueLimits, retries: int = 0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._trainer, self._store, self._limits, self._retries = trainer, trainer.store, limits, retries
        self._clock = clock
        self._configs: dict[str, tuple[int, RunConfig]] = {}  # with the file's time: a resume may change it
        self._seen: set[str] = set()  # runs that were alive while this server watched: only these are retried
        self._stuck: dict[str, Stuck] = {}
        self._noted: set[str] = set()
        self._failure, self._failures = "", 0  # of the last check of the queue
        self._looked_s = clock()
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        self._looked_s = self._clock()
        self._thread = threading.Thread(target=self._work, name="queue", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop dispatching. Runs continue; queued ones wait for the next server."""
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Check the queue now, after a submission."""
        self._wake.set()

    def stuck(self) -> dict[str, str]:
        """Return the queued runs that could not be started, and why."""
        return {run_id: stuck.reason for run_id, stuck in self._stuck.items()}

    def queue(self) -> dict[str, str]:
        """Return the queued runs in the order in which they will start, and why each waits."""
        runs = self._store.index.list(states=LIVE | {State.QUEUED})
        running = [self._taken(run) for run in runs if run.state in LIVE]
        stuck = self.stuck()
        waiting = [self._taken(run) for run in runs if run.state is State.QUEUED]
        never = [demand for demand in waiting if demand.run_id in stuck or too_much(demand, self._limits)]
        later = [demand for demand in in_order(waiting, running) if demand not in never]
        return {
            **{each.run_id: why_waiting(each, place, running, self._limits) for place, each in enumerate(later)},
            **{each.run_id: stuck.get(each.run_id) or why_waiting(each, 0, running, self._limits) for each in never},
        }

    def problems(self) -> list[str]:
        """Return why queued runs are not started at present; empty while the queue works."""
        if self._thread is None or self._ending.is_set():
            return []
        found = []
        if self._failure:
            times = f" ({self._failures} times in a row)" if self._failures > 1 else ""
            found.append(f"The queue could not be processed{times}: {self._failure}. It is tried again every second.")
        silent_s = self._clock() - self._looked_s
        if not self._thread.is_alive():
            found.append("The thread that starts queued runs has ended. Start the server again: mosaic serve")
        elif silent_s > STALLED_S:
            found.append(f"The queue was last processed {silent_s:.0f} s ago: starting a run takes unusually long.")
        return found

    def check_room(self, folder: RunFolder, config: RunConfig) -> None:
        """Raise unless the run, with this configuration, fits beside those that run now."""
        demand = demand_of(config, folder.run_id)
        running = [self._taken(run) for run in self._store.index.list(states=LIVE) if run.run_id != folder.run_id]
        if demand.run_id not in choose([demand], running, self._limits):
            raise NoRoomError(
                f"The run {folder.run_id} does not fit beside the {len(running)} that run now. Try again later."
            )

    def dispatch(self) -> list[str]:
        """Start what may start now and return what was started. Servers of one store take turns."""
        with self._turn() as mine:
            return self._dispatch() if mine else []

    def look(self) -> None:
        """Dispatch; record a failure instead of raising it."""
        try:
            self.dispatch()
        except (Exception, SystemExit) as error:  # a plug-in may raise anything, and the queue must survive it
            self._failure, self._failures = _describe(error), self._failures + 1
            if self._failures & (self._failures - 1) == 0:  # 1st, 2nd, 4th, 8th …: one line a second would fill a disk
                text = "The queue could not be processed (failure %d): %s. It is tried again"
                explained = isinstance(error, OSError | MosaicError)  # such as a folder that cannot be written
                logger.error(text, self._failures, self._failure, exc_info=not explained)
        else:
            self._failure, self._failures = "", 0
        self._looked_s = self._clock()

    def _work(self) -> None:
        while not self._ending.is_set():
            self.look()
            self._wake.wait(POLL_S)
            self._wake.clear()

    def _dispatch(self) -> list[str]:
        runs = self._store.index.list()
        self._pass_on_notes()
        running = [run for run in runs if run.state in LIVE]
        self._seen.update(run.run_id for run in running)
        candidates = [run for run in runs if self._waits(run)]
        self._stuck = {run.run_id: self._stuck[run.run_id] for run in candidates if run.run_id in self._stuck}
        current = {run.run_id for run in (*running, *candidates)}
        self._configs = {run_id: known for run_id, known in self._configs.items() if run_id in current}
        now_s = self._clock()
        due = [
            run for run in candidates if run.run_id not in self._stuck or now_s >= self._stuck[run.run_id].retry_at_s
        ]
        waiting = [demand for run in due if (demand := self._guarded(run.run_id, partial(self._demand, run)))]
        chosen = choose(waiting, map(self._taken, running), self._limits)
        return [run_id for run_id in chosen if self._started(run_id)]

    def _pass_on_notes(self) -> None:
        """Log each note once: a run that cannot be read is noted at every check."""
        notes = self._store.index.notes
        for note in set(notes) - self._noted:
            logger.warning("%s", note)
        self._noted.update(notes)
        notes.clear()

    def _waits(self, run: RunSummary) -> bool:
        if run.state is State.QUEUED:
            return True
        if run.state not in (State.FAILED, State.LOST) or not self._retries or run.run_id not in self._seen:
            return False
        try:
            return len(self._record(run.run_id).attempts) <= self._retries
        except (MosaicError, OSError):
            return False  # it was deleted or damaged since it was listed; the next list notes that

    def _started(self, run_id: str) -> bool:
        return bool(self._guarded(run_id, partial(self._start, run_id)))

    def _start(self, run_id: str) -> bool:
        folder = self._store.folder(run_id)
        before = self._record(run_id)
        run = self._trainer.run(run_id)
        try:
            run.start() if before.state is State.QUEUED else run.resume()
        except MosaicError:
            if not folder.exists() or held(folder) or read_state(folder) != before:
                return False  # another process started, stopped or deleted it meanwhile
            raise
        self._seen.add(run_id)
        self._stuck.pop(run_id, None)
        return True

    def _guarded(self, run_id: str, work: Callable[[], T]) -> T | None:
        """Call `work` for one run and return its result; if it fails, that run waits and the others do not."""
        try:
            return work()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as in `look`
            failures = self._stuck[run_id].failures + 1 if run_id in self._stuck else 1
            pause_s = min(_RETRY_FIRST_S * 2 ** (failures - 1), _RETRY_LONGEST_S)
            reason = str(error) if isinstance(error, MosaicError) else _describe(error)
            logger.warning("run %s could not be started (tried again in %g s): %s", run_id, pause_s, reason)
            self._stuck[run_id] = Stuck(reason, failures, self._clock() + pause_s)
            return None

    def _demand(self, run: RunSummary) -> Demand:
        folder = self._store.folder(run.run_id)
        written_ns, known = folder.config.stat().st_mtime_ns, self._configs.get(run.run_id)
        if known is None or known[0] != written_ns:
            self._configs[run.run_id] = known = (written_ns, folder.read_config())
        return demand_of(known[1], run.run_id, run.queued_at, run.group)

    def _taken(self, run: RunSummary) -> Demand:
        """Return what a live run uses: its last readable configuration, or else the least that a run needs."""
        try:
            return self._demand(run)
        except (MosaicError, OSError, ValueError):
            if known := self._configs.get(run.run_id):
                return demand_of(known[1], run.run_id, run.queued_at, run.group)
            return Demand(run.run_id, queued_at=run.queued_at, owner=run.group)

    def _record(self, run_id: str) -> RunState:
        return read_state(self._store.folder(run_id))

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Hold the queue's lock: else two servers could each start one run where there is room for one."""
        private_folder(self._store.home)
        descriptor = os.open(self._store.home / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _locked(descriptor)
        finally:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
