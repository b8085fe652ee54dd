"""A grid drawn with letters as an Mdp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.mdp import Mdp, Outcome, tabulate

Grid: TypeAlias = tuple[str, ...]  # rows of equal length; the cell in row r and column c is the state r * columns + c

ACTIONS = ("left", "down", "right", "up")  # in FrozenLake's order
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
_FREE = "SF. "
_LETTERS = "S start, G goal, H hole, # wall, . free (also F or a blank)"


def gridworld(
    text_map: str | Sequence[str],
    *,
    slip: float = 0.0,
    step_reward: float = 0.0,
    goal_reward: float = 1.0,
    hole_reward: float = 0.0,
    time_limit: int = 0,
) -> Mdp:
    """Goals and holes end the episode; walls and the rim stop a move. Every move pays `step_reward` as well.

    With probability `slip` a move goes to one of the two sides instead, each as likely as the other.
    """
    grid = read_map(text_map)
    if not 0 <= slip <= 1:
        raise InputError(f"slip is a probability: it should be between 0 and 1 (got {slip}).")
    pays = {"G": step_reward + goal_reward, "H": step_reward + hole_reward}
    cells = "".join(grid)
    outcomes = [
        [_outcomes(grid, state, action, slip, pays, step_reward) for action in range(len(ACTIONS))]
        for state in range(len(cells))
    ]
    starts = [float(cell == "S") / cells.count("S") for cell in cells]
    legal = np.ones((len(cells), len(ACTIONS)), np.uint8)
    return tabulate(outcomes, starts, legal, time_limit, name="The gridworld")


def read_map(text_map: str | Sequence[str]) -> Grid:
    """Rows from a list, or from a text whose lines end with a line break or a slash."""
    if isinstance(text_map, str):
        text_map = text_map.strip("\n").replace("/", "\n").split("\n")
    grid = tuple(text_map)
    if not grid or not grid[0]:
        raise InputError(f"The map is empty. Letters: {_LETTERS}.")
    for number, row in enumerate(grid):
        strange = [letter for letter in row if letter not in _FREE + "GH#"]
        if strange:
            raise InputError(f"Row {number} of the map, '{row}', holds '{strange[0]}'. Letters: {_LETTERS}.")
        if len(row) != len(grid[0]):
            raise InputError(f"Row {number} of the map, '{row}', has {len(row)} cells, but row 0 has {len(grid[0])}.")
    if "S" not in "".join(grid):
        raise InputError(f"The map has no start. Letters: {_LETTERS}.")
    return grid


def _outcomes(
    grid: Grid, state: int, action: int, slip: float, pays: dict[str, float], step_reward: float
) -> list[Outcome]:
    row, column = divmod(state, len(grid[0]))
    if grid[row][column] in "GH#":
        return [(1.0, state, 0.0, True)]
    directions = [(slip / 2, action - 1), (1 - slip, action), (slip / 2, action + 1)] if slip else [(1.0, action)]
    outcomes: list[Outcome] = []
    for probability, direction in directions:
        r, c = _moved(grid, row, column, direction % len(ACTIONS))
        letter = grid[r][c]
        outcomes.append((probability, r * len(grid[0]) + c, pays.get(letter, step_reward), letter in "GH"))
    return outcomes


def _moved(grid: Grid, row: int, column: int, direction: int) -> tuple[int, int]:
    down, right = _MOVES[direction]
    r, c = row + down, column + right
    inside = 0 <= r < len(grid) and 0 <= c < len(grid[0])
    return (r, c) if inside and grid[r][c] != "#" else (row, column)
