"""Form of a new game: environment, who plays each agent, and the settings of a match from its schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from mosaic.core.errors import MosaicError
from mosaic.core.ids import Json, JsonObject
from mosaic.policies.registry import parse_policy
from mosaic.server.play.messages import MatchRequest
from mosaic.ui.tui.widgets.tables import Cells
from mosaic.ui.web.data.schema_fields import SchemaField, as_text, complaints, fields_of, from_text, shown_default
from mosaic.ui.web.pages.play_choices import initial_policies, policies_for

if TYPE_CHECKING:
    from mosaic.ui.tui.backend.protocol import AppBackend

ENV, AGENT, EVERYONE, OPTION = "env", "agent.", "everyone", "option."
ALL_AGENTS = "*"  # pattern for an env whose agents are known when the match begins
TERMINAL_HZ = 10.0  # env steps per second where a person plays and no rate was chosen
_FIRST_ENV = "classic/tictactoe_v3"
HUMAN = "human"
_OPTIONS = ("seed", "pace", "rate_hz", "record", "demo", "max_steps")
_FAINT = "#7d8794"


@dataclass
class GameForm:
    """Draft of a match; `offers`: policies that fit the env."""

    env: str
    policies: dict[str, str]
    offers: list[str]
    about: str = ""
    options: dict[str, Json] = field(default_factory=dict)
    fields: tuple[SchemaField, ...] = tuple(each for each in fields_of(MatchRequest) if each.name in _OPTIONS)

    def rows(self) -> dict[str, Cells]:
        """Return the rows of the form by their key."""
        rows: dict[str, Cells] = {ENV: ("Environment", Text(self.env))}
        for agent, policy in self.policies.items():
            name = "Every agent" if agent == ALL_AGENTS else agent
            rows[f"{AGENT}{agent}"] = (Text(name), Text(_player(policy), "" if policy == HUMAN else "#d9cf6a"))
        if len(self.policies) > 2:
            rows[EVERYONE] = (Text("All of them", _FAINT), Text("⏎ gives every agent one policy", _FAINT))
        for each in self.fields:
            value = self.options.get(each.name, each.default)
            text = as_text(value) or shown_default(each, each.default)
            text = text if each.widget != "switch" else "on" if value else "off"
            rows[f"{OPTION}{each.name}"] = (each.title, Text(text, "" if each.name in self.options else _FAINT))
        return rows

    def help(self, key: str) -> str:
        if key == ENV:
            return self.about or "⏎ chooses another; an environment of your own is named python:FILE.py:Class."
        if key.startswith(AGENT) or key == EVERYONE:
            return "⏎ chooses who plays: human is you; run:ID is a trained policy, random plays random legal moves."
        option = self.option(key)
        own = f" Where you play: {TERMINAL_HZ:g}." if option.name == "rate_hz" else ""
        return f"{option.help}{own}{f' ({option.bounds})' if option.bounds else ''}"

    def option(self, key: str) -> SchemaField:
        return next(each for each in self.fields if key == f"{OPTION}{each.name}")

    def problem(self, option: SchemaField, text: str) -> str:
        """Return why a text is not valid for the option, or ""."""
        found = complaints(MatchRequest, {**self._document(), option.name: from_text(option, text)})
        return found.get(option.name, "")

    def set_option(self, option: SchemaField, value: Json) -> None:
        if value == option.default:
            self.options.pop(option.name, None)
        else:
            self.options[option.name] = value

    def set_policy(self, key: str, policy: str) -> None:
        for agent in self.policies if key == EVERYONE else [key.removeprefix(AGENT)]:
            self.policies[agent] = policy

    def request(self) -> JsonObject:
        """Return the request for the match; a person in a terminal gets a rate that keys can follow."""
        rate: JsonObject = {"rate_hz": TERMINAL_HZ} if HUMAN in self.policies.values() else {}
        return {**self._document(), **rate, **self.options}

    def _document(self) -> JsonObject:
        return {"environment": {"env_id": self.env}, "agents": dict[str, Json](self.policies)}


def load_form(backend: AppBackend, env: str, options: dict[str, Json]) -> GameForm:
    """Look at an env and return its form, with a person for the first agent; called in a thread."""
    look = backend.catalog.look(env).look
    offers = policies_for(env, backend.runs.rows())
    if look is None or not look.agents:
        return GameForm(env, {ALL_AGENTS: HUMAN}, offers, "Its agents are known when the game begins.", options)
    return GameForm(env, initial_policies(look.agents, "", offers), offers, f"Agents: {look.words}.", options)


def first_form(backend: AppBackend) -> GameForm:
    """Return the form of the project's env, else of tic-tac-toe."""
    settings = backend.presets.here() or {}
    environment = settings.get("environment")
    if isinstance(environment, dict) and environment.get("env_id"):
        from mosaic.config.sections import EnvironmentConfig

        try:
            return load_form(backend, EnvironmentConfig.model_validate(environment).id, {})
        except MosaicError:
            pass  # the project's env cannot be created here; Train says why
    return load_form(backend, _FIRST_ENV, {})


def problem_of_policy(text: str) -> str:
    """Return why a text does not name a policy, or ""."""
    if text.strip() == HUMAN:
        return ""
    try:
        parse_policy(text.strip())
    except MosaicError as error:
        return str(error)
    return ""


def _player(policy: str) -> str:
    return "human (you)" if policy == HUMAN else policy
