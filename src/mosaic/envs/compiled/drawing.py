"""Rendering of Mosaic's own small envs: grids, tic-tac-toe boards, cards and pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mosaic.envs.compiled.mdp.gridworld import Grid

_COLOURS = {"S": "#dbeafe", "G": "#86efac", "H": "#334155", "#": "#78716c"}
_FREE, _RIM, _AGENT = "#f8fafc", "#cbd5e1", "#f97316"
_X, _O = "#0891b2", "#d97706"
_TABLE, _INK = "#166534", "#1e293b"
_BOARD = 240  # pixels
_CARD = 72, 104  # pixels


def draw_grid(grid: Grid, state: int) -> NDArray[np.uint8]:
    """Draw the map with the agent as a disc."""
    rows, columns = len(grid), len(grid[0])
    side = max(4, min(48, 768 // max(rows, columns)))
    picture = Image.new("RGB", (columns * side, rows * side))
    pen = ImageDraw.Draw(picture)
    for r, row in enumerate(grid):
        for c, letter in enumerate(row):
            box = (c * side, r * side, (c + 1) * side - 1, (r + 1) * side - 1)
            pen.rectangle(box, fill=_COLOURS.get(letter, _FREE), outline=_RIM)
    r, c = divmod(state, columns)
    pad = side // 5
    pen.ellipse((c * side + pad, r * side + pad, (c + 1) * side - 1 - pad, (r + 1) * side - 1 - pad), fill=_AGENT)
    return np.asarray(picture).copy()


def draw_board(marks: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Draw nine marks, 1 for X and 2 for O; cells are numbered down the columns, as PettingZoo draws them."""
    side, pad = _BOARD // 3, _BOARD // 15
    picture = Image.new("RGB", (_BOARD, _BOARD), _FREE)
    pen = ImageDraw.Draw(picture)
    for line in (side, 2 * side):
        pen.line((line, 0, line, _BOARD), fill=_RIM, width=3)
        pen.line((0, line, _BOARD, line), fill=_RIM, width=3)
    for cell, mark in enumerate(marks.tolist()):
        column, row = divmod(cell, 3)
        left, top = column * side + pad, row * side + pad
        right, bottom = left + side - 2 * pad, top + side - 2 * pad
        if mark == 1:
            pen.line((left, top, right, bottom), fill=_X, width=8)
            pen.line((left, bottom, right, top), fill=_X, width=8)
        elif mark == 2:
            pen.ellipse((left, top, right, bottom), outline=_O, width=8)
    return np.asarray(picture).copy()


def draw_cards(ranks: Sequence[str], chips: Sequence[int]) -> NDArray[np.uint8]:
    """Draw one card beside another, each with the chips that its player has put into the pot below it."""
    width, height = _CARD
    picture = Image.new("RGB", (len(ranks) * 2 * width, 2 * height), _TABLE)
    pen = ImageDraw.Draw(picture)
    for number, (rank, count) in enumerate(zip(ranks, chips, strict=True)):
        left, top = number * 2 * width + width // 2, height // 4
        pen.rounded_rectangle((left, top, left + width, top + height), radius=8, fill=_FREE)
        pen.text((left + width // 2, top + height // 2), rank, fill=_INK, anchor="mm", font_size=width // 2)
        for chip in range(count):
            x, y = left + chip * (width // 3), top + height + height // 6
            pen.ellipse((x, y, x + width // 4, y + width // 4), fill=_O)
    return np.asarray(picture).copy()


def enlarge(cells: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Scale every cell of [rows, columns, 3] to a square with sides of this many pixels."""
    return cells.repeat(side, axis=0).repeat(side, axis=1)
