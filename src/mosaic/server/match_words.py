"""What a game without a picture shows instead: its own words, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.env import Env

_SIZE_PX, _MARGIN_PX = 20, 24
_PAPER, _INK = (19, 22, 26), (233, 235, 238)


def picture_of(env: Env) -> NDArray[np.uint8] | None:
    """The env's own picture, or its words; None where it has neither."""
    pixels = env.render()
    if pixels is not None:
        return pixels
    words = words_of(env)
    return draw_words(words) if words else None


def words_of(env: Env) -> str:
    """What a game of OpenSpiel tells the player who moves, and at the end everybody; else nothing."""
    raw: Any = env
    while hasattr(raw, "env"):
        raw = raw.env
    state = getattr(getattr(getattr(raw, "unwrapped", raw), "hanabi_env", None), "game_state", None)
    if state is None:
        return ""
    player = state.current_player()
    return str(state.observation_string(player) if player >= 0 else state).strip()


def draw_words(text: str) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(_SIZE_PX)
    _, _, right, bottom = ImageDraw.Draw(Image.new("RGB", (1, 1))).multiline_textbbox((0, 0), text, font)
    image = Image.new("RGB", (int(right) + 2 * _MARGIN_PX, int(bottom) + 2 * _MARGIN_PX), _PAPER)
    ImageDraw.Draw(image).multiline_text((_MARGIN_PX, _MARGIN_PX), text, _INK, font)
    return np.asarray(image)
