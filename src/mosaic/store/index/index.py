"""Index of runs: a fast list that is checked against the folders at every use."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from mosaic.config.run import LATEST, check_run_id
from mosaic.core.errors import InputError, MosaicError, UnknownNameError, nearest
from mosaic.core.files import file_stamp
from mosaic.store.archives.signature import RUNS
from mosaic.store.errors import StorageError
from mosaic.store.index.database import Database, Row, UnusableError
from mosaic.store.index.summary import RunSummary, summarise
from mosaic.store.run_folder import MARK, STATE, RunFolder
from mosaic.store.state import LIVE, State, read_state, read_written_state

T = TypeVar("T")

_SHOWN = 10
_TRIES = 5  # other processes may keep deleting the file


class Index:
    """Index of the runs in a store.

    The folders are authoritative: a row is valid while its run's state.json is the file it was made from.

    `notes` collects messages for users: an index that had to be rebuilt, a run that cannot be read.
    """

    def __init__(self, home: Path) -> None:
        self._runs, self._database = home / RUNS, Database(home)
        self.notes: list[str] = []

    def list(
        self,
        *,
        states: Collection[State] = (),
        tags: Collection[str] = (),
        env: str | None = None,
        worker: str | None = None,
        group: str | None = None,
        projects: Collection[str] = (),
    ) -> list[RunSummary]:
        """Return the matching runs, newest first; locks and metrics are checked only for runs recorded as live."""
        found = filter(None, map(self._now, self._synced().values()))
        return [
            run
            for run in found
            if (not states or run.state in states)
            and set(tags) <= set(run.tags)
            and env in (None, run.env)
            and worker in (None, run.worker)
            and group in (None, run.group)
            and (not projects or run.project in projects)
        ]

    def unreadable(self) -> dict[str, str]:
        """Return the runs that are not listed because their files are damaged or missing, and why."""
        listed = self._synced()
        found: dict[str, str] = {}
        for name in sorted(set(self._names()) - listed.keys()):
            try:
                _row_of(self._folder(name))
            except (MosaicError, OSError) as error:
                if self._folder(name).path.is_dir():  # else it was deleted meanwhile
                    found[name] = str(error)
        return found

    def resolve(self, reference: str) -> RunFolder:
        """Find a run by its id, a unique prefix of it, its name, or `latest`.

        Within a run, `latest` is the run that began before it.
        """
        if is_run_id(reference) and self._folder(reference).exists():
            return self._folder(reference)
        runs = self._synced()
        if reference == LATEST:
            if not runs:
                raise InputError("There are no runs yet. Start one: mosaic train ENV")
            ours = os.environ.get(MARK)
            earlier = [*runs][[*runs].index(ours) + 1 :] if ours in runs else [*runs]
            if not earlier:
                raise InputError("'latest' is the run before this one, and this is the first. Name a run.")
            return self._folder(earlier[0])
        known = [run for run, _ in runs.values()]
        named = [run for run in known if run.name and run.name == reference]
        begun = [run for run in known if reference and run.run_id.startswith(reference)]
        candidates = named or begun
        if not candidates:
            raise _unknown(reference, known)
        if len(candidates) > 1:
            raise _ambiguous(reference, candidates, by_name=bool(named))
        return self._folder(candidates[0].run_id)

    def prepare(self) -> None:
        """Create the file of a new store, so that a missing one is worth a note."""
        if not self._database.exists():
            self._try(lambda: self._database.rebuild(self._collect))

    def refresh(self, folder: RunFolder) -> RunSummary:
        """Read one run again. The next listing would do so too, so this is never needed for correctness."""
        row = _row_of(folder)
        self._change([row], [])
        return self._now(row) or row[0]

    def upsert(self, summary: RunSummary) -> None:
        """Store the caller's summary until the next listing."""
        self._change([(summary, "")], [])

    def remove(self, run_id: str) -> None:
        self._change([], [run_id])

    def reindex(self) -> int:
        """Rebuild everything from the folders; return the number of runs."""
        rows = list(self._collect())
        self._database.rebuild(lambda: rows, always=True)
        return len(rows)

    def _synced(self) -> dict[str, Row]:
        """Return the rows, newest first, after rebuilding those that differ from their folders."""
        rows = self._try(lambda: self._with_rebuild(self._database.rows)) or {}
        stamps = self._stamps()
        changed = [run_id for run_id, stamp in stamps.items() if run_id not in rows or rows[run_id][1] != stamp]
        gone = rows.keys() - stamps.keys()
        if not changed and not gone:
            return rows
        fresh = {row[0].run_id: row for row in self._read(map(self._folder, changed))}
        gone |= set(changed) - fresh.keys()
        self._change(fresh.values(), gone)
        left = {run_id: row for run_id, row in rows.items() if run_id not in gone}
        return dict(sorted((left | fresh).items(), key=lambda item: (item[1][0].queued_at, item[0]), reverse=True))

    def _now(self, row: Row) -> RunSummary | None:
        """Return the current summary of the run; None if it was deleted meanwhile.

        A live run whose configuration became unreadable is still listed, as it was indexed: it uses resources.
        """
        if row[0].state not in LIVE:
            return row[0]
        folder = self._folder(row[0].run_id)
        try:
            return summarise(folder)
        except (MosaicError, OSError) as error:
            self._note_unreadable(folder, error)
        try:
            return replace(row[0], state=read_state(folder).state)
        except (MosaicError, OSError):
            return None

    def _change(self, put: Iterable[Row], gone: Iterable[str]) -> None:
        put, gone = list(put), list(gone)
        self._try(lambda: self._with_rebuild(lambda: self._database.change(put, gone)))

    def _try(self, work: Callable[[], T]) -> T | None:
        """Run `work`; note a StorageError and return None.

        A disk that is full or read-only makes results slower, not wrong: the folders are read instead.
        """
        try:
            return work()
        except StorageError as error:
            self.notes.append(str(error))
            return None

    def _with_rebuild(self, work: Callable[[], T]) -> T:
        for attempt in range(_TRIES):
            try:
                return work()
            except UnusableError as problem:
                # A file that can be read but not written looks sound: from the second failure on it is replaced anyway.
                if self._database.rebuild(self._collect, always=attempt > 0) and self._stamps():
                    self.notes.append(f"The index of runs {problem}; it was rebuilt from the run folders.")
        raise StorageError(f"The index of runs failed {_TRIES} times in a row, although it was rebuilt.")

    def _collect(self) -> Iterable[Row]:
        return self._read(map(self._folder, self._stamps()))

    def _read(self, folders: Iterable[RunFolder]) -> Iterable[Row]:
        for folder in folders:
            try:
                yield _row_of(folder)
            except (MosaicError, OSError) as error:
                self._note_unreadable(folder, error)

    def _note_unreadable(self, folder: RunFolder, error: Exception) -> None:
        if folder.exists():  # else it was deleted meanwhile
            self.notes.append(f"Run '{folder.run_id}' cannot be shown: {error}")

    def _stamps(self) -> dict[str, str]:
        """Return the stamp of every run."""
        return {name: stamp for name in self._names() if (stamp := file_stamp(f"{self._runs}/{name}/{STATE}"))}

    def _names(self) -> Sequence[str]:
        """Return the names of all folders. Those that begin with a dot are runs being created, imported or deleted."""
        try:
            return [name for name in os.listdir(self._runs) if name[0] != "."]
        except FileNotFoundError:
            return []

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self._runs / run_id)


