"""RunConfig: all settings of one run."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mosaic.config.field_types import Reference
from mosaic.config.sections import (
    AgentRules,
    CheckpointConfig,
    EnvironmentConfig,
    EvaluationConfig,
    PolicyConfigurationChoice,
    ResourcesConfig,
    Section,
    TelemetryConfig,
    TrainedPolicies,
    TrainingConfig,
)
from mosaic.config.upgrade import CURRENT_VERSION
from mosaic.core.seeding import SEED_LIMIT

LATEST = "latest"  # on the command line this word means the newest run

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_run_id(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id) or run_id.endswith(".") or run_id == LATEST:
        raise ValueError(
            "it names a folder, so it should be 1 to 100 letters, digits, '-', '_' and '.', "
            f"begin with a letter or digit, not end with '.' and not be '{LATEST}'"
        )
    return run_id


def _check_name(name: str) -> str:
    if name != name.strip() or not name.isprintable() or set("@/") & set(name) or name == LATEST or name[:1] == "-":
        raise ValueError(
            "it may stand for the run in run:NAME@best/POLICY, so it should be printable, without '@' and '/', "
            f"without blanks around it, not begin with '-' and not be '{LATEST}'"
        )
    return name


class RunConfig(Section):
    """Everything a run needs to be started, and to be started again."""

    version: Literal[2] = Field(CURRENT_VERSION, description="Version of this format; older ones are upgraded.")
    run_id: Annotated[str, AfterValidator(check_run_id)] | None = Field(
        None,
        description="Name of the run's folder; None lets Mosaic make one.",
        json_schema_extra={"pattern": f"^{_RUN_ID.pattern}$"},
    )
    name: Annotated[str, AfterValidator(_check_name)] = Field(
        "", max_length=100, description="Name for people; it may stand for the run on the command line."
    )
    tags: tuple[Reference, ...] = Field((), description="Words to find the run by.")
    seed: int = Field(
        0, ge=0, lt=SEED_LIMIT, description="The one seed; every other random stream of the run comes from it."
    )
    environment: EnvironmentConfig = Field(description="Which environment, and how it is made.")
    policy_configuration: PolicyConfigurationChoice = Field(
        None, description="How agents share policies; None lets Mosaic pick: self_play in turn-based zero-sum games, "
        "else parameter_sharing."
    )  # fmt: skip
    agents: AgentRules = Field(
        default_factory=dict,
        description="Policy of each agent: {pattern: policy reference or name}, first match wins, "
        "or python:MODULE:FUNCTION of (agent_id, episode). Agents without a rule learn.",
    )
    policies_to_train: TrainedPolicies = Field(
        None, description="Names of the policies that learn, or python:MODULE:FUNCTION; None trains all that can."
    )
    training: TrainingConfig = Field(
        default_factory=TrainingConfig, description="Who trains, with which algorithm, and when it is enough."
    )
    resources: ResourcesConfig = Field(
        default_factory=ResourcesConfig, description="What the run may use: processes, devices, time and memory."
    )
    checkpoint: CheckpointConfig = Field(
        default_factory=CheckpointConfig, description="When policies are saved, and which checkpoints stay."
    )
    evaluation: EvaluationConfig = Field(
        default_factory=EvaluationConfig, description="How policies are examined while they train."
    )
    telemetry: TelemetryConfig = Field(
        default_factory=TelemetryConfig, description="What the run tells about itself, and how often."
    )
