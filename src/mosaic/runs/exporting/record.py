"""Export job on disk: its request and its result, and the view of it that every user interface shows."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mosaic.config.export import ExportRequest
from mosaic.core.reference import explain
from mosaic.exports.progress import progress_text
from mosaic.store.atomic import write_atomic
from mosaic.store.errors import DamagedError
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import RunState, State, read_state
from mosaic.telemetry.events.reader import EventTail

FILES, RESULT = "files", "result.json"
PROGRESS = "export_progress"  # kind of the events in a job's metrics.jsonl


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class ComparedFile(_View):
    """One exported file, and how closely it matches its policy."""

    policy: str
    agents: tuple[str, ...] = ()
    path: str | None = Field(description="Where it was written; null where no file was kept.")
    name: str = Field(description="Name to download it by; empty where no file was kept.")
    max_abs_diff: float | None = Field(description="Largest difference of outputs and actions; null: infinite.")
    action_agreement: float = Field(description="Share of observations on which the actions are equal.")
    recorded: int = Field(description="Observations from the env that were compared.")
    random: int = Field(description="Random observations that were compared.")
    tolerance: float
    passed: bool


class WrittenFile(_View):
    """A file on disk that the job wrote, a report or a policy's."""

    name: str
    path: str
    size: int
    sha256: str


class ExportResult(_View):
    """Content of result.json."""

    compared: tuple[ComparedFile, ...] = ()
    written: tuple[WrittenFile, ...] = ()
    error: str = ""
    exit_code: int = 0


class ProgressRow(_View):
    """Progress of an export: the current policy and phase."""

    policy: str
    number: int
    policies: int
    step: str
    done: int = 0
    total: int = 0

    @property
    def text(self) -> str:
        """Return one line for a person."""
        return progress_text(self.policy, self.number, self.policies, self.step, (self.done, self.total))


class ExportRow(_View):
    """An export job as lists and pages show it."""

    export_id: str
    state: State
    reason: str = Field(description="Why it ended, where it did not finish.")
    request: ExportRequest
    created: float
    started: float | None
    ended: float | None
    progress: ProgressRow | None = Field(description="The last that it reported.")
    compared: tuple[ComparedFile, ...] = Field(description="The comparison of each file with its policy.")
    written: tuple[WrittenFile, ...] = Field(description="Files that can be downloaded.")
    exit_code: int = Field(description="0, or that of the command that failed.")

    @property
    def share(self) -> float:
        """Return how much is done, from 0 to 1; recording and comparing are half of each policy's work."""
        if self.state is State.FINISHED:
            return 1.0
        now = self.progress
        if now is None:
            return 0.0
        begun = {"recording": 0.1, "tracing": 0.4, "comparing": 0.5, "writing": 1.0}.get(now.step, 0.0)
        width = {"recording": 0.3, "comparing": 0.5}.get(now.step, 0.0)
        inside = begun + width * (now.done / now.total if now.total else 0.0)
        return min(1.0, (now.number - 1 + inside) / max(1, now.policies))


def request_of(folder: RunFolder) -> ExportRequest:
    """Return what was asked for."""
    try:
        return ExportRequest.model_validate_json(folder.request.read_bytes())
    except FileNotFoundError as error:
        raise DamagedError(f"There is no export in '{folder.path}': it has no {folder.request.name}.") from error
    except ValidationError as error:
        raise DamagedError(f"'{folder.request}' is damaged: {explain(error, ExportRequest)}") from error


def read_row(folder: RunFolder) -> ExportRow:
    """Return the job as it is now; one whose processes are gone without an end is lost, never running."""
    state, result = read_state(folder), read_result(folder)
    return ExportRow(
        export_id=folder.run_id,
        state=state.state,
        reason=_reason(state, result),
        request=request_of(folder),
        created=state.queued_at,
        started=state.started,
        ended=state.ended,
        progress=_last_progress(folder),
        compared=result.compared,
        written=result.written if state.state is State.FINISHED else (),
        exit_code=result.exit_code or int(state.state in (State.FAILED, State.LOST)),
    )


def read_result(folder: RunFolder) -> ExportResult:
    """Return the result; an empty one where there is none yet."""
    file = folder.path / RESULT
    try:
        return ExportResult.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return ExportResult()
    except ValidationError as error:
        raise DamagedError(f"'{file}' is damaged: {explain(error, ExportResult)}") from error


def write_result(folder: RunFolder, result: ExportResult) -> None:
    write_atomic(folder.path / RESULT, result.model_dump_json(indent=1) + "\n")


def _reason(state: RunState, result: ExportResult) -> str:
    if state.state is State.LOST:
        return "its processes died before it had ended, for example because the machine was switched off"
    return state.attempts[-1].reason if state.attempts else result.error


def _last_progress(folder: RunFolder) -> ProgressRow | None:
    found: ProgressRow | None = None
    with EventTail(folder.metrics) as tail:
        while events := tail.read():
            for event in events:
                if event["kind"] == PROGRESS:
                    found = ProgressRow.model_validate(event)
    return found
