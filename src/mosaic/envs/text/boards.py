"""Boards and maps as text, from one agent's observation: tic-tac-toe, Connect Four, Go, chess, gridworlds, Taxi."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.envs.action_names import GO_COLUMNS
from mosaic.envs.chess import check_fen, is_white_to_move, piece_at
from mosaic.envs.compiled.mdp.gridworld import grid_layout
from mosaic.envs.family import split_version
from mosaic.envs.text.seen import SeenByAgent, TextView


def _tictactoe(seen: SeenByAgent) -> str | None:
    if seen.shape != (3, 3, 2):
        return None
    mine, other = _marks(seen)
    cells = _filled(np.asarray(seen.observation), mine, other).T  # the env numbers cells down the columns
    rows = [
        " | ".join(cell or str(3 * row + column + 1) for column, cell in enumerate(line))
        for row, line in enumerate(cells.tolist())
    ]
    return (
        f"Tic-tac-toe. You are {mine}, your opponent is {other}. Three of one's own marks in a line win.\n"
        "The board; a free cell shows its number:\n" + "\n".join(rows)
    )


def _connect_four(seen: SeenByAgent) -> str | None:
    if seen.shape != (6, 7, 2):
        return None
    mine, other = _marks(seen)
    cells = _filled(np.asarray(seen.observation), mine, other)
    return (
        f"Connect Four. You are {mine}, your opponent is {other}. A disc falls to the lowest free cell of its column; "
        "four of one's own discs in a line (across, down or diagonal) win.\n"
        "The board, top row first:\n1 2 3 4 5 6 7\n" + "\n".join(" ".join(cell or "." for cell in row) for row in cells)
    )


def _go(seen: SeenByAgent) -> str | None:
    if len(seen.shape) != 3 or seen.shape[0] != seen.shape[1] or seen.shape[2] != 17:
        return None
    size = seen.shape[0]
    colours = ("X", "O")  # black moves first
    mine, other = colours if seen.place == 0 else colours[::-1]
    planes = np.asarray(seen.observation)[..., [1, 0]]  # the newest pair is from the view of the last mover
    cells = _filled(planes, mine, other).T  # the env draws its rows from left to right
    letters = f"   {' '.join(GO_COLUMNS[:size])}"
    rows = [f"{size - row:2} {' '.join(cell or '.' for cell in line)}" for row, line in enumerate(cells.tolist())]
    return (
        f"Go on a board of {size} × {size}. You are {mine} ({'black' if mine == 'X' else 'white'}), "
        f"your opponent is {other}. The game ends when both pass; the larger territory wins.\n"
        + "\n".join([letters, *rows, letters])
    )


def _chess(seen: SeenByAgent) -> str | None:
    fen = seen.info.get("fen")
    if not isinstance(fen, str):
        return None
    white = is_white_to_move(check_fen(fen))
    ranks = [
        f"{rank + 1} {' '.join(piece_at(fen, file, rank) or '.' for file in range(8))}" for rank in range(7, -1, -1)
    ]
    return (
        f"Chess. You are {'white (capital letters)' if white else 'black (small letters)'}. Moves are written from "
        "square to square (e2e4), castling as the king's move (e1g1), promotion with the piece (a7a8q).\n"
        f"FEN: {fen}\n" + "\n".join([*ranks, "  a b c d e f g h"])
    )


def _marks(seen: SeenByAgent) -> tuple[str, str]:
    """Return the agent's mark and its opponent's: the first agent is X."""
    return ("X", "O") if seen.place == 0 else ("O", "X")


def _filled(planes: NDArray[np.generic], mine: str, other: str) -> NDArray[np.str_]:
    """Return the marks of two planes, the agent's own first."""
    taken = planes.astype(bool)
    return np.where(taken[..., 0], mine, np.where(taken[..., 1], other, ""))


_TAXI_PLACES = ("red (top left)", "green (top right)", "yellow (bottom left)", "blue (bottom, fourth column)")
_TAXI_MAP = ("R: | : :G", " : | : : ", " : : : : ", " | : | : ", "Y| : |B: ")


def _grid(seen: SeenByAgent) -> str | None:
    try:
        grid = grid_layout(seen.spec.facts.config).grid
    except InputError:  # every env draws its own map: only the number of the cell is known
        return None
    row, column = divmod(int(seen.observation), len(grid[0]))
    if not row < len(grid):
        return None
    rows = [
        "".join("@" if (r, c) == (row, column) else cell for c, cell in enumerate(line)) for r, line in enumerate(grid)
    ]
    name, options = split_version(seen.spec.env_id)[0], seen.spec.facts.config.options
    usual = name.startswith("gym/FrozenLake") or name.endswith("Slippery")
    slips = options.get("is_slippery", usual) or options.get("slip")
    notes = "The floor is slippery: a move may go to one of its sides instead.\n" if slips else ""
    return (
        "A grid. Reach the goal G. @ you, S start, H hole or cliff (avoid it), # wall, other cells are free.\n"
        f"{notes}You are in row {row + 1}, column {column + 1}, counted from the top left:\n" + "\n".join(rows)
    )


def _taxi(seen: SeenByAgent) -> str | None:
    state = int(seen.observation)
    state, destination = divmod(state, 4)
    state, passenger = divmod(state, 5)
    row, column = divmod(state, 5)
    rows = [
        "".join("@" if (r, c) == (row, 2 * column) else cell for c, cell in enumerate(line))
        for r, line in enumerate(_TAXI_MAP)
    ]
    where = "in your taxi" if passenger == len(_TAXI_PLACES) else f"at {_TAXI_PLACES[passenger]}"
    return (
        "You drive a taxi (@) on a grid of 5 × 5. Pick the passenger up and drop them off at the destination.\n"
        "R, G, Y and B are stops; | is a wall between two columns, : is open:\n"
        + "\n".join(f"|{line}|" for line in rows)
        + f"\nYou are in row {row + 1}, column {column + 1}. The passenger is {where}. "
        f"The destination is {_TAXI_PLACES[destination]}."
    )


BOARDS: Mapping[str, TextView] = {
    "classic/chess": _chess,
    "classic/connect_four": _connect_four,
    "classic/go": _go,
    "classic/tictactoe": _tictactoe,
    "mosaic/tictactoe": _tictactoe,
    "gym/CliffWalking": _grid,
    "gym/CliffWalkingSlippery": _grid,
    "gym/FrozenLake": _grid,
    "gym/FrozenLake8x8": _grid,
    "gym/Taxi": _taxi,
    "mosaic/gridworld": _grid,
}
