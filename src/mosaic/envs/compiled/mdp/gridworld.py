"""Gridworlds drawn with letters, as Mdps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.reference import split_reference
from mosaic.envs.action_names import names_by_action
from mosaic.envs.compiled.mdp.mdp import Mdp, Outcome, tabulate
from mosaic.envs.family import split_version

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
    """Return the Mdp of a map; goals and holes end the episode, walls and the rim block a move.

    Every move also pays `step_reward`. With probability `slip` a move goes to one of the two sides instead, both
    equally likely.
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
    """Return rows from a list, or from a text whose lines end with a line break or a slash."""
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


_CLIFF: Grid = (*["." * 12] * 3, "S" + "H" * 10 + "G")  # like holes, the cliff is never occupied during an episode


class GridLayout(NamedTuple):
    """Grid and action directions; the cell in row r and column c is the state r * columns + c."""

    grid: Grid  # S start, G goal, H hole or cliff, # wall, anything else is free
    directions: tuple[str, ...]  # by action: left, down, right or up


def grid_layout(config: EnvironmentConfig) -> GridLayout:
    """Return the layout of an env whose states are the cells of a grid; other envs are refused."""
    name = split_version(config.id)[0]
    if name not in _GRIDS:
        raise InputError(f"{config.id} is not a grid whose cells are states. Grids: {', '.join(_GRIDS)}.")
    for reference in config.wrappers:
        wrapper = split_reference(reference)[0]
        if wrapper != "time_limit":
            raise InputError(
                f"{config.id} was wrapped in '{wrapper}', so its states may not be the cells of its grid. "
                "Only the wrapper time_limit leaves them as they are."
            )
    return GridLayout(_GRIDS[name](config), names_by_action(config.id))


def _frozen_lake(config: EnvironmentConfig) -> Grid:
    from gymnasium.envs.toy_text.frozen_lake import MAPS

    options = config.options
    if options.get("desc") is not None:
        return tuple("".join(row) for row in options["desc"])
    size = "8x8" if split_version(config.id)[0].endswith("8x8") else "4x4"
    map_name = options.get("map_name", size)
    if map_name is None:
        raise InputError(
            f"{config.id} with map_name=None generates a new map every time it is created, so there is no "
            f"single map to draw. "
            'Give the map itself: --set environment.options.desc=\'["SF", "FG"]\''
        )
    return tuple(MAPS[map_name])


def _cliff(config: EnvironmentConfig) -> Grid:
    return _CLIFF


def _gridworld(config: EnvironmentConfig) -> Grid:
    from mosaic.envs.families.mosaic import GridworldOptions, read_options

    return read_map(read_options(config, GridworldOptions).map)


_GRIDS: Mapping[str, Callable[[EnvironmentConfig], Grid]] = {  # by family/name without version
    "gym/CliffWalking": _cliff,
    "gym/CliffWalkingSlippery": _cliff,
    "gym/FrozenLake": _frozen_lake,
    "gym/FrozenLake8x8": _frozen_lake,
    "mosaic/gridworld": _gridworld,
}


def find_gridworld(config: EnvironmentConfig) -> Mdp:
    from mosaic.envs.families.mosaic import GridworldOptions, gridworld_of, read_options

    return gridworld_of(read_options(config, GridworldOptions))
