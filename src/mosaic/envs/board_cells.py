"""Cells of board games as text, in the rows and columns that their pictures have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mosaic.envs.env import Env
from mosaic.envs.family import split_version

Cells: TypeAlias = tuple[tuple[str, ...], ...]  # rows from the top; "" where nothing stands


def board_cells(env: Env) -> Cells:
    """Return what stands on each cell of the current position; empty for other envs than board games.

    X and O of tic-tac-toe and Connect Four and of Go (X is black); chess pieces as in FEN, white in capitals.
    """
    read = _BOARDS.get(split_version(env.spec.env_id)[0])
    if read is None:
        return ()
    raw: Any = env  # at last an env that is not typed
    while hasattr(raw, "env"):
        raw = raw.env
    return read(getattr(raw, "unwrapped", raw))


def _rows(marks: Any) -> Cells:
    return tuple(tuple(("", "X", "O")[int(mark)] for mark in row) for row in marks)


def _tictactoe(raw: Any) -> Cells:
    """Read nine cells, which the env numbers down the columns."""
    return _rows(np.reshape(raw.board.squares, (3, 3)).T)


def _connect_four(raw: Any) -> Cells:
    return _rows(np.reshape(raw.board, (6, 7)))


def _chess(raw: Any) -> Cells:
    return tuple(tuple(piece.strip(".") for piece in rank.split()) for rank in str(raw.board).splitlines())


def _go(raw: Any) -> Cells:
    """Read the stones; the env draws its rows from left to right."""
    return _rows(np.asarray(raw._go.board).T)  # white is −1, the last of the marks


_BOARDS: dict[str, Callable[[Any], Cells]] = {
    "classic/tictactoe": _tictactoe,
    "mosaic/tictactoe": lambda raw: _rows(np.reshape(raw.marks, (3, 3)).T),
    "classic/connect_four": _connect_four,
    "classic/chess": _chess,
    "classic/go": _go,
}
