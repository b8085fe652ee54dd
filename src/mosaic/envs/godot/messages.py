"""Messages of the Godot RL Agents protocol: what Mosaic sends, and what it accepts from a game.

A message is its length in bytes, four of them, least significant first, and that many bytes of JSON.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from mosaic.core.errors import InputError

MAJOR, MINOR = "0", "7"
LONGEST_MESSAGE = 64 * 2**20  # bytes
MOST_AGENTS = 10_000
HEADER = struct.Struct("<I")
_POLICY_NAME = re.compile(r"[A-Za-z0-9_][\w .-]{0,99}")  # policies are also names of files
_NOT_JSON = re.compile(rb"[\[,:]\s*\"?[+-]?(?:nan|inf)", re.IGNORECASE)  # as Godot writes them
_SHOWN = 200

Json: TypeAlias = Any  # a value of a message that only its reader can check


class GameError(InputError):
    """Failure of a game: it died, did not answer, or sent something that the protocol does not allow."""


class ObservationPart(msgspec.Struct, frozen=True):
    """Part of an agent's observation."""

    size: int | tuple[int, ...]
    space: str = "box"
    low: float | None = None
    high: float | None = None


class ActionPart(msgspec.Struct, frozen=True):
    """Part of an agent's action: `size` numbers, or a choice among `size`."""

    size: int
    action_type: str


ObservationParts: TypeAlias = dict[str, ObservationPart]
ActionParts: TypeAlias = dict[str, ActionPart]


class GameInfo(msgspec.Struct, frozen=True):
    """Answer to `env_info`. Older plug-ins give one space for all agents, and no names."""

    type: Literal["env_info"]
    observation_space: list[ObservationParts] | ObservationParts
    action_space: list[ActionParts] | ActionParts
    n_agents: int = 1
    agent_policy_names: list[str] | None = None
    seeded_reset: bool = False  # the game begins the same episode for the same `seed` in `reset`
    major_version: str | int | None = None

    def observations(self) -> list[ObservationParts]:
        return _for_each(self.observation_space, self.n_agents, "observation_space")

    def actions(self) -> list[ActionParts]:
        return _for_each(self.action_space, self.n_agents, "action_space")


class ResetReply(msgspec.Struct, frozen=True):
    """Answer to `reset`."""

    type: Literal["reset"]
    obs: list[dict[str, Json]]
    info: list[dict[str, Json] | None] | None = None


class StepReply(msgspec.Struct, frozen=True):
    """Answer to `action`. `truncated` tells which of the agents that are done ran out of time."""

    type: Literal["step"]
    obs: list[dict[str, Json]]
    reward: list[float]
    done: list[bool | int]
    info: list[dict[str, Json] | None] | None = None
    truncated: list[bool | int] | None = None


class CallReply(msgspec.Struct, frozen=True):
    """Answer to `call`."""

    type: Literal["call"]
    returns: Json = None


Reply = TypeVar("Reply", GameInfo, ResetReply, StepReply, CallReply)
_WANTED = {GameInfo: "env_info", ResetReply: "reset", StepReply: "step", CallReply: "call"}
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(kind) for kind in _WANTED}
_ENCODER = msgspec.json.Encoder()
HANDSHAKE: dict[str, object] = {"type": "handshake", "major_version": MAJOR, "minor_version": MINOR}


def frame(message: dict[str, object]) -> bytes:
    """Return a message as it is sent."""
    payload = _ENCODER.encode(message)
    return HEADER.pack(len(payload)) + payload


def payload_size(data: bytes) -> int:
    """Return the length that the header at the beginning of a message announces."""
    size: int = HEADER.unpack_from(data)[0]
    if not 0 < size <= LONGEST_MESSAGE:
        raise GameError(
            f"A message of {size:,} bytes was announced (first bytes {data[: HEADER.size]!r}), and the protocol's "
            f"longest has {LONGEST_MESSAGE:,}. Is the other program a game with the Godot RL Agents plug-in?"
        )
    return size


def parse(payload: bytes, kind: type[Reply]) -> Reply:
    """Return the answer, checked; raise GameError where it is something else."""
    try:
        answer: Reply = _DECODERS[kind].decode(payload)
        return answer
    except msgspec.ValidationError as error:
        raise GameError(f"{_wrong_answer(kind)}: {error}. It was {_shown(payload)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _NOT_JSON.search(payload):
            raise GameError(f"The game sent a number that is NaN or infinite: {_around_nan(payload)}") from error
        raise GameError(f"The game sent a message that is not JSON ({error}): {_shown(payload)}") from error


def check_info(info: GameInfo) -> GameInfo:
    """Return the same description if Mosaic can play the game; raise GameError otherwise."""
    if info.major_version is not None and str(info.major_version) != MAJOR:
        raise GameError(
            f"The game speaks version {info.major_version} of the protocol, and Mosaic speaks {MAJOR}.{MINOR}. "
            "Use version 0 of the Godot RL Agents plug-in in the game."
        )
    if not 1 <= info.n_agents <= MOST_AGENTS:
        raise GameError(
            f"The game has {info.n_agents} agents; Mosaic plays 1 to {MOST_AGENTS:,}. "
            "Put an AIController below a node of the group AGENT."
        )
    names = info.agent_policy_names
    if names is not None and len(names) != info.n_agents:
        raise GameError(f"The game has {info.n_agents} agents and {len(names)} agent_policy_names.")
    for name in names or ():
        if not _POLICY_NAME.fullmatch(name):
            raise GameError(
                f"The game calls a policy {_shown(name.encode())}: a name begins with a letter, a digit or _ and has "
                "letters, digits, blanks and . _ - (at most 100). Change policy_name of the AIController."
            )
    return info


def check_count(what: str, found: int, agents: int) -> None:
    if found != agents:
        raise GameError(
            f"The game sent {what} of {found} agents, and it said that it has {agents}. The number of agents must not "
            "change while a game is played: keep the node and let it wait instead."
        )


Parts = TypeVar("Parts", ObservationParts, ActionParts)


def _for_each(given: list[Parts] | Parts, agents: int, what: str) -> list[Parts]:
    if isinstance(given, dict):
        return [given] * agents
    check_count(what, len(given), agents)
    return given


def _wrong_answer(kind: type[Reply]) -> str:
    return f"The game's answer does not fit version {MAJOR}.{MINOR} of the protocol (expected: {_WANTED[kind]})"


def _shown(payload: bytes) -> str:
    text = payload[:_SHOWN].decode(errors="replace")
    return repr(text) + (f" … {len(payload):,} bytes in all" if len(payload) > _SHOWN else "")


def _around_nan(payload: bytes) -> str:
    found = _NOT_JSON.search(payload)
    start = max(0, found.start() - _SHOWN // 2) if found else 0
    return _shown(payload[start : start + _SHOWN])
