"""How the index of runs learns, about once a second, how a living run stands."""

from __future__ import annotations

from threading import Event, Thread
from typing import TypeAlias

from mosaic.runs.state_file import log
from mosaic.store.index.index import Index
from mosaic.store.run_folder import RunFolder

EVERY_S = 1.0

_Stamp: TypeAlias = tuple[tuple[int, int], ...]


class Publisher:
    """A thread of its own: an index that others keep busy delays no stop. The folders are the truth, not the index."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._index = folder, Index(folder.home)
        self._over = Event()
        self._published: _Stamp | None = None
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Publishes a last time; does not wait for ever."""
        self._over.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        complained = False
        while True:
            last = self._over.is_set()
            try:
                self._publish()
            except Exception as error:  # noqa: BLE001 - the folders are the truth: a run outlives any trouble with the index
                if not complained:
                    log(f"the index was not updated: {error}")
                complained = True
            if last:
                return
            self._over.wait(EVERY_S)

    def _publish(self) -> None:
        stamp = self._stamp()
        if stamp != self._published:
            self._index.refresh(self._folder)
            self._published = stamp

    def _stamp(self) -> _Stamp:
        """Changes when there is something to publish."""
        files = (path.stat() for path in (self._folder.state, self._folder.metrics) if path.exists())
        return tuple((file.st_mtime_ns, file.st_size) for file in files)
