"""RunConfig: all settings of one run, and their JSON schema."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from mosaic.config.export import ExportConfig
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
from mosaic.core.seeding import SEED_LIMIT

CURRENT_VERSION: Final = 3
SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"  # the one that pydantic writes
LONGEST_NAME = 100  # characters of a run's name
LATEST = "latest"  # on the command line this word means the newest run

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_run_id(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id) or run_id.endswith(".") or run_id == LATEST:
        raise ValueError(
            "it names a folder, so it should be 1 to 100 letters, digits, '-', '_' and '.', "
            f"begin with a letter or digit, not end with '.' and not be '{LATEST}'"
        )
    return run_id


def check_run_name(name: str) -> str:
    if name != name.strip() or not name.isprintable() or set("@/") & set(name) or name == LATEST or name[:1] == "-":
        raise ValueError(
            "it can be used in run:NAME@best/POLICY, so it should be printable, without '@' and '/', "
            f"without blanks at either end, not begin with '-' and not be '{LATEST}'"
        )
    return name


def check_project(name: str) -> str:
    if name != name.strip() or not name.isprintable() or "/" in name or name[:1] in ("-", "."):
        raise ValueError(
            "it is typed in commands and addresses, so it should be printable, without '/', without blanks at either "
            "end, and not begin with '-' or '.'"
        )
    return name


class RunConfig(Section):
    """Everything a run needs to be started, and to be started again."""

    version: Literal[3] = Field(CURRENT_VERSION, description="Version of this format; older versions are upgraded.")
    run_id: Annotated[str, AfterValidator(check_run_id)] | None = Field(
        None,
        description="Name of the run's folder; None generates one.",
        json_schema_extra={"pattern": f"^{_RUN_ID.pattern}$"},
    )
    name: Annotated[str, AfterValidator(check_run_name)] = Field(
        "", max_length=LONGEST_NAME, description="Human-readable run name; can be used instead of the run id."
    )
    project: Annotated[str, AfterValidator(check_project)] = Field(
        "", max_length=100, description="Project that the run belongs to; set where the run is started from a project."
    )
    tags: tuple[Reference, ...] = Field((), description="Labels to find the run by.")
    seed: int = Field(
        0, ge=0, lt=SEED_LIMIT, description="Seed of the run; all its random streams are derived from it."
    )
    environment: EnvironmentConfig = Field(description="Environment, and how to create it.")
    policy_configuration: PolicyConfigurationChoice = Field(
        None, description="How agents share policies; None lets Mosaic choose: self_play in turn-based zero-sum games, "
        "else parameter_sharing."
    )  # fmt: skip
    agents: AgentRules = Field(
        default_factory=dict,
        description="Policy of each agent: {pattern: policy reference or name}, first match wins, "
        "or python:MODULE:FUNCTION of (agent_id, episode). Agents without a rule learn.",
    )
    policies_to_train: TrainedPolicies = Field(
        None, description="Names of the policies to train, or python:MODULE:FUNCTION; None trains all that can."
    )
    training: TrainingConfig = Field(
        default_factory=TrainingConfig, description="Worker, algorithm and stopping conditions."
    )
    resources: ResourcesConfig = Field(
        default_factory=ResourcesConfig, description="Limits of the run: processes, devices, time and memory."
    )
    checkpoint: CheckpointConfig = Field(
        default_factory=CheckpointConfig, description="When to save policies, and which checkpoints to keep."
    )
    evaluation: EvaluationConfig = Field(
        default_factory=EvaluationConfig, description="Evaluation of policies during training."
    )
    export: ExportConfig = Field(
        default_factory=ExportConfig, description="Files of policies, for other programs, written during training."
    )
    telemetry: TelemetryConfig = Field(
        default_factory=TelemetryConfig, description="What the run reports, and how often."
    )


def run_schema() -> dict[str, object]:
    """Return the JSON schema of a run's settings, for forms, editors and docs."""
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:mosaic-rl:run-config:{CURRENT_VERSION}",
        **RunConfig.model_json_schema(),
        "title": "Mosaic run",
    }
