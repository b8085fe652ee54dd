"""Request that opens a match, and messages that a viewer may send during it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mosaic.config.file_formats import read_json
from mosaic.config.sections import EnvironmentConfig, Section
from mosaic.config.validation import explain_settings
from mosaic.core.errors import FormatError, InputError
from mosaic.server.play.keys import KeyBinding
from mosaic.server.play.pace import ClockConfig, PaceKind
from mosaic.store.demos.demonstration import DemoName

HIGHEST_RATE_HZ = 120.0

Agent = Annotated[str, Field(max_length=200)]
Policy = Annotated[str, Field(min_length=1, max_length=1000)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, le=HIGHEST_RATE_HZ)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class MatchRequest(Section):
    environment: EnvironmentConfig
    agents: dict[Agent, Policy] = Field(
        min_length=1, max_length=1000, description="Agent or pattern → policy; `human` is a person in a browser."
    )
    seed: Seed | None = Field(None, description="Of the first episode; None draws one, and so does every restart.")
    pace: PaceKind = Field(
        "auto", description="turns: the game waits for people. real_time: it continues with the keys that are held."
    )
    rate_hz: Rate | None = Field(None, description="Env steps per second; None takes the env's own rate.")
    ready_screen: bool = Field(True, description="Whether a game in real time waits for the first key or click.")
    clock: ClockConfig | None = Field(None, description="Clocks of a game in turns; null plays without.")
    record: bool = Field(False, description="Keep every episode in the store.")
    demo: DemoName | None = Field(None, description="Demonstration to add every episode to.")
    max_steps: int | None = Field(None, ge=1, description="Env steps after which an episode is cut.")


class ViewerMessage(BaseModel):
    """Message of a viewer, validated strictly: types are not coerced."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Act(ViewerMessage):
    """An action, as numbered by the env."""

    type: Literal["act"]
    action: int | float | list[Any] | dict[str, Any]
    agent: Agent | None = None


class TypedMove(ViewerMessage):
    """A move as a person types it: the name of a legal action, or its number."""

    type: Literal["move"]
    text: Annotated[str, Field(max_length=200)]
    agent: Agent | None = None


class Press(ViewerMessage):
    """A spot, by its id."""

    type: Literal["press"]
    spot: Annotated[str, Field(max_length=100)]
    agent: Agent | None = None


class Click(ViewerMessage):
    """A position in the picture, in fractions of it."""

    type: Literal["click"]
    x: float
    y: float
    agent: Agent | None = None


class Key(ViewerMessage):
    """A key that went down or up, by its position on the keyboard (KeyboardEvent.code)."""

    type: Literal["key"]
    code: Annotated[str, Field(max_length=40)]
    key: Annotated[str, Field(max_length=40)] = ""
    down: bool


class Axes(ViewerMessage):
    """Axes of a mouse or a gamepad: -1 … 1 each."""

    type: Literal["axes"]
    values: Annotated[list[Annotated[float, Field(ge=-1, le=1)]], Field(max_length=64)]


class Keys(ViewerMessage):
    """A viewer's own key map; null restores the env's."""

    type: Literal["keys"]
    bindings: Annotated[list[KeyBinding], Field(max_length=200)] | None


class Identify(ViewerMessage):
    """A key of the match: its owner's, or that of an agent."""

    type: Literal["identify"]
    key: Annotated[str, Field(max_length=100)]


class Ready(ViewerMessage):
    """The sender is ready for a game in real time."""

    type: Literal["ready"]


class Pause(ViewerMessage):
    type: Literal["pause"]
    on: bool


class StepOnce(ViewerMessage):
    type: Literal["step"]


class Restart(ViewerMessage):
    type: Literal["restart"]
    seed: Seed | None = None


class Undo(ViewerMessage):
    """The sender's last move and what policies replied, taken back."""

    type: Literal["undo"]


class Swap(ViewerMessage):
    """Rotation of the policies among their agents."""

    type: Literal["swap"]


class AssignPolicy(ViewerMessage):
    """Another policy for an agent: `human` takes it over, null hands it back."""

    type: Literal["assign"]
    agent: Agent
    policy: Policy | None = None


class SetRate(ViewerMessage):
    type: Literal["rate"]
    hz: Rate


class Thoughts(ViewerMessage):
    type: Literal["thoughts"]
    on: bool


class Recording(ViewerMessage):
    type: Literal["record"]
    on: bool


class RecordDemo(ViewerMessage):
    """Demonstration that every episode is added to from now on, the current one whole; null ends it."""

    type: Literal["demo"]
    name: DemoName | None


class Seen(ViewerMessage):
    """Acknowledgement that the last picture is displayed and the next one may be sent."""

    type: Literal["seen"]


Message = Annotated[
    Act
    | TypedMove
    | Press
    | Click
    | Key
    | Axes
    | Keys
    | Identify
    | Ready
    | Pause
    | StepOnce
    | Restart
    | Undo
    | Swap
    | AssignPolicy
    | SetRate
    | Thoughts
    | Recording
    | RecordDemo
    | Seen,
    Field(discriminator="type"),
]
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


def read_message(text: str) -> Message:
    try:
        return _MESSAGE.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "message"
        raise InputError(f"The match does not understand this message: {where}: {first['msg']}.") from error


def read_request(body: bytes) -> MatchRequest:
    """Read the request that opens a match."""
    try:
        data = read_json(body.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"The body is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise FormatError("The body is not a JSON object with 'environment' and 'agents'.")
    try:
        return MatchRequest.model_validate(data)
    except ValidationError as error:
        raise InputError(explain_settings(error, MatchRequest)) from error
