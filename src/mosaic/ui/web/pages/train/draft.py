"""The run that is being put together in one browser tab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mosaic.config.sections import PolicyConfiguration
from mosaic.core.ids import AgentID, EnvID, PolicyID

FIRST_ENV = "classic/tictactoe_v3"
LEARN = "learn:"  # before the name of a policy that learns; anything else is a reference
_STEPS = {"tabular": 3_000_000}  # a table takes seconds for that
_OTHERS_STEPS = 1_000_000
_SECTIONS = ("environment", "training", "resources", "checkpoint", "evaluation", "telemetry")


@dataclass
class Draft:
    """Only what somebody chose stands in the sections; the rest is Mosaic's default."""

    env: EnvID = FIRST_ENV
    worker: str = ""
    algorithm: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    paradigm: PolicyConfiguration | None = None
    agents: dict[AgentID, PolicyID] = field(default_factory=dict)
    name: str = ""
    tags: tuple[str, ...] = ()
    seed: int = 0
    seeds: int = 1
    sections: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in _SECTIONS})

    def suggest_steps(self, tuned: bool) -> None:
        """A limit for a run whose worker has none; a preset brings its own."""
        training = self.sections["training"]
        training.pop("total_timesteps", None)
        if not tuned:
            training["total_timesteps"] = _STEPS.get(self.worker, _OTHERS_STEPS)

    def document(self) -> dict[str, Any]:
        """What `POST /runs` takes."""
        document: dict[str, Any] = {name: dict(values) for name, values in self.sections.items() if values}
        document["environment"] = {"env_id": self.env, **self.sections["environment"]}
        chosen = {"worker": self.worker, "algorithm": self.algorithm, "params": dict(self.params)}
        training = {**{key: value for key, value in chosen.items() if value}, **self.sections["training"]}
        further = {
            "training": training,
            "policy_configuration": self.paradigm,
            "agents": dict(self.agents),
            "name": self.name,
            "tags": list(self.tags),
            "seed": self.seed,
        }
        document.update({key: value for key, value in further.items() if value})
        return document


def rules_of(rows: Mapping[AgentID, str], default: Mapping[AgentID, str]) -> dict[AgentID, PolicyID]:
    """The rules that turn what the policy configuration gives each agent into what the rows say."""
    return {agent: choice.removeprefix(LEARN) for agent, choice in rows.items() if choice != f"{LEARN}{default[agent]}"}


def default_rows(default: Mapping[AgentID, str]) -> dict[AgentID, str]:
    return {agent: f"{LEARN}{name}" for agent, name in default.items()}


def choices(
    agent: AgentID,
    rows: Mapping[AgentID, str],
    default: Mapping[AgentID, str],
    paradigm: PolicyConfiguration,
    offers: Mapping[PolicyID, str],
) -> dict[str, str]:
    """What this agent's picker offers: learn alone, share with others, a frozen run, an engine, chance."""
    names = [default[agent]]
    if paradigm != "self_play":  # there one policy plays every agent that learns
        names += [choice.removeprefix(LEARN) for choice in rows.values() if choice.startswith(LEARN)]
        names.append(agent)
    found = {f"{LEARN}{name}": _learns(name, agent, rows) for name in dict.fromkeys(names)}
    if paradigm == "self_play":
        found["self@-10000"] = "its own past: 10,000 env steps ago"
    found.update(offers)
    current = rows[agent]
    return found if current in found else {**found, current: current.removeprefix(LEARN)}


def _learns(name: str, agent: AgentID, rows: Mapping[AgentID, str]) -> str:
    others = [other for other, choice in rows.items() if other != agent and choice == f"{LEARN}{name}"]
    if not others:
        return f"learn · {name}" if name != agent else f"learn · {name} alone"
    shared = ", ".join(others[:2]) + (f" and {len(others) - 2} more" if len(others) > 2 else "")
    return f"learn · {name}, shared with {shared}"
