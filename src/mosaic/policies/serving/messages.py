"""Calls and replies of the policy server's protocol, and their two encodings.

A client owns the environment and asks for actions. Names and meaning of the calls are those of RLlib's `PolicyClient`:
`start_episode`, `get_action`, `log_action`, `log_returns`, `end_episode`; `forget` drops what a policy remembers of one
agent. In an env with one agent, `observation`, `action`, `reward` and `info` are that agent's own; with several they
are objects by agent.

A message is one call or a list of calls, as JSON or as MessagePack (application/msgpack), in which an array is an
extension of type 1: three characters of numpy's dtype ("<f4"), a byte with the number of dimensions, each dimension as
a little-endian uint32, then the numbers in C order. Nothing is unpickled.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, MosaicError
from mosaic.core.ids import AgentID, JsonObject
from mosaic.envs.space_values import value_to_json

PROTOCOL = 1
EVERY_AGENT = "__all__"  # RLlib's key for all agents that are still in the episode
JSON_TYPE, BINARY_TYPE = "application/json", "application/msgpack"
MOST_CALLS = 1024  # in one message

EpisodeID: TypeAlias = str
Value: TypeAlias = Any  # what a client sent: checked against a space before anything uses it
Given: TypeAlias = "Value | UnsetType"
Retry: TypeAlias = Literal["request", "episode"]  # what may succeed when it is done again; None: nothing
ErrorCode: TypeAlias = Literal[
    "bad_message",
    "wrong_value",
    "unknown_agent",
    "unknown_episode",
    "episode_lost",
    "episode_exists",
    "episode_busy",
    "agent_ended",
    "too_many_episodes",
    "policy_failed",
    "refused",
]
STATUS: Mapping[ErrorCode, int] = {
    "bad_message": 400,
    "wrong_value": 422,
    "unknown_agent": 422,
    "unknown_episode": 404,
    "episode_lost": 410,
    "episode_exists": 409,
    "episode_busy": 409,
    "agent_ended": 409,
    "too_many_episodes": 429,
    "policy_failed": 502,
    "refused": 400,
}
_RETRIES: Mapping[str, Retry] = {
    "unknown_episode": "episode",
    "episode_lost": "episode",
    "episode_busy": "request",
    "too_many_episodes": "request",
}


class CallError(MosaicError):
    """Call that was not carried out: which agent's value, what was sent and what is expected."""

    def __init__(
        self,
        code: ErrorCode,
        text: str,
        *,
        agent: AgentID | None = None,
        sent: str | None = None,
        expected: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(text)
        self.code: ErrorCode = code
        self.agent, self.sent, self.expected = agent, sent, expected
        self.status = STATUS[code] if status is None else status

    @property
    def retry(self) -> Retry | None:
        return _RETRIES.get(self.code)

    def document(self) -> JsonObject:
        """Return the reply that reports this error."""
        facts: JsonObject = {"agent": self.agent, "sent": self.sent, "expected": self.expected}
        text = str(self).encode(errors="backslashreplace").decode()  # it may quote text that is not valid Unicode
        known = {key: value for key, value in facts.items() if value is not None}
        return {"error": text, "code": self.code, "retry": self.retry, "status": self.status, **known}


class Call(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="call", tag=True):
    """Message of a client; `id`, if given, comes back with the reply."""

    id: int | str | UnsetType = UNSET


class StartEpisode(Call, frozen=True, kw_only=True, tag="start_episode"):
    """Begin an episode; the reply is its id and the agents for which the policy acts.

    `env` and `policy` are needed where the server was not started for one policy. With `spaces`, both sides' are
    compared. `training_enabled=False` keeps the episode out of training.
    """

    episode_id: EpisodeID | None = None
    training_enabled: bool = True
    protocol: int = PROTOCOL
    env: str | None = None
    policy: str | None = None
    agents: list[AgentID] | None = None
    seed: int | None = None
    spaces: dict[AgentID, dict[str, Any]] | None = None


class Step(Call, frozen=True, kw_only=True):
    """Call that also reports what happened since the agent's last action."""

    episode_id: EpisodeID
    observation: Given = UNSET
    action_mask: Given = UNSET
    reward: Given = UNSET
    info: Given = UNSET


class GetAction(Step, frozen=True, kw_only=True, tag="get_action"):
    """Ask for an action of each agent in `observation`."""


class LogAction(Step, frozen=True, kw_only=True, tag="log_action"):
    """Report an action that the client chose itself, such as a person's."""

    action: Value


class LogReturns(Step, frozen=True, kw_only=True, tag="log_returns"):
    """Report rewards since the last action; `terminated` and `truncated` name the agents that have ended.

    `__all__` among them is every agent that is still in the episode. The last observation of an agent that has ended is
    its `observation`.
    """

    terminated: list[AgentID] | dict[AgentID, bool] = msgspec.field(default_factory=list)
    truncated: list[AgentID] | dict[AgentID, bool] = msgspec.field(default_factory=list)


class EndEpisode(Step, frozen=True, kw_only=True, tag="end_episode"):
    """End an episode; `truncated` if it was cut off, which needs the last observation, instead of having ended."""

    truncated: bool = False


class Forget(Call, frozen=True, kw_only=True, tag="forget"):
    """Drop what the policy remembers of an agent: another policy acts for it now."""

    episode_id: EpisodeID
    agent: AgentID


AnyCall: TypeAlias = StartEpisode | GetAction | LogAction | LogReturns | EndEpisode | Forget
Reply: TypeAlias = dict[str, Any]  # arrays as arrays; `encode` writes them in the client's encoding
CALLS: Mapping[str, type[AnyCall]] = {
    "start_episode": StartEpisode,
    "get_action": GetAction,
    "log_action": LogAction,
    "log_returns": LogReturns,
    "end_episode": EndEpisode,
    "forget": Forget,
}

ARRAY = 1  # MessagePack extension type
_DTYPES = {
    name: np.dtype(name) for name in ("|b1", "|i1", "|u1", *(f"<{kind}{size}" for kind in "iuf" for size in "248"))
}
_MOST_DIMENSIONS = 8


def pack_array(array: NDArray[Any]) -> bytes:
    """Return the payload of the extension type for arrays."""
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if plain.dtype.str not in _DTYPES or plain.ndim > _MOST_DIMENSIONS:
        raise FormatError(f"an array of {plain.dtype} with {plain.ndim} dimensions cannot be sent")
    head = struct.pack(f"<3sB{plain.ndim}I", plain.dtype.str.encode(), plain.ndim, *plain.shape)
    return head + plain.tobytes()


def unpack_array(payload: memoryview | bytes) -> NDArray[Any]:
    """Return the array in an extension's payload, without copying its numbers; raise FormatError if it is damaged."""
    data = memoryview(payload)
    name = str(data[:3], "latin-1")
    dtype = _DTYPES.get(name)
    if dtype is None or len(data) < 4 or data[3] > _MOST_DIMENSIONS:
        raise FormatError(f"an array of {name!r} is not one of {', '.join(sorted(_DTYPES))}")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise FormatError("an array without its shape")
    shape = struct.unpack(f"<{data[3]}I", data[4:start])
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) - start != wanted:
        raise FormatError(f"an array of shape {shape} and {dtype} has {wanted} bytes, and {len(data) - start} came")
    found: NDArray[Any] = np.frombuffer(data[start:], dtype).reshape(shape)
    return found


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(ARRAY, pack_array(value))
    if isinstance(value, np.generic):
        return value.item()
    raise FormatError(f"a {type(value).__name__} cannot be sent")


