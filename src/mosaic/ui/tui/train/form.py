"""Training form of the terminal app: rows of settings, the choices of each, and how to change one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple, cast

from pydantic import BaseModel, Field

from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.sections import PolicyConfiguration, TrainingConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import Json, JsonObject, PolicyID
from mosaic.policies.registry import parse_policy
from mosaic.ui.tui.backend.protocol import AppBackend
from mosaic.ui.web.data.draft import HIDDEN_WORKERS, LEARN, Checked, Draft, choices, rows_of, rules_of
from mosaic.ui.web.data.env_info import EnvOffer
from mosaic.ui.web.data.schema_fields import (
    FieldValues,
    Group,
    SchemaField,
    as_text,
    complaints,
    fields_of,
    from_text,
    shown_default,
)
from mosaic.ui.web.data.train_form import SECTIONS, forget_method, policy_offers, usual_configuration
from mosaic.workers.presets import Preset, find_preset

AGENT = "agent."  # prefix of the keys of agents' rows
_PARAMS, _LIMIT, _RUN = "params", "limit", "run"
_BASIC = {_LIMIT: "Run", _RUN: "Run", _PARAMS: "Options"}
_FURTHER = "Advanced options"


class _Seeds(BaseModel):
    seeds: int = Field(1, ge=1, le=100, description="Number of runs that differ only in their seed.")


class WorkerOffer(NamedTuple):
    algorithms: tuple[str, ...]
    configurations: tuple[PolicyConfiguration, ...]
    by_algorithm: Mapping[str, tuple[PolicyConfiguration, ...]]  # of algorithms that cannot train all of them


class FormRow(NamedTuple):
    """A line of the form; `changed`: its value is not the default."""

    key: str
    section: str
    title: str
    value: str
    help: str
    changed: bool = False
    problem: str = ""


class Choice(NamedTuple):
    """Values to choose from, by label; `free`: any text may be typed instead."""

    values: Mapping[str, Json]
    current: Json
    free: bool = False


class TrainForm:
    """Form of one draft; another env, worker or algorithm has another form."""

    def __init__(
        self,
        draft: Draft,
        workers: Mapping[str, WorkerOffer],
        offer: EnvOffer,
        policies: Mapping[PolicyID, str],
        groups: Mapping[str, FieldValues],
    ) -> None:
        self.draft, self._workers, self._look, self._policies = draft, workers, offer.look, policies
        self._groups = groups
        self.touched = False

    @property
    def problem(self) -> str:
        """Return the first error of a field."""
        found = (f"{name}: {text}" for group in self._groups.values() for name, text in group.problems.items())
        return next(found, "")

    def rows(self, *, advanced: bool) -> Iterator[FormRow]:
        """Yield the lines of the form; without `advanced`, the basic ones and those that were changed."""
        draft = self.draft
        yield FormRow("env", "Method", "Environment", draft.env, "Environment to train in; ⏎ lists the known ones.")
        yield FormRow("worker", "Method", "Worker", draft.worker, "Plug-in that trains.")
        yield FormRow("algorithm", "Method", "Algorithm", draft.algorithm, "One of the worker's algorithms.")
        help = "How agents share policies that learn."
        words = (self._configuration or "the worker's own").replace("_", " ")
        yield FormRow("configuration", "Method", "Policies", words, help, draft.paradigm is not None)
        yield from self._agent_rows()
        for key, title in _BASIC.items():
            yield from self._field_rows(key, title, "basic")
        for key, title in {_PARAMS: _FURTHER, **{key: section.title for key, section in SECTIONS.items()}}.items():
            for row in self._field_rows(key, title, "advanced" if key == _PARAMS else "basic"):
                if advanced or row.changed or row.problem:
                    yield row

    def row(self, key: str) -> FormRow:
        return next(row for row in self.rows(advanced=True) if row.key == key)

    def choice(self, key: str) -> Choice | None:
        """Return what a row offers; None where a text is typed."""
        draft = self.draft
        if key == "worker":
            return Choice({name: name for name in self._workers}, draft.worker)
        if key == "algorithm":
            return Choice({name: name for name in self._workers[draft.worker].algorithms}, draft.algorithm)
        if key == "configuration":
            found: dict[str, Json] = {name.replace("_", " "): name for name in self._possible}
            return Choice(found, self._configuration)
        if key.startswith(AGENT):
            agent, rows = key.removeprefix(AGENT), self._agents
            assert self._configuration is not None
            offered = choices(agent, rows, self._default, self._configuration, self._policies)
            return Choice({label: policy for policy, label in offered.items()}, rows[agent], free=True)
        field = self.field(key)
        if field is None or field.widget == "text":
            return None
        if field.widget == "switch":
            return Choice({"on": True, "off": False}, self._value(key))
        nothing: dict[str, Json] = {field.nothing: None} if field.optional else {}
        return Choice(nothing | {word: word for word in field.choices}, self._value(key))

    def field(self, key: str) -> SchemaField | None:
        group, _, name = key.partition(".")
        return self._groups[group].fields[name] if group in self._groups else None

    def text(self, key: str) -> str:
        """Return the value of a row as a user would type it."""
        return self.draft.env if key == "env" else as_text(self._value(key))

    def problem_of_text(self, key: str, text: str) -> str:
        """Return why a row cannot have what was typed; "" if it can."""
        if key.startswith(AGENT):
            try:
                parse_policy(text.strip())
            except MosaicError as error:
                return str(error)
            return ""
        field = self.field(key)
        if field is None:
            return "" if text.strip() else "Type the id of an environment, such as gym/CartPole-v1."
        group, _, name = key.partition(".")
        return self._groups[group].problem_of(name, from_text(field, text))

    def take_text(self, key: str, text: str) -> str:
        """Set a row to what was typed; return why that is invalid, or ""."""
        field = self.field(key)
        return self.take(key, text.strip() if field is None else from_text(field, text))

    def take(self, key: str, value: Json) -> str:
        """Set a row; return why that is invalid, or "" if it was taken. Not for the env, worker and algorithm."""
        self.touched = True
        draft = self.draft
        if key == "configuration":
            draft.paradigm, draft.agents = cast(PolicyConfiguration, value), {}
        elif key.startswith(AGENT):
            draft.agents = rules_of({**self._agents, key.removeprefix(AGENT): str(value)}, self._default)
        else:
            group, _, name = key.partition(".")
            problem = self._groups[group].take(name, value)
            if group == _RUN and not problem:
                _store_run(draft, self._groups[_RUN])
            return problem
        return ""

    def reset(self, key: str) -> None:
        """Return a row to its default."""
        group, _, name = key.partition(".")
        if key == "configuration":
            self.draft.paradigm, self.draft.agents = None, {}
        elif key.startswith(AGENT):
            agent = key.removeprefix(AGENT)
            self.take(key, f"{LEARN}{self._default[agent]}")
        elif group in self._groups:
            self.take(key, self._groups[group].defaults[name])
            self._groups[group].problems.pop(name, None)

    def _value(self, key: str) -> Json:
        group, _, name = key.partition(".")
        return self._groups[group].effective(name) if group in self._groups else self._agents[key.removeprefix(AGENT)]

    def _field_rows(self, key: str, title: str, group: Group) -> Iterator[FormRow]:
        for name, field in self._groups[key].fields.items():
            if field.group == group:
                yield self._field_row(key, name, title)

    def _field_row(self, key: str, name: str, title: str) -> FormRow:
        group = self._groups[key]
        field, value = group.fields[name], group.effective(name)
        words = shown_default(field, value or None) if isinstance(value, list | dict) else shown_default(field, value)
        words = words if field.widget != "switch" else "on" if value else "off"
        help = " ".join(part for part in (field.help, f"({field.bounds})" if field.bounds else "") if part)
        unit = f" {field.unit}" if field.unit and value is not None else ""
        return FormRow(
            f"{key}.{name}", title, field.title, words + unit, help, name in group.values, group.problems.get(name, "")
        )

    # Agents

    @property
    def _possible(self) -> tuple[PolicyConfiguration, ...]:
        offer = self._workers[self.draft.worker]
        possible = offer.by_algorithm.get(self.draft.algorithm, offer.configurations)
        return possible if self._look is None else tuple(name for name in possible if name in self._look.policies)

    @property
    def _configuration(self) -> PolicyConfiguration | None:
        return self.draft.paradigm or usual_configuration(self._look, self._possible)

    @property
    def _default(self) -> Mapping[str, str]:
        if self._look is None or self._configuration is None:
            return {}
        return self._look.policies.get(self._configuration, {})

    @property
    def _agents(self) -> dict[str, str]:
        rules = self.draft.agents
        return {} if isinstance(rules, str) or not self._default else rows_of(rules, self._default)

    def _agent_rows(self) -> Iterator[FormRow]:
        rows, default = self._agents, self._default
        for agent, policy in rows.items():
            learns = policy.startswith(LEARN)
            words = f"learns {policy.removeprefix(LEARN)}" if learns else f"plays {policy}"
            spaces = self._look.spaces[agent] if self._look else ""
            changed = policy != f"{LEARN}{default[agent]}"
            yield FormRow(f"{AGENT}{agent}", "Agents", agent, words, f"{agent} {spaces}", changed)


def load_form(backend: AppBackend, draft: Draft, *, forget: bool) -> TrainForm:
    """Return the form of a draft, in a thread: it looks at the env, and lets Mosaic choose what is left open.

    `forget` drops what belonged to another env, worker or algorithm.
    """
    workers = _workers(backend, draft.worker)
    offer = backend.catalog.look(draft.env)
    if not draft.worker:
        checked = backend.runs.check({"environment": {"env_id": draft.env}} if forget else draft.document())
        training = checked.config.training if checked.config else TrainingConfig()
        draft.worker, draft.algorithm = training.worker or "native", draft.algorithm or training.algorithm or ""
    if draft.worker not in workers:
        raise InputError(f"The worker '{draft.worker}' is not installed. mosaic doctor says what to type.")
    draft.algorithm = draft.algorithm or offer.usual.get(draft.worker, workers[draft.worker].algorithms[0])
    if forget:
        forget_method(draft)
    preset = find_preset(draft.env, draft.worker, draft.algorithm)
    policies = policy_offers(draft.env, backend.runs.rows())
    return TrainForm(draft, workers, offer, policies, _groups(backend, draft, preset))


def first_form(backend: AppBackend) -> tuple[TrainForm, str]:
    """Return the form of the working directory's project, or of Mosaic's first env, and why a project was ignored."""
    problem = ""
    try:
        settings = backend.presets.here()
        if settings is not None and "environment" in settings:
            return load_form(backend, Draft.of(parse_run_config(settings)), forget=False), ""
    except MosaicError as error:
        problem = f"The form does not start from this folder's project: {error}"
    return _first_of_mosaic(backend), problem


def _first_of_mosaic(backend: AppBackend) -> TrainForm:
    """Return the form of the first env; of the first installed one where that cannot be created."""
    try:
        return load_form(backend, Draft(), forget=True)
    except MosaicError:
        installed = [row.id for row in backend.catalog.envs() if row.installed]
        if not installed or installed == [Draft().env]:
            raise
        return load_form(backend, Draft(env=installed[0]), forget=True)


def plan_words(checked: Checked, seeds: int) -> str:
    """Return a one-line summary of the run that a start would create, or the reason why it is refused."""
    config = checked.config
    if config is None:
        return checked.error
    training = config.training
    ends = [
        f"{training.total_timesteps:,} env steps" if training.total_timesteps else "",
        f"{training.episodes:,} episodes" if training.episodes else "",
        f"a mean return of {training.stop_reward:g}" if training.stop_reward is not None else "",
    ]
    words = [f"{training.worker or 'the server chooses the worker'} {training.algorithm or ''}".strip()]
    words += [config.policy_configuration.replace("_", " ")] if config.policy_configuration else []
    words.append(" or ".join(end for end in ends if end) or "ends at the worker's own limit")
    words += [f"{seeds} runs"] if seeds > 1 else []
    return " · ".join(words)


def _workers(backend: AppBackend, named: str) -> dict[str, WorkerOffer]:
    found = {}
    for row in backend.catalog.workers():
        if row.capabilities is not None and (row.id == named or row.id not in HIDDEN_WORKERS):
            algorithms = cast(list[str], row.capabilities["algorithms"])
            configurations = cast(list[PolicyConfiguration], row.capabilities["paradigms"])
            fewer = cast(dict[str, list[PolicyConfiguration]], row.capabilities.get("algorithm_paradigms", {}))
            by_algorithm = {name: tuple(possible) for name, possible in fewer.items()}
            found[row.id] = WorkerOffer(tuple(algorithms), tuple(configurations), by_algorithm)
    return found


def _groups(backend: AppBackend, draft: Draft, preset: Preset | None) -> dict[str, FieldValues]:
    complain = partial(backend.catalog.complaints, draft.worker, draft.algorithm)
    options = backend.catalog.options(draft.worker, draft.algorithm)
    limits = [field for field in fields_of(TrainingConfig) if field.name == "total_timesteps"]
    tuned = {"total_timesteps": preset.total_timesteps} if preset else None
    about = [field for field in fields_of(RunConfig) if field.name in ("name", "seed", "tags")]
    said: JsonObject = {"name": draft.name, "seed": draft.seed, "tags": list(draft.tags), "seeds": draft.seeds}
    found = {
        _LIMIT: FieldValues(limits, draft.sections["training"], partial(complaints, TrainingConfig), tuned),
        _RUN: FieldValues([*fields_of(_Seeds), *about], {}, _run_complaints),
        _PARAMS: FieldValues(options, draft.params, complain, preset.params if preset else None),
    }
    for name, value in said.items():
        found[_RUN].take(name, value)
    for key, section in SECTIONS.items():
        fields = [field for field in fields_of(section.model) if not section.only or field.name in section.only]
        envs: dict[str, Json] | None = {"num_envs": preset.num_envs} if preset and key == "environment" else None
        found[key] = FieldValues(fields, draft.sections[key], partial(complaints, section.model), envs)
    found[_PARAMS].problems.update({name: text for name, text in complain(draft.params).items() if name})
    return found


def _run_complaints(values: Mapping[str, Json]) -> dict[str, str]:
    about = {name: value for name, value in values.items() if name != "seeds"}
    seeds = {"seeds": values.get("seeds", 1)}
    found = complaints(RunConfig, about) | complaints(_Seeds, seeds)
    return {name: text for name, text in found.items() if name in values}


def _store_run(draft: Draft, group: FieldValues) -> None:
    tags = group.effective("tags")
    draft.name = str(group.effective("name") or "")
    draft.tags = tuple(map(str, tags)) if isinstance(tags, list) else ()
    draft.seed, draft.seeds = int(str(group.effective("seed"))), int(str(group.effective("seeds")))
