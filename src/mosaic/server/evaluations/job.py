"""Evaluation or tournament in progress: its process, progress and result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mosaic.core.child_process import module_command
from mosaic.core.ids import JsonObject
from mosaic.core.proc import wait_unreaped
from mosaic.server.evaluations.process import ORDER
from mosaic.server.evaluations.request import Kind, Request
from mosaic.server.schemas import ResponseModel
from mosaic.store.atomic import write_atomic
from mosaic.store.live_sessions import end_session

ExaminationState = Literal["running", "finished", "failed", "stopped"]
RESULT, LOG = "result.json", "log.txt"


class ExaminationRow(ResponseModel):
    examination_id: str
    kind: Kind
    state: ExaminationState
    started: float
    ended: float | None = None
    done: int = Field(description="Episodes that are played.")
    total: int
    request: dict[str, Any]
    result: dict[str, Any] | None = Field(None, description="As `mosaic evaluate --json` or `tournament --json`.")
    error: str = ""


class EvaluationJob:
    """Evaluation in its own process group, so that engines and further processes end with it."""

    def __init__(
        self, examination_id: str, kind: Kind, request: Request, folder: Path, home: Path, ended: Callable[[], None]
    ) -> None:
        self.id, self.kind, self.folder = examination_id, kind, folder
        self._request, self._home, self._ended = request, home, ended
        self._lock = threading.Lock()
        self._state: ExaminationState = "running"
        self._done, self._error = 0, ""
        self._result: JsonObject | None = None
        self._started = time.time()
        self._end: float | None = None
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._listen, name=f"examination-{examination_id}", daemon=True)

    def start(self) -> None:
        asked = self._request.model_dump(mode="json")
        write_atomic(self.folder / ORDER, json.dumps({"kind": self.kind, "request": asked}))
        with (self.folder / LOG).open("w") as log:
            self._process = subprocess.Popen(
                module_command("mosaic.server.evaluations.process", str(self.folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "MOSAIC_HOME": str(self._home)},  # where `run:` policies are looked up
            )
        self._thread.start()

    def stop(self) -> None:
        """End it by force: a half-played episode has no result."""
        with self._lock:
            if self._state != "running":
                return
            self._state = "stopped"
        self._kill()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def row(self) -> ExaminationRow:
        with self._lock:
            return ExaminationRow(
                examination_id=self.id,
                kind=self.kind,
                state=self._state,
                started=self._started,
                ended=self._end,
                done=self._done,
                total=self._request.total,
                request=self._request.model_dump(mode="json"),
                result=self._result,
                error=self._error,
            )

    def _listen(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdout, process.stdin:
            for line in process.stdout:
                self._hear(json.loads(line))
            wait_unreaped(process.pid)
        self._kill()  # what it left behind in its group
        code = process.wait()
        end_session(self._home, self.id)  # if it was ended by force
        with self._lock:
            if self._state == "running":
                self._state, self._error = "failed", f"Its process ended with exit code {code}; see {LOG} beside it."
            self._end = self._end or time.time()
        write_atomic(self.folder / RESULT, self.row().model_dump_json())
        self._ended()

    def _hear(self, answer: JsonObject) -> None:
        with self._lock:
            if self._state != "running":
                return
            match answer:
                case {"done": int() as done}:
                    self._done = done
                case {"result": dict() as result}:
                    self._state, self._result, self._done = "finished", result, self._request.total
                    self._end = time.time()
                case {"error": str() as error}:
                    self._state, self._error, self._end = "failed", error, time.time()

    def _kill(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses a group whose members have all ended
            os.killpg(self._process.pid, signal.SIGKILL)