def reindex(home: Path) -> int:
    """Rebuild the index from the folders; return the number of runs."""
    return Index(home).reindex()


def _row_of(folder: RunFolder) -> Row:
    """Return the row with the state recorded in state.json; whether it is still true is checked on use."""
    stamp = file_stamp(str(folder.state))  # before reading: a change meanwhile is noticed next time
    return summarise(folder, read_written_state(folder)), stamp


def is_run_id(text: str) -> bool:
    """Return whether the text may be joined to a path."""
    try:
        check_run_id(text)
    except ValueError:
        return False
    return True


def _unknown(asked: str, runs: list[RunSummary]) -> UnknownNameError:
    near = nearest(asked, [*(run.run_id for run in runs), *(run.name for run in runs if run.name)])
    meant = f" Did you mean '{near}'?" if near else ""
    rest = f" The newest: {_shown(runs)}." if runs else " There are no runs yet: mosaic train ENV"
    return UnknownNameError(f"There is no run '{asked}'.{meant}{rest}")


def _ambiguous(asked: str, runs: list[RunSummary], *, by_name: bool) -> InputError:
    verb, advice = ("are called", "Type the id of one") if by_name else ("begin with", "Type more of the id")
    return InputError(f"{len(runs)} runs {verb} '{asked}': {_shown(runs)}. {advice}.")


def _shown(runs: list[RunSummary]) -> str:
    names = [f"{run.run_id} ({run.name})" if run.name else run.run_id for run in runs[:_SHOWN]]
    return ", ".join(names) + (f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else "")
