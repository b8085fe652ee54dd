"""Writer of a run's state.json, which copes with a full disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from mosaic.runs.lifecycle import Life
from mosaic.store.atomic import Reserve
from mosaic.store.errors import StorageError
from mosaic.store.origin import GitState
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import Attempt, ProcessRecord, RunState, State, read_written_state, write_state

_TRY_AGAIN_AFTER_S = 0.5


class StateFile:
    """Writer of state.json. Only the first write must succeed; later ones are retried while the run continues."""

    def __init__(self, folder: RunFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._reserve = Reserve(folder)
        self.record = read_written_state(folder)
        self._unwritten = False

    @property
    def life(self) -> Life:
        return Life(self.record.state, len(self.record.attempts))

    def begin(self, attempt: int, supervisor: ProcessRecord | None) -> None:
        """Record a new attempt; raise StorageError, because what cannot be recorded is not started."""
        self._reserve.take()
        before = self.record
        entry = Attempt(number=attempt, supervisor=supervisor, started=self._clock())
        self._change(State.STARTING, attempts=(*self.record.attempts, entry))
        try:
            write_state(self._folder, self.record)
        except StorageError:
            self.record = before
            self._reserve.give_back()
            raise

    def has_begun(self, attempt: int) -> bool:
        """Return whether the attempt is recorded; before that, the record is about the previous attempt."""
        return len(self.record.attempts) == attempt

    def note_worker(self, worker: ProcessRecord | None) -> None:
        self._change_attempt(worker=worker)
        self.write()

    def note_code(self, git: GitState) -> None:
        self._change_attempt(git=git)
        self.write()

    def note(self, state: State, patience_s: float | None = None) -> None:
        """Record the state; `patience_s`, of a stop in progress, is read by those that wait for its end."""
        if (state, patience_s) != (self.record.state, self.record.attempts[-1].patience_s):
            self._change(state)
            self._change_attempt(patience_s=patience_s)
            self.write()

    def end(
        self,
        state: State,
        reason: str,
        exit_code: int | None,
        try_for_s: float,
        before: Callable[[RunState], None] = lambda record: None,
        *,
        forced: bool = False,
    ) -> bool:
        """Write the final state, retrying for `try_for_s`. If that fails, the run will be read as lost, which is true.
        In a folder that was deleted nothing is retried.

        `before` writes what must exist once the run counts as ended.
        """
        self._change(state)
        if self.record.attempts:
            self._change_attempt(ended=self._clock(), reason=reason, exit=exit_code, forced=forced)
        before(self.record)
        deadline_s = monotonic() + try_for_s
        if not self.write():
            self._reserve.give_back()
            while not self.write() and self._folder.path.exists() and monotonic() < deadline_s:
                time.sleep(_TRY_AGAIN_AFTER_S)  # there is no notification when space is available again
        self._reserve.give_back()
        return not self._unwritten

    def write(self) -> bool:
        """Return whether the current record is on disk."""
        try:
            write_state(self._folder, self.record)
        except StorageError as error:
            if not self._unwritten:
                log(str(error))
            self._unwritten = True
        else:
            self._unwritten = False
        return not self._unwritten

    def catch_up(self) -> None:
        if self._unwritten:
            self.write()

    def _change(self, state: State, **more: object) -> None:
        self.record = self.record.model_copy(update={"state": state, "updated": self._clock(), **more})

    def _change_attempt(self, **facts: object) -> None:
        *earlier, last = self.record.attempts
        self.record = self.record.model_copy(
            update={"updated": self._clock(), "attempts": (*earlier, last.model_copy(update=facts))}
        )


def log(text: str) -> None:
    """Write to supervisor.log if the disk permits; there is no other place to report it."""
    with suppress(OSError):
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, file=sys.stderr, flush=True)
