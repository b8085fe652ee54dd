"""Process of an export job: `python -m mosaic.runs.exporting.process JOB_FOLDER ATTEMPT`, started by a supervisor.

As for a worker, commands come in on MOSAIC_CONTROL_FD and progress goes out on MOSAIC_PROGRESS_FD. A stop ends the
export at once and leaves no file; once all files are compared and only have to be written, it finishes instead.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from time import monotonic

from mosaic.core.errors import MosaicError, describe_error
from mosaic.store.run_folder import RunFolder
from mosaic.workers.host import FAILED, FINISHED, STOPPED, ProgressReporter, take_fd

PATIENCE_S = 5.0
_TELL_EVERY_S = 0.1


class ExportStoppedError(MosaicError):
    """Export that was asked to stop."""


class StopSwitch:
    """A requested stop, which interrupts whatever the main thread does until `close` is called."""

    def __init__(self) -> None:
        self.reason = ""
        self._closed = False

    def ask(self, reason: str) -> None:
        self.reason = self.reason or reason
        if threading.current_thread() is threading.main_thread():
            self.check()
        else:
            main_thread = threading.main_thread().ident
            assert main_thread is not None
            signal.pthread_kill(main_thread, signal.SIGINT)  # it may wait for an env

    def check(self) -> None:
        if self.reason and not self._closed:
            raise ExportStoppedError(self.reason)

    def close(self) -> None:
        """Begin what must not be interrupted."""
        self.check()
        self._closed = True

    def listen(self, fd: int) -> None:
        """Take commands until the supervisor is gone."""
        with os.fdopen(fd, "rb", buffering=0) as pipe:
            for line in iter(pipe.readline, b""):
                command = json.loads(line)
                if command["command"] == "stop":
                    self.ask(command.get("reason") or "asked to stop")
        self.ask("its supervisor died")


def main() -> int:
    folder, attempt = RunFolder(Path(sys.argv[1])), int(sys.argv[2])
    tell, stop = ProgressReporter(take_fd("MOSAIC_PROGRESS_FD")), StopSwitch()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stop.ask(signal.Signals(number).name))
    control = take_fd("MOSAIC_CONTROL_FD")
    if control is not None:
        threading.Thread(target=stop.listen, args=(control,), daemon=True, name="commands").start()
    tell("patience", patience_s=PATIENCE_S)
    tell("started")
    try:
        _export(folder, attempt, stop)
    except ExportStoppedError as error:
        print(f"Cancelled: {error}. No file was written.", flush=True)
        tell("stopped", reason=str(error))
        return STOPPED
    except BaseException as error:  # noqa: BLE001 - whatever ended the export, its supervisor is told
        text = str(error) if isinstance(error, MosaicError) else describe_error(error)
        tell("failed", message=text)  # first: the disk may be full
        if not isinstance(error, MosaicError):
            traceback.print_exc()
        print(text, file=sys.stderr, flush=True)
        _write_failure(folder, error, text)
        return FAILED
    tell("finished")
    return FINISHED


def _export(folder: RunFolder, attempt: int, stop: StopSwitch) -> None:
    from mosaic.config.export import ExportRequest
    from mosaic.exports.progress import ExportProgress, progress_text
    from mosaic.runs.exporting.record import PROGRESS, request_of, write_result
    from mosaic.runs.exporting.work import carry_out
    from mosaic.telemetry.events.writer import EventWriter

    request: ExportRequest = request_of(folder)
    with EventWriter(folder.metrics, attempt) as writer:
        said: tuple[object, ...] = ()
        said_at = float("-inf")

        def report(progress: ExportProgress) -> None:
            nonlocal said, said_at
            stop.check()
            step = (progress.policy, progress.step)
            if step == said and progress.done < progress.total and monotonic() - said_at < _TELL_EVERY_S:
                return
            if step != said:
                place = (progress.policy, progress.number, progress.policies, progress.step)
                print(progress_text(*place, (0, 0)), flush=True)
            said, said_at = step, monotonic()
            facts = {name: getattr(progress, name) for name in ExportProgress.__slots__}
            writer.report(kind=PROGRESS, **facts)
            if progress.step == "writing":
                stop.close()

        result = carry_out(request, folder, report)
    for each in result.compared:
        print(
            f"'{each.policy}': {each.path}, largest difference {each.max_abs_diff or 0:.2g}, "
            f"{each.action_agreement:.2%} equal actions",
            flush=True,
        )
    write_result(folder, result)


def _write_failure(folder: RunFolder, error: BaseException, text: str) -> None:
    from mosaic.runs.exporting.record import write_result
    from mosaic.runs.exporting.work import failure
    from mosaic.store.errors import StorageError

    try:
        write_result(folder, failure(error, text))
    except StorageError as full:  # the supervisor has kept room for the reason
        print(full, file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main()
    gc.freeze()  # else the interpreter's end searches all objects of torch for cycles
    sys.exit(code)
