"""Draft of a run, edited in one browser tab: as a document, checked, and as a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.sections import PolicyConfiguration
from mosaic.config.yaml import read_scalar
from mosaic.core.errors import MissingExtraError, MosaicError
from mosaic.core.ids import AgentID, EnvID, Json, JsonObject, PolicyID
from mosaic.core.plugins import plugins
from mosaic.core.reference import split_reference
from mosaic.policies.mapping import PolicyMapping
from mosaic.runs.trainer import group_members
from mosaic.store.labels import read_labels
from mosaic.store.origin import read_origin
from mosaic.store.run_folder import RunFolder, short_env
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import resolve

FIRST_ENV = "classic/tictactoe_v3"
_ANY = "*"  # the policy of agents without a rule
LEARN = "learn:"  # prefix of a policy that learns; anything else is a reference
_STEPS = {"tabular": 3_000_000}  # takes seconds for a table
_OTHERS_STEPS = 1_000_000
_SECTIONS = ("environment", "training", "resources", "checkpoint", "evaluation", "export", "telemetry")

_WITHOUT_FIELD = {"run_id", "project", "policies_to_train"}
_OUTSIDE_SECTIONS = {"environment": {"family", "env_id"}, "training": {"worker", "algorithm", "params"}}


@dataclass
class Draft:
    """A draft whose sections hold only what the user chose; the rest is Mosaic's default."""

    env: EnvID = FIRST_ENV
    worker: str = ""
    algorithm: str = ""
    params: JsonObject = field(default_factory=dict)
    paradigm: PolicyConfiguration | None = None
    agents: dict[AgentID, PolicyID] | str = field(default_factory=dict)  # rules, or a function that decides for all
    name: str = ""
    tags: tuple[str, ...] = ()
    seed: int = 0
    seeds: int = 1
    sections: dict[str, JsonObject] = field(default_factory=lambda: {name: {} for name in _SECTIONS})
    further: JsonObject = field(default_factory=dict)  # settings of a file that have no field in the form

    @classmethod
    def of(cls, config: RunConfig) -> Draft:
        """Return a draft with exactly what a configuration sets."""
        sections: dict[str, JsonObject] = {}
        for name in _SECTIONS:
            outside = _OUTSIDE_SECTIONS.get(name, set())
            values = getattr(config, name).model_dump(mode="json", exclude_unset=True, exclude=outside)
            sections[name] = values if name in config.model_fields_set else {}
        training = config.training
        return cls(
            env=config.environment.id,
            worker=training.worker or "",
            algorithm=training.algorithm or "",
            params=dict(training.params),
            paradigm=config.policy_configuration,
            agents=config.agents if isinstance(config.agents, str) else dict(config.agents),
            name=config.name,
            tags=config.tags,
            seed=config.seed,
            sections=sections,
            further=config.model_dump(mode="json", include=_WITHOUT_FIELD, exclude_unset=True),
        )

    def suggest_steps(self, tuned: bool) -> None:
        """Set a step limit for a run whose worker has none; a preset has its own."""
        training = self.sections["training"]
        training.pop("total_timesteps", None)
        if not tuned:
            training["total_timesteps"] = _STEPS.get(self.worker, _OTHERS_STEPS)

    def document(self) -> JsonObject:
        """Return the body for `POST /runs`."""
        document: JsonObject = {"environment": {"env_id": self.env, **self.sections["environment"]}}
        document.update(
            {name: dict(values) for name, values in self.sections.items() if values and name not in document}
        )
        chosen: JsonObject = {"worker": self.worker, "algorithm": self.algorithm, "params": dict(self.params)}
        training = {**{key: value for key, value in chosen.items() if value}, **self.sections["training"]}
        further: JsonObject = {
            "training": training,
            "policy_configuration": self.paradigm,
            "agents": self.agents if isinstance(self.agents, str) else dict(self.agents),
            "name": self.name,
            "tags": list(self.tags),
            "seed": self.seed,
            **self.further,
        }
        document.update({key: value for key, value in further.items() if value})
        return document


def draft_of_run(folder: RunFolder) -> Draft:
    """Return a draft with what was asked of a run, to train again with changes, under a name of its own."""
    origin = read_origin(folder)
    config = parse_run_config(origin.asked) if origin else folder.read_config()
    draft = Draft.of(parse_run_config(config.model_dump(mode="json", exclude_defaults=True)))
    labels = read_labels(folder)
    draft.name, draft.tags = next_name(labels.name_of(config)), labels.tags_of(config)
    draft.further.pop("run_id", None)
    return draft


def suggest_name(draft: Draft, taken: Collection[str]) -> str:
    """Return a short name: env and algorithm, and a number where that is taken."""
    name = "-".join(filter(None, (short_env(draft.env), draft.algorithm.replace("_", "-"))))
    while name in taken or f"{name}-1" in taken:  # NAME-1 is the first run of a seed group
        name = next_name(name)
    return name


def next_name(name: str) -> str:
    """Return walk-2 for walk, and walk-3 for walk-2."""
    start, dash, number = name.rpartition("-")
    if dash and number.isdigit():
        return f"{start}-{int(number) + 1}"
    return f"{name}-2" if name else ""


def rules_of(rows: Mapping[AgentID, str], default: Mapping[AgentID, str]) -> dict[AgentID, PolicyID]:
    """Return the rules that turn the policy configuration's default into what the rows say."""
    return {agent: choice.removeprefix(LEARN) for agent, choice in rows.items() if choice != f"{LEARN}{default[agent]}"}


