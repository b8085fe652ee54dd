"""Action encoding of PettingZoo's chess: 8 × 8 squares of departure, 73 kinds of move from each.

Everything is seen from the side of the player to move: black's board is mirrored, so pawns always go up. The 73 kinds
are 56 queen moves (8 directions times 7 distances; kings, rooks, bishops, pawns and castling are among them, and a pawn
that reaches the last rank this way becomes a queen), 8 knight jumps, and 9 underpromotions (3 directions times knight,
bishop, rook).
"""

from __future__ import annotations

import re
from typing import Protocol

from mosaic.core.errors import FormatError, InputError

_FEN = re.compile(r"[pnbrqkPNBRQK1-8/]+ [wb] (-|[KQkq]{1,4}) (-|[a-h][36]) \d+ \d+")


class _Board(Protocol):
    def fen(self) -> str: ...


class _ChessState(Protocol):
    @property
    def board(self) -> _Board: ...


class ChessEnv(Protocol):
    """PettingZoo's chess, below or above its wrappers."""

    @property
    def unwrapped(self) -> _ChessState: ...


def fen_of(env: ChessEnv) -> str:
    """Return the position of PettingZoo's chess; the adapter puts it into every acting agent's infos as `fen`."""
    return env.unwrapped.board.fen()


def check_fen(fen: str) -> str:
    """Return the text if it is a position: engines crash on anything else, and obey what follows a line break."""
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
    """Return `P` for a white pawn, `p` for a black one; file and rank count from 0 at a1."""
    row = fen.partition(" ")[0].split("/")[7 - rank]
    piece = _expand(row)[file]
    return None if piece == "." else piece


def _expand(row: str) -> str:
    return "".join("." * int(mark) if mark.isdigit() else mark for mark in row)


_WAYS = 73
ACTIONS = 8 * 8 * _WAYS

_MOVE = re.compile(r"([a-h])([1-8])([a-h])([1-8])([nbrq]?)")
_FILES = "abcdefgh"
_QUEEN_DIRECTIONS = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
_KNIGHT_JUMPS = [(dx, dy) for dx in range(-2, 3) for dy in range(-2, 3) if abs(dx) + abs(dy) == 3]
_LESSER = "nbr"
_LAST_BUT_ONE = 6  # the rank from which a pawn promotes

# kind of move ↔ (files to the right, ranks up, promotion piece if less than a queen)
_STEPS: list[tuple[int, int, str]] = [
    *((dx * distance, dy * distance, "") for distance in range(1, 8) for dx, dy in _QUEEN_DIRECTIONS),
    *((dx, dy, "") for dx, dy in _KNIGHT_JUMPS),
    *((dx, 1, piece) for dx in (-1, 0, 1) for piece in _LESSER),
]
_WAY_OF = {step: way for way, step in enumerate(_STEPS)}


def action_of(move: str, white: bool) -> int:
    """Return the action that plays this move (UCI text such as e2e4, e1g1 or a7a8q) for this colour."""
    match = _MOVE.fullmatch(move)
    if match is None:
        raise InputError(f"{move!r} is not a chess move in UCI text, for example e2e4, e1g1 or a7a8q.")
    from_file, to_file = _FILES.index(match[1]), _FILES.index(match[3])
    from_rank, to_rank = _seen(int(match[2]) - 1, white), _seen(int(match[4]) - 1, white)
    promotion = match[5]
    dx, dy = to_file - from_file, to_rank - from_rank
    way = _WAY_OF.get((dx, dy, promotion.replace("q", "")))
    if way is None or (promotion and (from_rank, dy, abs(dx) < 2) != (_LAST_BUT_ONE, 1, True)):
        raise InputError(f"No {'white' if white else 'black'} piece can make the move '{move}'.")
    return (from_file * 8 + from_rank) * _WAYS + way


def uci_of(action: int, fen: str) -> str:
    """Return an action as UCI text; the position tells whose move it is and whether a pawn becomes a queen."""
    white = is_white_to_move(check_fen(fen))
    square, way = divmod(action, _WAYS)
    from_file, from_rank = divmod(square, 8)
    dx, dy, promotion = _STEPS[way]
    to_file, to_rank = from_file + dx, from_rank + dy
    on_board = 0 <= action < ACTIONS and 0 <= to_file < 8 and 0 <= to_rank < 8
    if not on_board or (promotion and from_rank != _LAST_BUT_ONE):
        raise InputError(f"Action {action} is not a chess move.")
    if from_rank == _LAST_BUT_ONE and to_rank == 7 and not promotion:
        pawn = piece_at(fen, from_file, _seen(from_rank, white)) == ("P" if white else "p")
        promotion = "q" if pawn else ""
    departure = f"{_FILES[from_file]}{_seen(from_rank, white) + 1}"
    arrival = f"{_FILES[to_file]}{_seen(to_rank, white) + 1}"
    return departure + arrival + promotion


def _seen(rank: int, white: bool) -> int:
    """Convert a rank to the mover's view, or back."""
    return rank if white else 7 - rank
