"""What a supervisor writes down about its run, and what it does when the disk does not take it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from mosaic.runs.disk_reserve import Reserve
from mosaic.runs.lifecycle import Life
from mosaic.store.errors import StorageError
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import Attempt, Process, RunState, State, read_written_state, write_state

_TRY_AGAIN_AFTER_S = 0.5


class Logbook:
    """state.json. Only its first word must be written; a later one waits for better times, the run goes on."""

    def __init__(self, folder: RunFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._reserve = Reserve(folder)
        self.record = read_written_state(folder)
        self._unwritten = False

    @property
    def life(self) -> Life:
        return Life(self.record.state, len(self.record.attempts))

    def begin(self, attempt: int, supervisor: Process | None) -> None:
        """Raises StorageError: what cannot be written down is not started."""
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
        """Return whether the attempt is written down; before that, the record is about the attempt before it."""
        return len(self.record.attempts) == attempt

    def note_worker(self, worker: Process | None) -> None:
        self._change_attempt(worker=worker)
        self.write()

    def note(self, state: State, patience_s: float | None = None) -> None:
        """`patience_s`: of a stop under way; those who wait for its end read it."""
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
        """Writes the last word, for so long if need be. If it cannot, the run will be read as lost, which is true.

        `before` is what must be there once the run counts as ended.
        """
        self._change(state)
        if self.record.attempts:
            self._change_attempt(ended=self._clock(), reason=reason, exit=exit_code, forced=forced)
        before(self.record)
        deadline_s = monotonic() + try_for_s
        if not self.write():
            self._reserve.give_back()
            while not self.write() and monotonic() < deadline_s:
                time.sleep(_TRY_AGAIN_AFTER_S)  # nobody tells us when there is room again
        self._reserve.give_back()
        return not self._unwritten

    def write(self) -> bool:
        """Whether what is known is on disk."""
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

    def _change(self, state: State, **more: Any) -> None:
        self.record = self.record.model_copy(update={"state": state, "updated": self._clock(), **more})

    def _change_attempt(self, **facts: Any) -> None:
        *earlier, last = self.record.attempts
        self.record = self.record.model_copy(
            update={"updated": self._clock(), "attempts": (*earlier, last.model_copy(update=facts))}
        )


def log(text: str) -> None:
    """To supervisor.log, if the disk takes it; there is no other place to say it."""
    with suppress(OSError):
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, file=sys.stderr, flush=True)
