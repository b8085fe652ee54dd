"""Exports of a run while it trains: of each best checkpoint, and of the last one at its end.

A thread follows the run's checkpoints. Each export is an ordinary job, in processes of its own; the learner does not
wait for it. What fails is an alert of the run and never ends it.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT
from typing import Any, Literal

from mosaic.config.export import ExportConfig, ExportOptions, ExportRequest
from mosaic.core.child_process import module_command
from mosaic.store.checkpoints import (
    Checkpoint,
    Retention,
    best_first,
    holding,
    list_checkpoints,
    newest_first,
    prune,
)
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.reader import follow
from mosaic.telemetry.events.writer import EventWriter

FOLDER = "exports"  # in the folder of a run
_JOB = "mosaic.runs.exporting.job_report"  # above this package: it is started, not imported
_LOOK_EVERY_S = 0.25

Moment = Literal["best", "end"]
WaitForStop = Callable[[float], bool]  # whether the run is asked to stop within the seconds


@contextmanager
def exporting(
    folder: RunFolder, config: ExportConfig, retention: Retention, writer: EventWriter, wait_for_stop: WaitForStop
) -> Iterator[None]:
    """Export while the block trains, then wait for the last exports; a stop or an error cancels them."""
    if not config.wanted:
        yield
        return
    exports = _RunExports(folder, config, retention, writer, wait_for_stop)
    thread = threading.Thread(target=exports.follow_best, daemon=True, name="exports")
    if config.on_best:
        thread.start()
    try:
        yield
    except BaseException:
        exports.cancelled.set()
        raise
    finally:
        exports.trained.set()
        if config.on_best:
            thread.join()
    if config.at_end:
        exports.export_last()


@dataclass(slots=True)
class _RunExports:
    folder: RunFolder
    config: ExportConfig
    retention: Retention
    writer: EventWriter
    wait_for_stop: WaitForStop
    trained: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)  # the training failed
    tried: set[str] = field(default_factory=set)  # digests of the best checkpoints that were exported, or failed

    def follow_best(self) -> None:
        """Export the best checkpoint whenever it is another one; of several that came meanwhile, the best."""
        try:
            self.tried = {each.digest for each in self._best() if self._place("best", each).exists()}  # by an attempt
            for event in follow(self.folder.metrics, self.writer.seq, self.trained, _LOOK_EVERY_S):
                if event["kind"] in ("checkpoint", "checkpoint_exists"):
                    self._export_best()
        except Exception as error:  # noqa: BLE001 - the run itself is well
            traceback.print_exc()
            self._alert(f"Exports of the best checkpoint stopped: {error}")

    def export_last(self) -> None:
        """Export the last checkpoint of a run that trained to its end."""
        if self._stopped():
            self._alert(
                "The run was stopped before its end, so export.at_end wrote no file. "
                f"Resume it, or type: mosaic export {self.folder.run_id} --out FOLDER"
            )
            return
        try:
            saved = newest_first(list_checkpoints(self.folder))
            if saved:
                self._export("end", saved[0])
            else:
                self._alert("export.at_end wrote no file: the run has no checkpoint.")
        except Exception as error:  # noqa: BLE001 - the run itself is well
            traceback.print_exc()
            self._alert(f"The export at the end failed: {error}")

    def _export_best(self) -> None:
        for best in self._best()[:1]:
            if best.digest not in self.tried and not self._stopped() and self._export("best", best):
                self.tried.add(best.digest)

    def _best(self) -> list[Checkpoint]:
        saved = list_checkpoints(self.folder)
        return best_first(saved) if saved else []

    def _export(self, moment: Moment, checkpoint: Checkpoint) -> bool:
        """Return whether it was tried; a checkpoint that was removed meanwhile is not."""
        with holding(checkpoint.path) as held:
            if held is not None:
                self._report(moment, checkpoint, self._ended_job(self._request(moment, checkpoint)))
        prune(self.folder, self.retention)
        return held is not None

    def _request(self, moment: Moment, checkpoint: Checkpoint) -> ExportRequest:
        options = self.config.model_dump(include=set(ExportOptions.model_fields))
        return ExportRequest(
            **options,
            run=self.folder.run_id,
            checkpoint=checkpoint.env_steps,
            out=str(self._place(moment, checkpoint)),
            overwrite=True,  # an earlier attempt may have been at the same step
        )

    def _ended_job(self, request: ExportRequest) -> dict[str, Any]:
        """Return the report of a job that was carried out, or cancelled because the run is asked to stop."""
        command = module_command(_JOB, request.model_dump_json())
        tied = module_command("mosaic.core.parent_death", str(os.getpid()), *command)
        with subprocess.Popen(tied, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            asked = False
            while process.poll() is None:
                if asked:
                    process.wait()
                elif self.cancelled.is_set() or self.wait_for_stop(_LOOK_EVERY_S):
                    process.send_signal(SIGINT)
                    asked = True
            assert process.stdout is not None
            said = process.stdout.read()
        if not said:
            return {"state": "failed", "reason": f"its process ended with exit code {process.returncode}"}
        report: dict[str, Any] = json.loads(said)
        return report

    def _report(self, moment: Moment, checkpoint: Checkpoint, job: dict[str, Any]) -> None:
        what = "the best policies" if moment == "best" else "the last policies"
        if job["state"] != "finished":
            shown = f" Look at it: mosaic exports show {job['export_id']}" if "export_id" in job else ""
            why = str(job["reason"]).removesuffix(".") or "see its log"
            self._alert(f"The export of {what}, at {checkpoint.env_steps} env steps, {_ended(job)}: {why}.{shown}")
            return
        path = str(self._place(moment, checkpoint))
        near = f"largest difference {job['max_abs_diff']:.2g}, {job['action_agreement']:.2%} equal actions"
        self.writer.report(
            kind="exported",
            message=f"Exported {what}, at {checkpoint.env_steps} env steps: {path} ({near})",
            moment=moment,
            checkpoint=checkpoint.env_steps,
            path=path,
            **{name: job[name] for name in ("export_id", "files", "max_abs_diff", "action_agreement")},
        )

    def _stopped(self) -> bool:
        return self.cancelled.is_set() or self.wait_for_stop(0.0)

    def _place(self, moment: Moment, checkpoint: Checkpoint) -> Path:
        return self.folder.path / FOLDER / f"{moment}-{checkpoint.env_steps}"

    def _alert(self, message: str) -> None:
        self.writer.report(kind="alert", message=message)


def _ended(job: dict[str, Any]) -> str:
    return "was cancelled" if job["state"] == "stopped" else "failed"
