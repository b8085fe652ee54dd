"""Binary WebSocket message of a picture: length of the facts (four bytes, big-endian), facts as JSON, picture.

A message without a picture only reports the writer's state.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mosaic.core.errors import FormatError
from mosaic.telemetry.frames.reader import Frame, StreamState
from mosaic.telemetry.pictures.encode import decoded, encoded

_LENGTH_BYTES = 4


class FrameFacts(BaseModel):
    """Metadata of the picture. JSON has no NaN, so such numbers are left out."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    state: StreamState
    format: Literal["jpeg", "webp"] | None = None
    number: int = 0
    step: int = 0
    episode: int = 0
    env: int = 0
    agent: str = ""
    wall_time: float = 0.0
    reward: float | None = None
    ret: float | None = Field(default=None, alias="return")
    width: int = 0
    height: int = 0


class FrameMessage(NamedTuple):
    facts: FrameFacts
    picture: bytes  # empty if there is none

    def frame(self) -> Frame | None:
        """Decode the frame, with its original pixels, or nearly so after JPEG."""
        facts = self.facts
        if facts.format is None:
            return None
        reward, ret = (math.nan if value is None else value for value in (facts.reward, facts.ret))
        where = facts.step, facts.episode, facts.env, facts.agent
        return Frame(facts.number, decoded(self.picture), *where, facts.wall_time, reward, ret)


def pack(state: StreamState, frame: Frame | None = None) -> bytes:
    if frame is None:
        return _joined(FrameFacts(state=state).model_dump_json(include={"state"}).encode(), b"")
    kind, data = encoded(frame.pixels)
    height, width = frame.pixels.shape[:2]
    facts = FrameFacts(
        state=state,
        format=kind,
        number=frame.number,
        step=frame.step,
        episode=frame.episode,
        env=frame.env,
        agent=frame.agent,
        wall_time=frame.wall_time,
        reward=_number(frame.reward),
        ret=_number(frame.ret),
        width=width,
        height=height,
    )
    return _joined(facts.model_dump_json(by_alias=True).encode(), data)


def unpack(message: bytes) -> FrameMessage:
    end = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], "big")
    if len(message) < _LENGTH_BYTES or len(message) < end:
        raise FormatError("The server sent a picture that is not whole.")
    try:
        return FrameMessage(FrameFacts.model_validate_json(message[_LENGTH_BYTES:end]), message[end:])
    except ValueError as error:
        raise FormatError("The server sent a picture that this Mosaic cannot read: version mismatch.") from error


def _joined(facts: bytes, picture: bytes) -> bytes:
    return len(facts).to_bytes(_LENGTH_BYTES, "big") + facts + picture


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
