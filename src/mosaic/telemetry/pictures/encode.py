"""Encoding of pictures: JPEG, lossless WebP for flat ones, PNG for files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.core.files import replace_file
from mosaic.telemetry.pictures.resize import Picture

PictureFormat: TypeAlias = Literal["jpeg", "webp"]
FLAT_SHARE = 0.9
_JPEG_QUALITY = 80
_WEBP_LARGEST = 16_383  # pixels along a side, a limit of the format
_SAMPLED_ROWS = 64


class Encoded(NamedTuple):
    format: PictureFormat
    data: bytes


def encoded(picture: Picture) -> Encoded:
    """Encode a picture for browsers.

    Flat pictures keep every pixel and become smaller than as JPEG; others lose some detail.
    """
    image, out = Image.fromarray(picture), BytesIO()
    if is_flat(picture) and max(picture.shape[:2]) <= _WEBP_LARGEST:
        # method 0 takes as long and makes line drawings twenty times larger; higher ones only take longer
        image.save(out, "WEBP", lossless=True, quality=20, method=1)
        return Encoded("webp", out.getvalue())
    image.save(out, "JPEG", quality=_JPEG_QUALITY)
    return Encoded("jpeg", out.getvalue())


def is_flat(picture: Picture) -> bool:
    """Return whether nine in ten pixels equal the one to their left, as in boards, grids and line drawings."""
    if picture.shape[1] < 2:
        return True
    rows = picture[:: max(1, picture.shape[0] // _SAMPLED_ROWS)]
    same = rows[:, 1:] == rows[:, :-1]
    whole = same if same.ndim == 2 else same.all(axis=2)
    return float(np.mean(whole)) >= FLAT_SHARE


def decoded(data: bytes) -> Picture:
    """Decode a picture; grey ones stay grey as JPEG, while WebP has colours only."""
    return np.array(Image.open(BytesIO(data)))


def save_png(path: Path, picture: Picture) -> None:
    """Save a picture atomically."""
    if path.suffix.lower() != ".png":
        raise InputError(f"'{path}' is not a PNG file. Type: {path.with_suffix('.png')}")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder '{path.parent}' for '{path.name}'. Type: mkdir -p {path.parent}")
    replace_file(path, lambda temporary: Image.fromarray(picture).save(temporary, "PNG"))
