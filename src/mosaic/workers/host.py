"""Entry point of a worker's process: `python -m mosaic.workers.host RUN_FOLDER ATTEMPT`.

Two pipes connect it to its supervisor: commands come in on MOSAIC_CONTROL_FD, progress goes out on MOSAIC_PROGRESS_FD.
When the first one is closed, the supervisor is dead, and the worker is asked to save and stop.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from mosaic.core.errors import describe_error
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.sinks.base import mirror, sink_factory

if TYPE_CHECKING:
    from mosaic.telemetry.events.writer import EventWriter
    from mosaic.workers.api import Worker
    from mosaic.workers.context import WorkerContext
    from mosaic.workers.inbox import Inbox


# Read when numpy and torch are imported, which is later; VECLIB is Apple's.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # small products on several threads spin more than they compute

FINISHED, FAILED, STOPPED = 0, 1, 3  # exit codes
MIRRORS_END_WITHIN_S = 60.0  # a service may be out of reach
_CODE_WITHIN_S = 2.0  # after the training; usually git is long done
ORPHAN_GRACE_S = float(os.environ.get("MOSAIC_ORPHAN_GRACE_S", "10"))  # to save, once the supervisor is gone


class ProgressReporter:
    """Progress messages to the supervisor, dropped if it is gone."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def __call__(self, progress: str, **facts: object) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, json.dumps({"progress": progress, **facts}).encode() + b"\n")
        except BrokenPipeError:
            self._fd = None


