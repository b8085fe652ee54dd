"""Export jobs of a store: started, listed, followed, cancelled, downloaded.

Command line, web pages and other user interfaces call these functions. A job is a folder in `exports` of the store,
laid out like that of a run, and lives under the same supervisor.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from mosaic.config.export import ExportRequest
from mosaic.config.run import LATEST
from mosaic.core.errors import InputError, MosaicError, unknown
from mosaic.runs.exporting.record import ExportRow, read_row
from mosaic.runs.launch import has_ended, sleep_between_polls, start_attempt
from mosaic.runs.run import Run
from mosaic.store.archives.trust import trust_given
from mosaic.store.atomic import write_atomic
from mosaic.store.logs import Stream
from mosaic.store.run_folder import RunFolder, new_run_id
from mosaic.store.staging import TakenError, discard, staged
from mosaic.store.state import ENDED, LIVE, RunState, State, read_state, read_written_state, write_state
from mosaic.store.store import Store
from mosaic.store.views import LogPart, log_part

EXPORTS = "exports"  # folder of the store
_HIDDEN = "."


class ExportChangedError(MosaicError):
    """File of an export that is no longer the one that was compared."""


class ExportJobs:
    """Exports of one store. Nothing has to stay open: a job is independent once it is started."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store()
        self._folder = self._store.home / EXPORTS

    def start(self, request: ExportRequest, *, working_folder: str | None = None) -> ExportRow:
        """Start an export in the background; raise InputError for what is known to fail.

        `working_folder` is where `python:` modules are looked up, by default this process's.
        """
        from mosaic.runs.exporting.work import check_ahead, env_of, holding_for  # lists and histories do without it

        checked = check_ahead(request, self._store)
        folder = self._create(checked, env_of(checked, self._store), working_folder or os.getcwd())
        try:
            with holding_for(checked, self._store) as locks:
                start_attempt(folder, 1, trust=trust_given(), inherited=locks)
        except MosaicError:
            discard(folder)
            raise
        return read_row(folder)

    def rows(self, run: str | None = None) -> list[ExportRow]:
        """Return the exports, newest first; with `run`, those of one run."""
        wanted = None if run is None else self._store.resolve(run).run_id
        rows = [read_row(folder) for folder in self._folders()]
        return [row for row in rows if wanted is None or row.request.run == wanted]

    def row(self, reference: str) -> ExportRow:
        """Return an export by its id, a unique prefix of it, or `latest`."""
        return read_row(self._find(reference))

    def follow(self, reference: str) -> Iterator[ExportRow]:
        """Yield the export whenever it may have changed, and a last time when it has ended."""
        folder = self._find(reference)
        while True:
            state = read_state(folder)
            if has_ended(folder, state):
                yield read_row(folder)
                return
            yield read_row(folder)
            sleep_between_polls(state)

    def cancel(self, reference: str, *, wait: bool = True) -> ExportRow:
        """End an export without a file; one that has ended is left as it is."""
        folder = self._find(reference)
        if read_state(folder).state not in ENDED:
            Run(self._store, folder).stop(reason="cancelled", wait=wait)
        return read_row(folder)

    def delete(self, reference: str) -> str:
        """Delete an export from the history, with the files in its own folder; return its id."""
        folder = self._find(reference)
        if read_state(folder).state in LIVE:
            raise InputError(
                f"The export {folder.run_id} is still running. Type: mosaic exports cancel {folder.run_id}"
            )
        discard(folder)
        return folder.run_id

    def log(self, reference: str, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart:
        """Return what the export printed."""
        return log_part(self._find(reference), stream, after, size)

    def file(self, reference: str, name: str) -> Path:
        """Return a file that the export wrote, by its name; never another, and not one that was changed since."""
        row = self.row(reference)
        for each in row.written:
            if each.name == name:
                path = Path(each.path)
                if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != each.sha256:
                    raise ExportChangedError(
                        f"'{each.path}' is not the file that was compared: it was changed or removed."
                    )
                return path
        raise unknown(f"file of export {row.export_id}", name, [each.name for each in row.written])

    def download(self, reference: str, name: str, to: Path) -> None:
        """Write a file of the export to another place."""
        write_atomic(to, self.file(reference, name).read_bytes())

    def _create(self, request: ExportRequest, env: str, working_folder: str) -> RunFolder:
        now = time.time()
        with staged(self._folder) as made:
            write_atomic(made.folder.request, request.model_dump_json(indent=1) + "\n")
            while True:
                export_id = new_run_id(env, now, secrets.randbelow)
                state = RunState(
                    run_id=export_id, state=State.QUEUED, queued_at=now, updated=now, working_folder=working_folder
                )
                write_state(made.folder, state)
                try:
                    return made.publish(export_id)
                except TakenError:
                    continue

    def _folders(self) -> list[RunFolder]:
        if not self._folder.is_dir():
            return []
        found = [RunFolder(path) for path in self._folder.iterdir() if not path.name.startswith(_HIDDEN)]
        return sorted((each for each in found if each.exists()), key=_age, reverse=True)

    def _find(self, reference: str) -> RunFolder:
        """Look the reference up among the exports that exist; it is never joined to a path."""
        folders = self._folders()
        if reference == LATEST and folders:
            return folders[0]
        found = [each for each in folders if each.run_id == reference]
        found = found or [each for each in folders if reference and each.run_id.startswith(reference)]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(each.run_id for each in found[:5])
            raise InputError(f"'{reference}' is the beginning of {len(found)} exports: {listed}. Type more of it.")
        raise unknown("export", reference, [each.run_id for each in folders])


def _age(folder: RunFolder) -> tuple[float, str]:
    return read_written_state(folder).queued_at, folder.run_id
