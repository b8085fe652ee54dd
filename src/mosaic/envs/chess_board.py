"""What a chess position says, read from its FEN alone."""

from __future__ import annotations

import re
from typing import Any

from mosaic.core.errors import FormatError

_FEN = re.compile(r"[pnbrqkPNBRQK1-8/]+ [wb] (-|[KQkq]{1,4}) (-|[a-h][36]) \d+ \d+")


def fen_of(env: Any) -> str:
    """The position on the board of PettingZoo's chess; its adapter puts it into every acting agent's infos as `fen`."""
    fen: str = env.unwrapped.board.fen()
    return fen


def check_fen(fen: str) -> str:
    """The text itself, if it is a position: engines crash on less, and obey whatever follows a line break."""
    rows = fen.partition(" ")[0].split("/")
    if not _FEN.fullmatch(fen) or [len(_expand(row)) for row in rows] != [8] * 8:
        raise FormatError(
            f"{fen!r} is not a chess position in FEN, "
            "for example 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'."
        )
    return fen


def is_white_to_move(fen: str) -> bool:
    return fen.split()[1] == "w"


def piece_at(fen: str, file: int, rank: int) -> str | None:
    """`P` for a white pawn, `p` for a black one; file and rank count from 0 at a1."""
    row = fen.partition(" ")[0].split("/")[7 - rank]
    piece = _expand(row)[file]
    return None if piece == "." else piece


def _expand(row: str) -> str:
    return "".join("." * int(mark) if mark.isdigit() else mark for mark in row)