def _listen(fd: int, inbox: Inbox) -> None:
    """Put commands into the inbox until the supervisor is gone."""
    with os.fdopen(fd, "rb", buffering=0) as pipe:
        for line in iter(pipe.readline, b""):
            command = json.loads(line)
            inbox.put(command["command"], command.get("reason", "asked to"))
    inbox.put("stop", "its supervisor died")
    threading.Event().wait(ORPHAN_GRACE_S)
    print(
        f"The worker did not stop within {ORPHAN_GRACE_S:g} s after its supervisor's death.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(FAILED)  # reached only if the worker does not react to the stop


def main() -> int:
    folder_path, attempt = Path(sys.argv[1]), int(sys.argv[2])
    progress = ProgressReporter(take_fd("MOSAIC_PROGRESS_FD"))
    try:
        return _run(folder_path, attempt, progress)
    except BaseException as error:  # noqa: BLE001 - whatever ended the worker, its supervisor is told
        progress("failed", message=describe_error(error))  # first: the log may be on a full disk
        traceback.print_exc()
        return FAILED


def _run(folder_path: Path, attempt: int, progress: ProgressReporter) -> int:
    from mosaic.config.loading import load_run_config
    from mosaic.store.archives.trust import confine
    from mosaic.store.checkpoints import find_checkpoint
    from mosaic.store.origin import read_history
    from mosaic.store.run_folder import RunFolder
    from mosaic.telemetry.events.writer import EventWriter
    from mosaic.workers.context import WorkerContext
    from mosaic.workers.inbox import Inbox
    from mosaic.workers.registry import load_worker, parse_params

    inbox = Inbox(progress)
    signal.signal(signal.SIGINT, lambda *_: inbox.put("stop", "SIGINT"))
    signal.signal(signal.SIGTERM, lambda *_: inbox.put("stop", "SIGTERM"))
    control = take_fd("MOSAIC_CONTROL_FD")
    if control is not None:
        threading.Thread(target=_listen, args=(control, inbox), daemon=True, name="inbox").start()
    folder = RunFolder(folder_path)
    config = load_run_config(folder.config)
    confine(folder)
    assert config.training.worker is not None, "a run is stored with its worker"
    worker = load_worker(config.training.worker)
    algorithm = config.training.algorithm or worker.info.algorithms[0]
    with EventWriter(folder.metrics, attempt) as writer:
        resume_from = find_checkpoint(folder, "latest", missing_ok=True)  # a fork has one before its first attempt
        if attempt > 1 or resume_from:
            writer.report(kind="resumed", from_env_steps=resume_from.env_steps if resume_from else 0)
        for changed in read_history(folder):
            if changed["attempt"] == attempt:
                writer.report(kind="config_changed", changes=changed["changes"])
        for message in resume_from.skipped if resume_from else ():
            writer.report(kind="alert", message=message)
        options = parse_params(worker, algorithm, dict(config.training.params))
        patience_s = worker.info.patience_s
        context = WorkerContext(
            config, options, folder, writer, inbox, resume_from, patience_s=patience_s, tell=progress
        )
        progress("patience", patience_s=patience_s)
        progress("started")
        told = code_told(folder.run_id, attempt, progress)
        with mirrored(folder.path, config.telemetry.mirrors, writer), _exporting(context, writer), told:
            _train(worker, context, writer, progress)
    if inbox.stop_asked():
        progress("stopped", reason=inbox.stop_asked())
        return STOPPED
    progress("finished")
    return FINISHED


@contextmanager
def code_told(run_id: str, attempt: int, progress: ProgressReporter) -> Iterator[None]:
    """Tell the supervisor the commit of the working folder meanwhile: git may take a while to say it."""
    from mosaic.store.origin import code_of_attempt

    def tell() -> None:
        code = code_of_attempt(run_id, attempt)
        if code is not None:
            progress("code", commit=code.commit, dirty=code.dirty)

    thread = threading.Thread(target=tell, daemon=True, name="git")
    thread.start()
    try:
        yield
    finally:
        thread.join(_CODE_WITHIN_S)


def _exporting(context: WorkerContext, writer: EventWriter) -> AbstractContextManager[None]:
    """Export as the run's configuration asks; most runs do not, and import nothing for it."""
    config = context.config
    if not config.export.wanted:
        return nullcontext()
    from mosaic.exports.during_training import exporting
    from mosaic.store.checkpoints import Retention

    retention = Retention(config.checkpoint.keep_last, config.checkpoint.keep_best)
    return exporting(context.folder, config.export, retention, writer, context.inbox.wait_for_stop)


def alert(writer: EventWriter, message: str) -> None:
    writer.report(kind="alert", message=message)


def _train(worker: Worker, context: WorkerContext, writer: EventWriter, progress: ProgressReporter) -> None:
    """Train between a first and a last event, whose times `mosaic train` reports."""
    from mosaic.core.compile_time import timer, working_time
    from mosaic.core.errors import notices_to
    from mosaic.workers.heartbeat import StoppedAtStartError

    begun, compiled_s = working_time(), timer.seconds()
    resources = context.config.resources  # may differ from those of earlier attempts
    writer.report(kind="started", num_env_runners=resources.num_env_runners, ray_address=resources.ray_address)
    finished = False

    def leave() -> None:
        reason = context.inbox.stop_asked()
        writer.report(kind="ended", reason=reason, prepare_s=working_time() - begun, train_s=0.0, time_to_stop_s=None)
        progress("stopped", reason=reason)
        os._exit(STOPPED)  # the supervisor ends what was started

    context.heartbeat.leave = leave
    try:
        notices = notices_to(lambda message: alert(writer, message))
        with context.heartbeat.beating(), notices, suppress(StoppedAtStartError):
            worker.run(context)
        finished = True
    finally:
        context.close_frames(finished=finished)
    reached = context.stop_reward_reached_at
    began, ended = context.training_began_at or begun, context.training_ended_at or working_time()
    writer.report(
        kind="ended",
        reason=context.inbox.stop_asked() or "done",
        prepare_s=began - begun + timer.seconds() - compiled_s,
        train_s=ended - began,
        time_to_stop_s=None if reached is None else reached - began,
    )


def take_fd(name: str) -> int | None:
    """Return the pipe's file descriptor and keep child processes from inheriting it."""
    text = os.environ.pop(name, None)
    if text is None:
        return None
    os.set_inheritable(int(text), False)
    return int(text)


@contextmanager
def mirrored(run_folder: Path, names: Sequence[str], writer: EventWriter) -> Iterator[None]:
    """Copy events to mirrors, each in a thread of its own.

    A failing mirror raises an alert and never fails the run, nor the others. Unknown names are refused at once.
    """
    if not names:
        yield
        return
    for name in names:
        sink_factory(name)
    stop = threading.Event()

    def copy(name: str) -> None:
        try:
            mirror(run_folder, [name], stop)
        except Exception as error:  # noqa: BLE001 - foreign code and a foreign disk; the run itself is well
            traceback.print_exc()
            alert(writer, f"The mirror {name} stopped: {describe_error(error)}")

    threads = [threading.Thread(target=copy, args=(name,), daemon=True, name=f"mirror {name}") for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        deadline_s = monotonic() + MIRRORS_END_WITHIN_S
        for name, thread in zip(names, threads, strict=True):
            thread.join(max(0.0, deadline_s - monotonic()))
            if thread.is_alive():
                alert(
                    writer, f"The mirror {name} did not finish within {MIRRORS_END_WITHIN_S:g} s; it may lack events."
                )


if __name__ == "__main__":
    code = main()
    gc.freeze()  # else the interpreter's end searches all objects for cycles: seconds, where torch and Ray are loaded
    sys.exit(code)
