"""Who starts what waits: a thread of the server looks at the store and lets the queue decide."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError
from mosaic.runs.trainer import Trainer
from mosaic.server.queue import Demand, Limits, choose, demand_of
from mosaic.store.layout import RunFolder
from mosaic.store.lock import held
from mosaic.store.state import LIVE, RunState, State, read_state
from mosaic.store.summary import RunSummary

logger = logging.getLogger(__name__)

POLL_S = 1.0  # runs also end and come without our doing


class NoRoomError(MosaicError):
    """What is asked for does not fit beside what runs now."""


class Dispatcher:
    """Everything it knows about the queue stands in the store: a new server goes on where the old one was."""

    def __init__(self, trainer: Trainer, limits: Limits, retries: int = 0) -> None:
        self._trainer, self._store, self._limits, self._retries = trainer, trainer.store, limits, retries
        self._configs: dict[str, tuple[int, RunConfig]] = {}  # with the file's time: a run may go on with another
        self._seen: set[str] = set()  # runs that lived under our eyes: only these are tried again
        self._stuck: dict[str, str] = {}
        self._noted: set[str] = set()
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        self._thread = threading.Thread(target=self._work, name="queue", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Runs go on; those that wait, wait for the next server."""
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Something was queued."""
        self._wake.set()

    def stuck(self) -> dict[str, str]:
        """Queued runs that could not be started, and why."""
        return dict(self._stuck)

    def check_room(self, folder: RunFolder, config: RunConfig) -> None:
        """Raises unless the run, with this configuration, fits beside those that run now."""
        demand = demand_of(config, folder.run_id)
        running = [self._of(run) for run in self._store.index.list(states=LIVE) if run.run_id != folder.run_id]
        if demand.run_id not in choose([demand], running, self._limits):
            raise NoRoomError(
                f"The run {folder.run_id} does not fit beside the {len(running)} that run now. Try later."
            )

    def dispatch(self) -> list[str]:
        """Starts what may start now and says what that was. Servers of one store take turns with this."""
        with self._turn() as mine:
            return self._dispatch() if mine else []

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                self.dispatch()
            except (MosaicError, OSError):
                logger.exception("the queue could not be looked at; it is tried again")
            self._wake.wait(POLL_S)
            self._wake.clear()

    def _dispatch(self) -> list[str]:
        runs = self._store.index.list()
        self._pass_on_notes()
        running = [run for run in runs if run.state in LIVE]
        self._seen.update(run.run_id for run in running)
        waiting = [run for run in runs if run.run_id not in self._stuck and self._waits(run)]
        self._configs = {run.run_id: self._read(run.run_id) for run in (*running, *waiting)}
        chosen = choose(map(self._of, waiting), map(self._of, running), self._limits)
        return [run_id for run_id in chosen if self._started(run_id)]

    def _pass_on_notes(self) -> None:
        """Once each: a run that cannot be read is noted at every look."""
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
        return len(self._record(run.run_id).attempts) <= self._retries

    def _started(self, run_id: str) -> bool:
        folder = self._store.folder(run_id)
        before = self._record(run_id)
        run = self._trainer.run(run_id)
        try:
            run.start() if before.state is State.QUEUED else run.resume()
        except MosaicError as error:
            if not folder.exists() or held(folder) or read_state(folder) != before:
                return False  # somebody else started, stopped or deleted it meanwhile
            logger.warning("run %s could not be started: %s", run_id, error)
            self._stuck[run_id] = str(error)
            return False
        self._seen.add(run_id)
        return True

    def _of(self, run: RunSummary) -> Demand:
        return demand_of(self._read(run.run_id)[1], run.run_id, run.queued_at, run.group)

    def _read(self, run_id: str) -> tuple[int, RunConfig]:
        folder = self._store.folder(run_id)
        written_ns, known = folder.config.stat().st_mtime_ns, self._configs.get(run_id)
        return known if known is not None and known[0] == written_ns else (written_ns, folder.read_config())

    def _record(self, run_id: str) -> RunState:
        return read_state(self._store.folder(run_id))

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Else two servers could each start one run where there is room for one."""
        self._store.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._store.home / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield False
            return
        try:
            yield True
        finally:
            os.close(descriptor)
