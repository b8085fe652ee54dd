"""Draft of a run, edited in one browser tab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.sections import PolicyConfiguration
from mosaic.core.errors import MissingExtraError, MosaicError
from mosaic.core.ids import AgentID, EnvID, PolicyID
from mosaic.core.plugins import plugins
from mosaic.runs.trainer import group_members
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.registry import load_worker, resolve

FIRST_ENV = "classic/tictactoe_v3"
LEARN = "learn:"  # prefix of a policy that learns; anything else is a reference
_STEPS = {"tabular": 3_000_000}  # takes seconds for a table
_OTHERS_STEPS = 1_000_000
_SECTIONS = ("environment", "training", "resources", "checkpoint", "evaluation", "telemetry")


@dataclass
class Draft:
    """A draft whose sections hold only what the user chose; the rest is Mosaic's default."""

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
        """Set a step limit for a run whose worker has none; a preset has its own."""
        training = self.sections["training"]
        training.pop("total_timesteps", None)
        if not tuned:
            training["total_timesteps"] = _STEPS.get(self.worker, _OTHERS_STEPS)

    def document(self) -> dict[str, Any]:
        """Return the body for `POST /runs`."""
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
    """Return the rules that turn the policy configuration's default into what the rows say."""
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
    """Return what this agent's picker offers: learn alone, share with others, a frozen run, an engine, random."""
    names = [default[agent]]
    if paradigm != "self_play":  # in self-play one policy plays every agent that learns
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


_HIDDEN = ("toy", "script")  # one is for tests, the other needs a program of its own


@dataclass(frozen=True, slots=True)
class Checked:
    config: RunConfig | None  # worker, algorithm, policy configuration and preset filled in
    error: str = ""


def check(document: Mapping[str, Any]) -> Checked:
    """Resolve a draft; it creates the env to look at it, so call this in a thread."""
    try:
        return Checked(resolve(parse_run_config(document)))
    except MosaicError as error:
        return Checked(None, str(error))


def group_documents(document: Mapping[str, Any], seeds: int) -> tuple[str, list[dict[str, Any]]]:
    """Return the group's name and the configurations of its seeds; the name is "" for a single run."""
    if seeds == 1:
        return "", [dict(document)]
    group, members = group_members(resolve(parse_run_config(document)), seeds)
    return group, [dump_run_config(member) for member in members]


def workers() -> dict[str, WorkerCapabilities]:
    """Return the installed workers that are useful in a form."""
    found: dict[str, WorkerCapabilities] = {}
    for name in plugins("mosaic.workers"):
        if name in _HIDDEN:
            continue
        try:
            found[name] = load_worker(name).info
        except MissingExtraError:
            continue  # the doctor on the home page says how to install it
    return found
