"""Hashed tables: the envs that use them, their training, and controllers for their checkpoints on the reference env."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Observation
from mosaic.envs.family import split_version
from mosaic.policies.tabular import TabularPolicyController

if TYPE_CHECKING:  # modules that import numba are imported when a run begins
    from mosaic.learners.tabular.hashed.training import HashedTraining
    from mosaic.workers.tabular.options import TabularWorkerOptions

CONNECT_FOUR = "classic/connect_four"


def is_hashed(config: EnvironmentConfig) -> bool:
    """Return whether the env as configured is learned in a hashed table; a wrapper may change its rules."""
    return split_version(config.id)[0] == CONNECT_FOUR and not config.wrappers


def check_hashed(config: RunConfig, options: TabularWorkerOptions) -> None:
    """Raise if the compiled hashed loop cannot do what is asked."""
    env_id = config.environment.id
    if options.opponent != "self":
        raise InputError(
            f"{env_id} is learned by self-play alone, not against opponent={options.opponent}. "
            "Type: training.params.opponent=self"
        )
    if config.resources.runtime not in (None, "single"):
        raise InputError(
            f"{env_id} is learned in a hashed table, which grows as positions are met and cannot be shared: "
            f"the runtime is {config.resources.runtime}, it should be single. Type: resources.runtime=single"
        )


def make_hashed_training(config: RunConfig, algorithm: str, options: TabularWorkerOptions) -> HashedTraining:
    from mosaic.learners.tabular.hashed.training import HashedTraining

    check_hashed(config, options)
    print(f"{algorithm} in a hashed table of {config.environment.id}, one thread")
    memory_limit = None if options.table_memory_mb is None else options.table_memory_mb * 2**20
    return HashedTraining(algorithm, options, child_seed(config.seed, "learner", 0), memory_limit)


def in_hashed_table(folder: Path) -> bool:
    from mosaic.learners.tabular.hashed.training import FILE

    return (folder / FILE).exists()


def hashed_controller(
    folder: Path, action_of: Callable[[int], Action], drawn: Mapping[str, Any]
) -> TabularPolicyController:
    """Return a controller that plays from the saved rows.

    A position that training never met has the row of every new one: all moves have the same value, so a legal move is
    drawn with the controller's own seed, as among equally good moves elsewhere.
    """
    from mosaic.envs.compiled.board_games.connect_four import key_of, read_position
    from mosaic.learners.tabular.hashed.table import find_sorted
    from mosaic.learners.tabular.hashed.training import FILE
    from mosaic.learners.tabular.save_load import read_table

    tensors = read_table(folder / FILE)
    keys = tensors["keys"]
    values = np.concatenate([tensors["values"], tensors["new_row"]])

    def row_of(observation: Observation) -> int:
        place = find_sorted(keys, int(key_of(*read_position(observation))))
        return len(keys) if place is None else place

    return TabularPolicyController(values, row_of, action_of, **drawn)