def _extension(code: int, payload: memoryview) -> object:
    if code != ARRAY:
        raise FormatError(f"the extension type {code} is not known")
    return unpack_array(payload)


_PACK = msgspec.msgpack.Encoder(enc_hook=_plain)
_UNPACK_ANY = msgspec.msgpack.Decoder(ext_hook=_extension)
_MESSAGE: Any = AnyCall | list[AnyCall]
_FROM_JSON: dict[str, msgspec.json.Decoder[Any]] = {
    "": msgspec.json.Decoder(_MESSAGE),
    **{name: msgspec.json.Decoder(kind | list[kind]) for name, kind in CALLS.items()},  # type: ignore[valid-type]
}
_FROM_BINARY: dict[str, msgspec.msgpack.Decoder[Any]] = {
    "": msgspec.msgpack.Decoder(_MESSAGE, ext_hook=_extension),
    **{
        name: msgspec.msgpack.Decoder(kind | list[kind], ext_hook=_extension)  # type: ignore[valid-type]
        for name, kind in CALLS.items()
    },
}


def read_calls(body: bytes | str, *, binary: bool = False, name: str = "") -> AnyCall | list[AnyCall]:
    """Return the call or calls of a message; with `name`, all are of this kind and need not say so.

    Raise CallError for anything else.
    """
    decoder: Any = (_FROM_BINARY if binary else _FROM_JSON)[name]
    try:
        found: AnyCall | list[AnyCall] = decoder.decode(body)
    except (msgspec.DecodeError, FormatError, RecursionError, UnicodeDecodeError) as error:
        kind = "MessagePack" if binary else "JSON"
        raise CallError("bad_message", f"The message is not a call in {kind}: {error}.") from error
    if isinstance(found, list) and len(found) > MOST_CALLS:
        raise CallError("bad_message", f"The message has {len(found)} calls; at most {MOST_CALLS} are allowed.")
    return found


def read_document(body: bytes | str, *, binary: bool = False) -> Any:
    """Return a whole document, such as a reply; raise FormatError if it cannot be read."""
    try:
        return _UNPACK_ANY.decode(body) if binary and isinstance(body, bytes) else msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(str(error)) from error


def encode(document: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, binary: bool = False) -> bytes:
    """Return a reply or a call as bytes; in JSON arrays are nested lists, and NaN and infinities texts."""
    return _PACK.encode(document) if binary else msgspec.json.encode(value_to_json(document))
