"""Registry of a server's evaluations and tournaments: started, found, stopped, and their stored results."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import threading
import time
from pathlib import Path

from mosaic.core.errors import InputError, unknown
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.env_trial import check_environment
from mosaic.server.evaluations.job import RESULT, EvaluationJob, ExaminationRow
from mosaic.server.evaluations.process import EPISODES
from mosaic.server.evaluations.request import Kind, Request, check_request
from mosaic.server.play.registry import TooManyError
from mosaic.store.atomic import private_folder

MOST_AT_ONCE, MOST_KEPT = 4, 30
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_PATIENCE_S = 5.0
_LOG = logging.getLogger(__name__)


class EvaluationJobs:
    """Evaluations of a server: those in progress are in memory, ended ones in `examinations` of the store."""

    def __init__(self, home: Path, programs: ProgramRule | None = None) -> None:
        self._home, self._programs = home, programs or ProgramRule(home)
        self._folder = home / "examinations"
        self._lock = threading.Lock()
        self._running: dict[str, EvaluationJob] = {}

    def begin(self, kind: Kind, request: Request) -> ExaminationRow:
        """Start in the background; raise if the request names something forbidden or makes no sense."""
        self._programs.check_match(request.environment, request.references)
        check_request(request)
        check_environment(request.environment)
        with self._lock:
            if len(self._running) >= MOST_AT_ONCE:
                raise TooManyError(f"{MOST_AT_ONCE} evaluations are under way; wait for one, or stop one.")
            self._tidy()
            name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
            folder = self._folder / name
            private_folder(self._home)
            private_folder(self._folder)
            folder.mkdir()
            made = EvaluationJob(name, kind, request, folder, self._home, lambda: self._forget(name))
            self._running[name] = made
            made.start()
        return made.row()

    def row(self, examination_id: str) -> ExaminationRow:
        with self._lock:
            running = self._running.get(examination_id)
        if running is not None:
            return running.row()
        file = self._ended_file(examination_id)
        if file is None:
            raise unknown("evaluation", examination_id, [row.examination_id for row in self.rows()])
        return ExaminationRow.model_validate_json(file.read_bytes())

    def rows(self, kind: Kind | None = None) -> list[ExaminationRow]:
        """Return all, newest first, without their results."""
        names = sorted((path.name for path in self._folder.glob("*") if _ID.fullmatch(path.name)), reverse=True)
        found = []
        for name in names:
            with self._lock:
                running = self._running.get(name)
            file = self._ended_file(name)
            if running is not None:
                found.append(running.row())
            elif file is not None and (row := _readable(file)) is not None:
                found.append(row)
        return [row.model_copy(update={"result": None}) for row in found if kind in (None, row.kind)]

    def stop(self, examination_id: str) -> ExaminationRow:
        with self._lock:
            running = self._running.get(examination_id)
        if running is not None:
            running.stop()
            running.join(_PATIENCE_S)
        return self.row(examination_id)

    def episode_file(self, examination_id: str, index: int) -> Path:
        row = self.row(examination_id)
        file = self._folder / row.examination_id / EPISODES / f"{index:06d}.json"
        if not file.is_file():
            raise InputError(f"The episode {index} of {row.examination_id} was not recorded; it has {row.total}.")
        return file

    def close(self) -> None:
        with self._lock:
            running = list(self._running.values())
        for each in running:
            each.stop()
        for each in running:
            each.join(_PATIENCE_S)

    def _ended_file(self, examination_id: str) -> Path | None:
        file = self._folder / examination_id / RESULT if _ID.fullmatch(examination_id) else None
        return file if file is not None and file.is_file() else None

    def _forget(self, name: str) -> None:
        with self._lock:
            self._running.pop(name, None)

    def _tidy(self) -> None:
        """Delete the oldest evaluations with their episodes, to make room for one more."""
        kept = sorted(path for path in self._folder.glob("*") if _ID.fullmatch(path.name))
        for path in kept[: max(0, len(kept) - MOST_KEPT + 1)]:
            if path.name not in self._running:
                shutil.rmtree(path)


def _readable(file: Path) -> ExaminationRow | None:
    """Return what is stored of an evaluation; None, and a warning, for one that was damaged or deleted meanwhile."""
    try:
        return ExaminationRow.model_validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        _LOG.warning("'%s' cannot be read and is left out: %s", file, error)
        return None
