"""Response models of the server that describe the server itself; those of runs are in `store/views.py`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mosaic.config.sections import Incentives


class ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class Complaint(ResponseModel):
    error: str = Field(description="Description of the error, with advice.")


class Health(ResponseModel):
    """Sent with HTTP status 200 when `status` is ok, with 503 when it is degraded."""

    status: Literal["ok", "degraded"]
    problems: tuple[str, ...] = Field((), description="Why the server is degraded; empty when it is ok.")
    version: str
    queued: int | None = Field(description="Runs that wait; null when the runs cannot be listed.")
    running: int | None = Field(description="Runs that are alive; null when the runs cannot be listed.")
    stuck: dict[str, str] = Field(description="Queued runs that this server could not start, and why.")


class QueuedRow(ResponseModel):
    run_id: str
    position: int = Field(description="Place in the order in which queued runs will start, from 1.")
    reason: str = Field(description="Why it has not been started yet.")


class Events(ResponseModel):
    events: list[dict[str, object]]
    last_seq: int = Field(description="Request the following events with after_seq = this.")


class EnvRow(ResponseModel):
    id: str
    installed: bool
    install: str | None = Field(description="Exact command to type if something is missing.")
    incentives: Incentives = Field(
        description="Whether its agents cooperate or compete; unknown where it is not declared."
    )
    shared_reward: bool | None = Field(
        description="Whether all agents get the same reward; null with one agent, or where it is not declared."
    )
    note: str = Field("", description="Effect of the command, if it installs nothing.")


class CheckedRun(ResponseModel):
    """Result of a check: the resolved configuration, or why the run would be refused."""

    config: dict[str, object] | None = Field(description="With worker, algorithm, policies and preset filled in.")
    error: str = ""


class WorkerRow(ResponseModel):
    id: str
    installed: bool
    install: str | None
    capabilities: dict[str, object] | None


def worker_row(name: str) -> WorkerRow:
    """Describe a worker of this machine, installed or not."""
    from mosaic.core.errors import MissingExtraError
    from mosaic.workers.registry import load_worker

    try:
        info = load_worker(name).info
    except MissingExtraError as error:
        return WorkerRow(id=name, installed=False, install=str(error), capabilities=None)
    return WorkerRow(id=name, installed=True, install=None, capabilities=info.model_dump(mode="json"))


class PolicyRow(ResponseModel):
    id: str
    usage: str
    help: str
    options: dict[str, str]
    installed: bool
    install: str | None


class FindingRow(ResponseModel):
    id: str
    ok: bool
    detail: str
    install: str | None = None
    optional: bool = False  # not installed, which is a choice; what is not ok and not optional is a fault
