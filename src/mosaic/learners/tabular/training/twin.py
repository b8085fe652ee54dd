"""Training on a compiled twin: tables, progress and the matching loop; it can be left and resumed at any step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.kernels import small_games as packed_kernels
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.random import stream
from mosaic.learners.tabular.save_load import Tensors, read_table
from mosaic.learners.tabular.statistics import TrainingStatistics

FILE = "table.safetensors"
Opponent: TypeAlias = Literal["self", "random"]


class SteppedEnv(NamedTuple):
    """Env that is stepped in Python, in place of its arrays: what a process needs to make it."""

    environment: str  # the configuration as JSON
    legal: NDArray[np.uint8]  # [S, A]


Twin: TypeAlias = Mdp | GameTables | SteppedEnv


def save_tensors(folder: Path, tensors: Tensors) -> None:
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / FILE)


class Statistics(NamedTuple):
    """Statistics of the episodes that ended since the last call; None where none did."""

    episodes: int
    return_mean: float | None
    return_min: float | None
    return_max: float | None
    length_mean: float | None
    td_error_mean: float | None
    epsilon: float
    custom_metrics: Mapping[str, float] = MappingProxyType({})  # the env's own, mean of each

    def of_both(self) -> Statistics:
        """Return the statistics of both players of a zero-sum game; these are those of the first."""
        if self.return_min is None or self.return_max is None:
            return self
        least, most = min(self.return_min, -self.return_max), max(self.return_max, -self.return_min)
        return self._replace(return_mean=0.0, return_min=least, return_max=most)

    @classmethod
    def of(cls, seen: TrainingStatistics, td_error_mean: float | None, epsilon: float) -> Statistics:
        """Return the statistics of episodes played in Python."""
        if not seen.total_episodes:
            return cls(0, None, None, None, None, td_error_mean, epsilon, seen.metric_means())
        rewards = seen.mean_reward, seen.min_reward, seen.max_reward
        metrics = seen.metric_means()
        return cls(seen.total_episodes, *rewards, seen.mean_episode_length, td_error_mean, epsilon, metrics)


def knobs_of(algorithm: str, options: TabularOptions) -> kernels.Knobs:
    """Return the settings of the compiled loops; raise InputError where they are not supported."""
    if algorithm not in kernels.ALGORITHMS or options.exploration != "epsilon_greedy":
        raise InputError(
            f"The compiled loop supports {', '.join(kernels.ALGORITHMS)} with epsilon_greedy exploration, "
            f"not {algorithm} with {options.exploration}."
        )
    return kernels.Knobs(
        algorithm=kernels.ALGORITHMS[algorithm],
        learning_rate=options.learning_rate,
        discount_factor=options.discount_factor,
        epsilon=options.epsilon,
        epsilon_min=min(options.epsilon_min, options.epsilon),
        epsilon_decay=options.epsilon_decay if options.epsilon_schedule == "exponential" else 1.0,
        epsilon_episodes=options.epsilon_episodes if options.epsilon_schedule == "linear" else 0,
        by_visits=options.learning_rate_schedule == "visits",
        learning_rate_min=options.learning_rate_min,
    )


def take_statistics(progress: kernels.LoopProgress) -> Statistics:
    """Return the statistics and reset them."""
    sums = progress.sums
    ended, updates = int(sums[kernels.ENDED]), sums[kernels.UPDATES]
    statistics = Statistics(
        ended,
        float(sums[kernels.RETURNS] / ended) if ended else None,
        float(sums[kernels.LEAST]) if ended else None,
        float(sums[kernels.MOST]) if ended else None,
        float(sums[kernels.LENGTHS] / ended) if ended else None,
        float(sums[kernels.TD_ERRORS] / updates) if updates else None,
        float(sums[kernels.EPSILON]),
    )
    kernels.clear(progress)
    return statistics


class TwinTraining:
    """One learner, one table, one random stream."""

    def __init__(
        self, twin: Twin, algorithm: str, options: TabularOptions, seed: int, opponent: Opponent = "self"
    ) -> None:
        self._knobs = knobs_of(algorithm, options)
        if isinstance(twin, GameTables) and algorithm != "q_learning":
            raise InputError(f"Games are trained with q_learning, not {algorithm}.")
        self.twin, self.opponent = twin, opponent
        self._moves = kernels.list_moves(twin.legal)
        states, actions = twin.legal.shape
        self.values: Values = np.full((states, actions), options.initial_value, np.dtype(options.dtype))
        self.visits = kernels.new_visits(states, actions)
        self.sole_writer = True  # of the values; false where several learners share one table
        self._packed: packed_kernels.PackedGame | None = None
        if isinstance(twin, GameTables):
            self._packed = packed_kernels.pack_game(twin, self.values.dtype)
            self._leaders = packed_kernels.new_leaders(states, self.values.dtype)
        self.progress = kernels.new_progress(options.epsilon, stream(seed, "tabular"), stream(seed, "env"))

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Take this many agent steps, or stop after `episodes` in all (0: no limit); release the GIL."""
        table = (self.values, self.visits, self._knobs, self.progress, steps, episodes)
        if self._packed is not None and self.sole_writer:
            train = packed_kernels.train_self_play if self.opponent == "self" else packed_kernels.train_against_random
            train(self._packed, self._leaders, *table)
            return
        arguments = (self.twin, self._moves, *table)
        if isinstance(self.twin, Mdp):
            kernels.train_mdp(*arguments)
        elif self.opponent == "self":
            kernels.train_self_play(*arguments)
        else:
            kernels.train_against_random(*arguments)

    @property
    def env_steps(self) -> int:
        return int(self.progress.counts[kernels.STEPS])

    @property
    def agent_steps(self) -> int:
        return int(self.progress.counts[kernels.AGENT_STEPS])

    @property
    def episodes(self) -> int:
        return int(self.progress.counts[kernels.EPISODES])

    @property
    def coverage(self) -> float:
        """Fraction of legal (state, action) pairs ever tried."""
        return float(np.count_nonzero(self.visits) / np.count_nonzero(self.twin.legal))

    def read_statistics(self) -> Statistics:
        """Return the statistics and reset them."""
        return take_statistics(self.progress)

    def tensors(self) -> Tensors:
        """Return all that training needs to resume bit for bit."""
        return {
            "values": self.values,
            "visits": self.visits,
            "counts": self.progress.counts,
            "sums": self.progress.sums,
        }

    def save(self, folder: Path) -> None:
        save_tensors(folder, self.tensors())

    def restore(self, folder: Path, env_steps: int) -> None:
        self.load(read_table(folder / FILE))

    def load(self, tensors: Tensors) -> None:
        for name, array in self.tensors().items():
            saved = tensors[name]
            if saved.shape != array.shape or saved.dtype != array.dtype:
                raise InputError(
                    f"The saved '{name}' is {saved.dtype} {saved.shape}, but this run's is {array.dtype} {array.shape}."
                )
            array[:] = saved


FIRST, SECOND = "first", "second"
TENSORS = {FIRST: "values", SECOND: "values_second"}  # by player, in a checkpoint


class TwoTableTraining(TwinTraining):
    """Training with a table per player; `values` and `visits` are those of the player that begins."""

    def __init__(self, game: GameTables, algorithm: str, options: TabularOptions, seed: int) -> None:
        super().__init__(game, algorithm, options, seed, "self")
        self.values_second = self.values.copy()
        self.visits_second = self.visits.copy()

    def advance(self, steps: int, episodes: int = 0) -> None:
        tables, visits = (self.values, self.values_second), (self.visits, self.visits_second)
        kernels.train_two_tables(self.twin, self._moves, tables, visits, self._knobs, self.progress, steps, episodes)

    @property
    def coverage(self) -> float:
        """Fraction of legal (state, action) pairs ever tried by either player."""
        tried = np.count_nonzero((self.visits > 0) | (self.visits_second > 0))
        return float(tried / np.count_nonzero(self.twin.legal))

    def tensors(self) -> Tensors:
        second = {TENSORS[SECOND]: self.values_second, "visits_second": self.visits_second}
        return {**super().tensors(), **second}
