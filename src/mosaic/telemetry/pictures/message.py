"""Frame message: an encoded picture with its facts, sent to browsers and clients for runs, live sessions and matches.

Layout: version (one byte), length of the facts (four bytes, little-endian), facts as JSON, encoded picture. A message
without a picture only reports the writer's state. `ui/web/static/frame_message.js` reads the same.
"""

from __future__ import annotations

import math
import struct
from io import BytesIO
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from mosaic.core.errors import FormatError
from mosaic.telemetry.frames.reader import Frame, StreamState
from mosaic.telemetry.pictures.resize import Picture, as_rgb

VERSION = 1  # frame_message.js has the same
_HEAD = struct.Struct("<BI")

PictureFormat: TypeAlias = Literal["jpeg", "webp"]
FEW_COLOURS = 128  # in the sample: drawings have up to 60, grey photographs about 200, textures 1,000
_SAMPLED = 64  # rows, and pixels of each
_JPEG_QUALITY = 80
_WEBP_LARGEST = 16_383  # pixels along a side, a limit of the format


class FrameHeader(BaseModel):
    """Metadata of the picture. JSON has no NaN and no infinity; pydantic writes them as null."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    state: StreamState
    format: PictureFormat | None = None
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
    facts: FrameHeader
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
        return _joined(FrameHeader(state=state).model_dump_json(include={"state"}).encode(), b"")
    kind, data = encoded(frame.pixels)
    height, width = frame.pixels.shape[:2]
    facts = FrameHeader(
        state=state,
        format=kind,
        number=frame.number,
        step=frame.step,
        episode=frame.episode,
        env=frame.env,
        agent=frame.agent,
        wall_time=frame.wall_time,
        reward=frame.reward,
        ret=frame.ret,
        width=width,
        height=height,
    )
    return _joined(facts.model_dump_json(by_alias=True).encode(), data)


def unpack(message: bytes) -> FrameMessage:
    """Read a message; raise FormatError if it is incomplete or of another version."""
    if message and message[0] != VERSION:
        raise FormatError(
            f"The server sent a picture of version {message[0]}; this Mosaic reads version {VERSION}. "
            "Install the same version of Mosaic on both machines."
        )
    if len(message) < _HEAD.size:
        raise FormatError("The server sent a picture that is incomplete.")
    _, length = _HEAD.unpack_from(message)
    end = _HEAD.size + length
    if len(message) < end:
        raise FormatError("The server sent a picture that is incomplete.")
    try:
        return FrameMessage(FrameHeader.model_validate_json(message[_HEAD.size : end]), message[end:])
    except ValueError as error:
        raise FormatError("The server sent a picture that this Mosaic cannot read: its facts are damaged.") from error


def _joined(facts: bytes, picture: bytes) -> bytes:
    return _HEAD.pack(VERSION, len(facts)) + facts + picture


class Encoded(NamedTuple):
    format: PictureFormat
    data: bytes


def encoded(picture: Picture) -> Encoded:
    """Encode a picture for browsers and clients.

    Drawings keep every pixel and become smaller than as JPEG; others lose some detail.
    """
    image, out = Image.fromarray(picture if picture.ndim == 2 else as_rgb(picture)), BytesIO()
    if is_drawing(picture) and max(picture.shape[:2]) <= _WEBP_LARGEST:
        # method 0 takes as long and makes line drawings twenty times larger; higher ones only take longer
        image.save(out, "WEBP", lossless=True, quality=20, method=1)
        return Encoded("webp", out.getvalue())
    image.save(out, "JPEG", quality=_JPEG_QUALITY)
    return Encoded("jpeg", out.getvalue())


def is_drawing(picture: Picture) -> bool:
    """Return whether it has few colours, as boards, grids and line drawings do, judging by a sample."""
    height, width = picture.shape[:2]
    sample = picture[:: -(-height // _SAMPLED), :: -(-width // _SAMPLED)]
    if sample.ndim == 3 and sample.shape[2] >= 3:
        red, green, blue = (sample[..., channel].astype(np.uint32) for channel in range(3))
        colours = np.sort((red << 16 | green << 8 | blue).ravel())
    else:
        colours = np.sort(sample.astype(np.uint32).ravel())
    return int(np.count_nonzero(colours[1:] != colours[:-1])) < FEW_COLOURS


def decoded(data: bytes) -> Picture:
    """Decode a picture; grey ones stay grey as JPEG, while WebP has colours only."""
    return np.array(Image.open(BytesIO(data)))
