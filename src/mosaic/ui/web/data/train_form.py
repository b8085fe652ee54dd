"""Training form without widgets, as the web page and the terminal app show it: its sections, defaults and offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

from mosaic.config.export import ExportConfig
from mosaic.config.sections import (
    CheckpointConfig,
    EnvironmentConfig,
    EvaluationConfig,
    PolicyConfiguration,
    ResourcesConfig,
    TelemetryConfig,
    TrainingConfig,
)
from mosaic.core.ids import EnvID, PolicyID
from mosaic.ui.web.components.theme import title
from mosaic.ui.web.data.draft import Draft
from mosaic.ui.web.data.env_info import EnvLook
from mosaic.ui.web.pages.play_choices import policies_for
from mosaic.workers.presets import find_preset

if TYPE_CHECKING:
    from mosaic.store.index.summary import RunSummary
    from mosaic.store.views import RunRow


class FormSection(NamedTuple):
    title: str
    model: type[BaseModel]
    only: tuple[str, ...] = ()  # its fields in the form; () means all


SECTIONS: Mapping[str, FormSection] = {
    "resources": FormSection("Resources", ResourcesConfig),
    "environment": FormSection("Environment", EnvironmentConfig, ("api_type", "options", "wrappers", "num_envs")),
    "training": FormSection("Limits", TrainingConfig, ("episodes", "stop_reward", "init", "preset")),
    "checkpoint": FormSection("Checkpoints", CheckpointConfig),
    "evaluation": FormSection("Evaluation", EvaluationConfig),
    "export": FormSection("Exports", ExportConfig),
    "telemetry": FormSection("Telemetry", TelemetryConfig),
}


def usual_configuration(look: EnvLook | None, possible: Sequence[PolicyConfiguration]) -> PolicyConfiguration | None:
    """Return Mosaic's default: self-play in competitive turn-based games."""
    if look is not None and look.turn_based and look.competitive and "self_play" in possible:
        return "self_play"
    return possible[0] if possible else None


def forget_method(draft: Draft) -> None:
    """Drop what belongs to another worker, algorithm or env."""
    draft.params.clear()
    draft.paradigm, draft.agents = None, {}
    draft.suggest_steps(tuned=find_preset(draft.env, draft.worker, draft.algorithm) is not None)


def policy_offers(env: EnvID, rows: Sequence[RunSummary | RunRow]) -> dict[PolicyID, str]:
    """Return policies that an agent may have instead of learning, each with its label."""
    names = {f"run:{row.run_id}": title(row) for row in rows}
    offered = [policy for policy in policies_for(env, rows) if policy != "human"]
    return {policy: f"frozen · {names[policy]}" if policy in names else policy for policy in offered}