def rows_of(rules: Mapping[str, PolicyID], default: Mapping[AgentID, str]) -> dict[AgentID, str]:
    """Return the row of each agent under rules, whose patterns may fit several agents."""
    mapping = PolicyMapping.of({**rules, **({} if "*" in rules else {"*": _ANY})})
    policies = {agent: mapping.key_of(agent).policy for agent in default}
    return {
        agent: f"{LEARN}{default[agent]}" if policy == _ANY else f"{LEARN}{policy}" if _learned(policy) else policy
        for agent, policy in policies.items()
    }


def _learned(policy: PolicyID) -> bool:
    return split_reference(policy)[0] not in plugins("mosaic.policies") and not policy.startswith("self@")


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
        found["self@-10000"] = "its past version: 10,000 env steps ago"
    found.update(offers)
    current = rows[agent]
    return found if current in found else {**found, current: current.removeprefix(LEARN)}


def _learns(name: str, agent: AgentID, rows: Mapping[AgentID, str]) -> str:
    others = [other for other, choice in rows.items() if other != agent and choice == f"{LEARN}{name}"]
    if not others:
        return f"learn · {name}" if name != agent else f"learn · {name} alone"
    shared = ", ".join(others[:2]) + (f" and {len(others) - 2} more" if len(others) > 2 else "")
    return f"learn · {name}, shared with {shared}"


HIDDEN_WORKERS = ("toy", "script")  # one is for tests, the other needs a program of its own


@dataclass(frozen=True, slots=True)
class Checked:
    config: RunConfig | None  # worker, algorithm, policy configuration and preset filled in
    error: str = ""


def check(document: Mapping[str, Json]) -> Checked:
    """Resolve a draft; it creates the env to look at it, so call this in a thread."""
    try:
        return Checked(resolve(parse_run_config(document)).config)
    except MosaicError as error:
        return Checked(None, str(error))


def group_documents(document: Mapping[str, Json], seeds: int) -> tuple[str, list[JsonObject]]:
    """Return the group's name and the configurations of its seeds; the name is "" for a single run."""
    if seeds == 1:
        return "", [dict(document)]
    group, members = group_members(resolve(parse_run_config(document)).config, seeds)
    return group, [dump_run_config(member) for member in members]


def workers() -> dict[str, WorkerCapabilities]:
    """Return the installed workers that are useful in a form."""
    found: dict[str, WorkerCapabilities] = {}
    for name in plugins("mosaic.workers"):
        if name in HIDDEN_WORKERS:
            continue
        try:
            found[name] = load_worker(name).info
        except MissingExtraError:
            continue  # the doctor on the home page says how to install it
    return found


_TRAINING = {
    "worker": "--worker",
    "algorithm": "--algo",
    "total_timesteps": "--steps",
    "episodes": "--episodes",
    "stop_reward": "--stop-reward",
    "init": "--init",
}
_RESOURCES = {"num_env_runners": "--num-env-runners", "runtime": "--runtime", "ray_address": "--ray-address"}
_TOP = {"policy_configuration": "--policies", "seed": "--seed", "name": "--name"}
_OPTIONS = {"training": _TRAINING, "resources": _RESOURCES}


def train_command(document: Mapping[str, Json], seeds: int = 1) -> str:
    """Return `mosaic train …`, one option per line, which parses to the document's configuration."""
    env = str(_section(document, "environment")["env_id"])
    return " \\\n  ".join([f"mosaic train {shlex.quote(env)}", *_options(document, seeds)])


def _section(document: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _options(document: Mapping[str, Json], seeds: int) -> Iterator[str]:
    for section, options in _OPTIONS.items():
        for key, option in options.items():
            if key in _section(document, section):
                yield _option(option, _section(document, section)[key])
    for key, option in _TOP.items():
        if key in document:
            yield _option(option, document[key])
    tags = document.get("tags")
    for tag in tags if isinstance(tags, list) else ():
        yield _option("--tag", tag)
    if isinstance(function := document.get("agents"), str):
        yield _option("--agent", function)
    for agent, policy in _section(document, "agents").items():
        yield f"--agent {shlex.quote(f'{agent}={policy}')}"
    if seeds > 1:
        yield f"--seeds {seeds}"
    for path, value in _settings(document):
        yield f"--set {shlex.quote(f'{path}={_value(value)}')}"


def _option(name: str, value: Json) -> str:
    text = str(value)
    return f"{name}={shlex.quote(text)}" if text.startswith("-") else f"{name} {shlex.quote(text)}"


def _settings(document: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield every setting that has no option of its own."""
    for section, values in document.items():
        if not isinstance(values, Mapping) and section not in {*_TOP, "tags", "agents"}:
            yield section, values
        if not isinstance(values, Mapping) or section == "agents":
            continue
        own = {*_OPTIONS.get(section, ()), *(("env_id",) if section == "environment" else ())}
        for key, value in values.items():
            if key not in own:
                yield from _leaves(f"{section}.{key}", value)


def _leaves(path: str, value: Json) -> Iterator[tuple[str, Json]]:
    """Yield one setting per option, unless a name in it would be read as a path."""
    if isinstance(value, Mapping) and value and all(_is_plain(key) for key in value):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    else:
        yield path, value


def _is_plain(key: str) -> bool:
    return bool(key) and key == key.strip() and not set(".=") & set(key)


def _value(value: Json) -> str:
    """Return a text without quotes where it would be read as exactly that text."""
    if isinstance(value, str) and value == value.strip() and value and value[0] not in '["{' and value != "null":
        try:
            if read_scalar(value) == value:
                return value
        except ValueError:
            pass  # it looks like a number but is not one: in quotes it is text
    return json.dumps(value)
