"""Boards of board games for screens: cells, names of sides, rows and columns, and how a game ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID, Json, JsonObject
from mosaic.envs.action_names import GO_COLUMNS
from mosaic.envs.env import Env, innermost
from mosaic.envs.family import split_version

Cells: TypeAlias = tuple[tuple[str, ...], ...]  # rows from the top; "" where nothing stands
Cell: TypeAlias = tuple[int, int]  # row and column


@dataclass(frozen=True, slots=True)
class Board:
    """Description of a board and its position.

    A user's env has one if `metadata["board"]` holds some of these fields; its method `board_cells()` gives the cells.
    """

    cells: Cells = ()
    sides: tuple[str, ...] = ()  # names of the agents' sides, in the order of the agents
    row_names: tuple[str, ...] = ()  # from the top
    column_names: tuple[str, ...] = ()
    area: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # left, top, width, height in the picture
    turns: bool = False  # whether the second side sees the board from the other end
    points: bool = False  # whether pieces stand on the crossings of lines
    in_a_row: int = 0  # equal marks in a row that win
    captured: tuple[int, ...] = ()  # stones that each side has taken
    last_move: str = ""  # as players write it, where they do not write it as it is typed
    ending: str = ""  # reason of the end, where the rules name one

    @property
    def line(self) -> tuple[Cell, ...]:
        """Return the cells of the row that won, if there is one."""
        return next(_lines(self.cells, self.in_a_row), ()) if self.in_a_row else ()


def layout_json(board: Board) -> JsonObject:
    """Return the board for a screen that draws marks over its picture."""
    return {
        "rows": len(board.cells),
        "columns": len(board.cells[0]) if board.cells else 0,
        "row_names": list[Json](board.row_names),
        "column_names": list[Json](board.column_names),
        "area": list[Json](board.area),
        "turns": board.turns,
        "points": board.points,
        "sides": len(board.sides),
        "line": [list[Json](cell) for cell in board.line],
        "captured": list[Json](board.captured),
    }


def board_of(env: Env) -> Board | None:
    """Return the board of the current position; None for other envs than board games.

    X and O of tic-tac-toe and Connect Four and of Go (X is black); chess pieces as in FEN, white in capitals.
    """
    raw = innermost(env)
    read = _BOARDS.get(split_version(env.spec.env_id)[0])
    return read(raw) if read is not None else _own_board(env.spec.env_id, raw)


def board_cells(env: Env) -> Cells:
    """Return what stands on each cell of the current position; empty for other envs than board games."""
    board = board_of(env)
    return () if board is None else board.cells


def san_of(env: Env, move: str) -> str:
    """Return a legal move of chess, given as e2e4, as players write it (e4); "" for other games."""
    if split_version(env.spec.env_id)[0] != "classic/chess":
        return ""
    board = innermost(env).board
    return str(board.san(board.parse_uci(move)))


def _own_board(env_id: EnvID, raw: Any) -> Board | None:
    """Read the description that a user's env has."""
    given = (getattr(raw, "metadata", None) or {}).get("board")
    if given is None:
        return None
    names = ", ".join(_OWN_FIELDS)
    if not isinstance(given, Mapping) or not given.keys() <= _OWN_FIELDS.keys():
        raise InputError(f"metadata['board'] of {env_id} is {given!r}; it is a mapping of some of {names}.")
    try:
        fields = {name: _OWN_FIELDS[name](value) for name, value in given.items()}
        cells = tuple(tuple(map(str, row)) for row in raw.board_cells()) if hasattr(raw, "board_cells") else ()
    except (TypeError, ValueError) as error:
        raise InputError(f"The board of {env_id} cannot be read: {error}.") from error
    if len(fields.get("area", (0,) * 4)) != 4:
        raise InputError(f"'area' of the board of {env_id} has four numbers: left, top, width, height.")
    return Board(cells, **fields)


def _names(given: Any) -> tuple[str, ...]:
    return tuple(map(str, given))


_OWN_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "sides": _names,
    "row_names": _names,
    "column_names": _names,
    "area": lambda given: tuple(map(float, given)),
    "turns": bool,
    "points": bool,
    "in_a_row": int,
}


def _lines(cells: Cells, length: int) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of at least `length` equal marks, each once and whole."""
    for row, marks in enumerate(cells):
        for column, mark in enumerate(marks):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                if mark and _mark(cells, row - down, column - right) != mark:
                    found: list[Cell] = []
                    while _mark(cells, row + len(found) * down, column + len(found) * right) == mark:
                        found.append((row + len(found) * down, column + len(found) * right))
                    if len(found) >= length:
                        yield tuple(found)


def _mark(cells: Cells, row: int, column: int) -> str:
    return cells[row][column] if 0 <= row < len(cells) and 0 <= column < len(cells[row]) else ""


def _rows(marks: Any) -> Cells:
    return tuple(tuple(("", "X", "O")[int(mark)] for mark in row) for row in marks)


def _three(marks: Any) -> Board:
    """Read nine cells, which the env numbers down the columns."""
    board = Board(_rows(np.reshape(marks, (3, 3)).T), ("X", "O"), in_a_row=3)
    return replace(board, ending="three in a row" if board.line else "the board is full")


def _connect_four(raw: Any) -> Board:
    area = (4 / 99, 4 / 86, 91 / 99, 78 / 86)  # the picture has a margin of 4 of 99 and of 86 pixels
    board = Board(_rows(np.reshape(raw.board, (6, 7))), ("Red", "Black"), area=area, in_a_row=4)
    return replace(board, ending="four in a row" if board.line else "the board is full")


def _chess(raw: Any) -> Board:
    cells = tuple(tuple(piece.strip(".") for piece in rank.split()) for rank in str(raw.board).splitlines())
    outcome = raw.board.outcome(claim_draw=True)
    ending = "" if outcome is None else str(outcome.termination.name).lower().replace("_", " ")
    board = Board(cells, ("White", "Black"), tuple("87654321"), tuple("abcdefgh"), turns=True, ending=ending)
    return replace(board, last_move=_san(raw.board))


def _san(board: Any) -> str:
    """Return the last move as players write it (Nf3, exd6, O-O, Qh5#), by the board of the env itself."""
    if not board.move_stack:
        return ""
    before = board.copy(stack=1)
    move = before.pop()
    return str(before.san(move))


def _go(raw: Any) -> Board:
    """Read the stones; the env draws its rows from left to right."""
    cells = _rows(np.asarray(raw._go.board).T)  # white is −1, the last of the marks
    size, captured = len(cells), tuple(map(int, raw._go.caps))
    rows = tuple(str(size - row) for row in range(size))
    ending = f"{abs(raw._go.score()):g} points" if raw._go.is_game_over() else ""
    columns = tuple(GO_COLUMNS[:size])
    return Board(cells, ("Black", "White"), rows, columns, points=True, captured=captured, ending=ending)


_BOARDS: dict[str, Callable[[Any], Board]] = {
    "classic/tictactoe": lambda raw: _three(raw.board.squares),
    "mosaic/tictactoe": lambda raw: _three(raw.marks),
    "classic/connect_four": _connect_four,
    "classic/chess": _chess,
    "classic/go": _go,
}
