"""Process that starts an export job, follows it to its end, and reports it: `python -m … REQUEST` as JSON.

A run that trains starts it, so that neither tracing nor torch slow its learner down. SIGINT and SIGTERM cancel the job.
"""

from __future__ import annotations

import json
import signal
import sys

from mosaic.config.export import ExportRequest
from mosaic.core.errors import MosaicError, describe_error
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.exporting.record import ExportRow
from mosaic.store.state import State

_LONGEST_REASON = 4000


def main() -> int:
    request = ExportRequest.model_validate_json(sys.argv[1])
    pressed: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: pressed.append(number))
    try:
        print(json.dumps(_report(_followed(request, pressed))), flush=True)
    except MosaicError as error:
        print(json.dumps({"state": State.FAILED, "reason": str(error)[:_LONGEST_REASON]}), flush=True)
    except Exception as error:
        print(json.dumps({"state": State.FAILED, "reason": describe_error(error)[:_LONGEST_REASON]}), flush=True)
        raise  # its traceback belongs in the log of the run
    return 0


def _followed(request: ExportRequest, pressed: list[int]) -> ExportRow:
    """Return the job when it has ended; with a signal in `pressed`, after it was cancelled."""
    jobs = ExportJobs()
    started = jobs.start(request)
    for row in jobs.follow(started.export_id):
        if pressed:
            return jobs.cancel(row.export_id)
    return row


def _report(row: ExportRow) -> dict[str, object]:
    """Return what the run stores of it: the worst of its files stands for all."""
    report: dict[str, object] = {"export_id": row.export_id, "state": row.state, "reason": row.reason[:_LONGEST_REASON]}
    if row.compared:
        differences = [each.max_abs_diff for each in row.compared]
        report |= {
            "files": len(row.compared),
            "max_abs_diff": None if None in differences else max(each for each in differences if each is not None),
            "action_agreement": min(each.action_agreement for each in row.compared),
        }
    return report


if __name__ == "__main__":
    sys.exit(main())
