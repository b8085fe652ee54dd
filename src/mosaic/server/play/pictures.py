"""Picture encoding for transport: lossless where it is flat, JPEG where it is not, behind a small header."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<I")
_FLAT_COLOURS = 600  # boards and drawings have fewer; photographs and textures have thousands
_JPEG_QUALITY = 88


class MatchPicture(NamedTuple):
    kind: str  # webp or jpeg
    width: int
    height: int
    data: bytes


def encode_picture(pixels: NDArray[np.uint8]) -> MatchPicture:
    from PIL import Image

    image = Image.fromarray(pixels).convert("RGB")
    room = BytesIO()
    kind = "webp" if is_flat(pixels) else "jpeg"
    if kind == "webp":
        image.save(room, "webp", lossless=True, method=0, quality=20)
    else:
        image.save(room, "jpeg", quality=_JPEG_QUALITY)
    return MatchPicture(kind, image.width, image.height, room.getvalue())


def is_flat(pixels: NDArray[np.uint8]) -> bool:
    """Return whether it has few colours, judging by every fourth pixel of every fourth row."""
    some = pixels[::4, ::4, :3].astype(np.uint32)
    return len(np.unique(some[..., 0] << 16 | some[..., 1] << 8 | some[..., 2])) <= _FLAT_COLOURS


def pack(header: dict[str, Any], data: bytes) -> bytes:
    """Join the header's length (u32, little-endian), the header as JSON, and the picture."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text + data


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = _LENGTH.unpack_from(message)
    start = _LENGTH.size + length
    header: dict[str, Any] = json.loads(message[_LENGTH.size : start])
    return header, message[start:]
