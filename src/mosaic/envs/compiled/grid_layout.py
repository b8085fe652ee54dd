"""Which cell of a grid each state of an env is, and where each action goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.reference import split_reference
from mosaic.envs.action_names import names_by_action
from mosaic.envs.compiled.mdp.gridworld import Grid
from mosaic.envs.family import split_version

_CLIFF: Grid = (*["." * 12] * 3, "S" + "H" * 10 + "G")  # the cliff is where no episode ever stands, as holes are


class GridLayout(NamedTuple):
    """The cell in row r and column c is the state r * columns + c."""

    grid: Grid  # S start, G goal, H hole or cliff, # wall, anything else is free
    directions: tuple[str, ...]  # by action: left, down, right or up


def grid_layout(config: EnvironmentConfig) -> GridLayout:
    """The layout of an env whose states are the cells of a grid; other envs are refused."""
    name = split_version(config.id)[0]
    if name not in _GRIDS:
        raise InputError(f"{config.id} is no grid whose cells are states. Grids: {', '.join(_GRIDS)}.")
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
            f"{config.id} with map_name=None makes a new map every time it is made, so there is no one map to draw. "
            'Give the map itself: --set environment.options.desc=\'["SF", "FG"]\''
        )
    return tuple(MAPS[map_name])


def _cliff(config: EnvironmentConfig) -> Grid:
    return _CLIFF


def _gridworld(config: EnvironmentConfig) -> Grid:
    from mosaic.envs.compiled.mdp.gridworld import read_map
    from mosaic.envs.families.mosaic import GridworldOptions, read_options

    return read_map(read_options(config, GridworldOptions).map)


_GRIDS: Mapping[str, Callable[[EnvironmentConfig], Grid]] = {  # by family/name without version
    "gym/CliffWalking": _cliff,
    "gym/CliffWalkingSlippery": _cliff,
    "gym/FrozenLake": _frozen_lake,
    "gym/FrozenLake8x8": _frozen_lake,
    "mosaic/gridworld": _gridworld,
}
