"""Response models of the server, one per document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mosaic.store.state import State


class ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class Complaint(ResponseModel):
    error: str = Field(description="What is wrong and what to do.")


class Health(ResponseModel):
    """Sent with HTTP status 200 when `status` is ok, with 503 when it is degraded."""

    status: Literal["ok", "degraded"]
    problems: tuple[str, ...] = Field((), description="Why the server is degraded; empty when it is ok.")
    version: str
    queued: int | None = Field(description="Runs that wait; null when the runs cannot be listed.")
    running: int | None = Field(description="Runs that are alive; null when the runs cannot be listed.")
    stuck: dict[str, str] = Field(description="Queued runs that this server could not start, and why.")


class LiveRow(ResponseModel):
    """An activity that is played now and is not a run."""

    id: str
    kind: str = Field(description="evaluate, tournament, play or match.")
    env: str
    policies: dict[str, str] = Field(description="Agent or pattern → policy.")
    began: float = Field(description="In seconds since 1970.")


class RunRow(ResponseModel):
    """One row of the list of runs."""

    run_id: str
    name: str = ""
    tags: tuple[str, ...] = ()
    state: State
    env: str
    worker: str | None = None
    algorithm: str | None = None
    env_steps: int | None = None
    episode_reward_mean: float | None = None
    started: float | None = None
    ended: float | None = None
    group: str | None = None
    seed: int | None = None


class CheckpointRow(ResponseModel):
    env_steps: int
    path: str
    best: bool = False
    best_by: str = Field("reward", description="Measure by which the best one is chosen: reward, rating or env_steps.")
    reward: float | None = None
    rating: float | None = None


class AttemptRow(ResponseModel):
    number: int
    started: float | None = None
    ended: float | None = None
    exit: int | None = None
    reason: str = ""
    forced: bool = Field(False, description="It did not stop by itself and was killed: nothing new was saved.")


class RunDetails(ResponseModel):
    run_id: str
    state: State
    queued_at: float
    attempts: tuple[AttemptRow, ...]
    config: dict[str, Any]
    env_steps: int | None
    last_metric: dict[str, Any] | None = Field(description="The newest event that counts.")
    last_seq: int = Field(description="Of the newest stored event; 0 where there is none.")
    checkpoints: tuple[CheckpointRow, ...]
    exit: int | None
    reason: str = Field("", description="Why the last attempt ended.")


class Events(ResponseModel):
    events: list[dict[str, Any]]
    last_seq: int = Field(description="Ask with after_seq = this for what comes next.")


class CurvePoints(ResponseModel):
    """Buckets of a curve: position, and the least, greatest and mean value of each."""

    metric: str
    x_name: str
    x: list[float]
    low: list[float | None]
    high: list[float | None]
    mean: list[float | None]


class LogPart(ResponseModel):
    text: str
    start: int = Field(description="Byte of the log at which the text begins.")
    end: int = Field(description="Byte after its last one; ask with after = this for what comes next.")


class EnvRow(ResponseModel):
    id: str
    installed: bool
    install: str | None = Field(description="The exact line to type where something is missing.")


class WorkerRow(ResponseModel):
    id: str
    installed: bool
    install: str | None
    capabilities: dict[str, Any] | None


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
