"""Summary statistics of training."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from mosaic.core.errors import InputError
from mosaic.telemetry.events.info_numbers import CUSTOM, numbers_in


class RunningMean:
    """Mean of the numbers added so far."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, number: float) -> None:
        self._sum += number
        self._count += 1

    @property
    def mean(self) -> float | None:
        return self._sum / self._count if self._count else None


class AgentReturns:
    """Returns of the agents of each table in the episodes that ended, every one with the same weight."""

    def __init__(self) -> None:
        self.episodes = self.steps = 0
        self.least, self.most = math.inf, -math.inf
        self._of_all, self._of_table = RunningMean(), dict[str, RunningMean]()

    def add_episode(self, returns: Iterable[tuple[str, float]], steps: int) -> None:
        """Add an episode; `returns` has a table and a return for each of its agents."""
        self.episodes += 1
        self.steps += steps
        for table, number in returns:
            self._of_all.add(number)
            self._of_table.setdefault(table, RunningMean()).add(number)
            self.least, self.most = min(self.least, number), max(self.most, number)

    @property
    def mean(self) -> float | None:
        return self._of_all.mean

    def mean_of(self, table: str) -> float | None:
        return self._of_table[table].mean if table in self._of_table else None


class MeanNumbers:
    """Means of named numbers for each table, since they were last taken."""

    def __init__(self) -> None:
        self._means: dict[str, dict[str, RunningMean]] = {}

    def add(self, table: str, numbers: Mapping[str, float]) -> None:
        of_table = self._means.setdefault(table, {})
        for name, number in numbers.items():
            of_table.setdefault(name, RunningMean()).add(number)

    def take(self) -> dict[str, dict[str, float]]:
        means, self._means = self._means, {}
        return {
            table: {name: each.mean for name, each in of_table.items() if each.mean is not None}
            for table, of_table in means.items()
        }


@dataclass(slots=True)
class TrainingStatistics:
    """Statistics fed one episode at a time; `episode_rewards` and `episode_lengths` hold each of them, in order."""

    total_episodes: int = 0
    total_steps: int = 0  # of finished episodes, and of one that was left
    total_training_time: float = 0.0  # seconds
    min_reward: float = math.nan
    max_reward: float = math.nan
    episode_rewards: array[float] = field(default_factory=lambda: array("d"), repr=False)
    episode_lengths: array[int] = field(default_factory=lambda: array("q"), repr=False)
    custom_metrics: dict[str, list[float]] = field(default_factory=dict, repr=False)
    _mean: float = field(default=0.0, repr=False)
    _squares: float = field(default=0.0, repr=False)  # sum of squared distances from the mean (Welford)
    _episode_steps: int = field(default=0, repr=False)

    def add_episode(self, reward: float, steps: int) -> None:
        self.total_episodes += 1
        self._episode_steps += steps
        self.episode_rewards.append(reward)
        self.episode_lengths.append(steps)
        self.min_reward = reward if self.total_episodes == 1 else min(self.min_reward, reward)
        self.max_reward = reward if self.total_episodes == 1 else max(self.max_reward, reward)
        distance = reward - self._mean
        self._mean += distance / self.total_episodes
        self._squares += distance * (reward - self._mean)

    def add_episodes(self, rewards: array[float], lengths: array[int]) -> None:
        """Add many episodes at once, merging the means of two samples (Chan).

        `rewards` holds doubles, `lengths` 64-bit integers.
        """
        if not rewards:
            return
        count, both = len(rewards), self.total_episodes + len(rewards)
        sample = np.frombuffer(rewards)
        mean = float(sample.mean())
        distance = mean - self._mean
        self._squares += float(np.square(sample - mean).sum()) + distance**2 * self.total_episodes * count / both
        self._mean += distance * count / both
        least, most = float(sample.min()), float(sample.max())
        self.min_reward = least if not self.total_episodes else min(self.min_reward, least)
        self.max_reward = most if not self.total_episodes else max(self.max_reward, most)
        self.total_episodes, self._episode_steps = both, self._episode_steps + sum(lengths)
        self.episode_rewards.extend(rewards)
        self.episode_lengths.extend(lengths)

    def add_info(self, info: Mapping[str, object]) -> None:
        """Keep the numbers in the `info` of an episode's last step; raise if its custom metrics are something else."""
        for name, number in checked_numbers(info).items():
            self.add_metric(name, number)

    def add_metric(self, name: str, value: float) -> None:
        """Keep a value of the caller's; `summary` has the mean of each name."""
        self.custom_metrics.setdefault(name, []).append(float(value))

    def add_time(self, steps: int, seconds: float) -> None:
        self.total_steps += steps
        self.total_training_time += seconds

    @property
    def mean_reward(self) -> float:
        return self._mean if self.total_episodes else math.nan

    @property
    def std_reward(self) -> float:
        """Standard deviation of these episodes, not an estimate for others: 0 for one episode."""
        return math.sqrt(self._squares / self.total_episodes) if self.total_episodes else math.nan

    @property
    def mean_episode_length(self) -> float:
        return self._episode_steps / self.total_episodes if self.total_episodes else math.nan

    @property
    def mean_step_time(self) -> float:
        """Mean seconds per step."""
        return self.total_training_time / self.total_steps if self.total_steps else math.nan

    def summary(self) -> dict[str, float]:
        """Return the statistics by name; NaN where no episode has ended yet."""
        return {
            "total_episodes": self.total_episodes,
            "mean_reward": self.mean_reward,
            "std_reward": self.std_reward,
            "min_reward": self.min_reward,
            "max_reward": self.max_reward,
            "mean_episode_length": self.mean_episode_length,
            "total_training_time": self.total_training_time,
            "mean_step_time": self.mean_step_time,
            **self.metric_means(),
        }

    def metric_means(self) -> dict[str, float]:
        return {name: math.fsum(values) / len(values) for name, values in self.custom_metrics.items()}


def checked_numbers(info: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers of an `info` that are custom metrics; raise if `info["custom_metrics"]` has anything else."""
    found, own = numbers_in(info), info.get(CUSTOM, {})
    if not isinstance(own, Mapping) or not all(name in found for name in own if not str(name).startswith("_")):
        raise bad_metrics(own)
    return found


def bad_metrics(metrics: object) -> InputError:
    return InputError(
        f'The env returned info["custom_metrics"] = {metrics!r}. It should be a dict of names and finite numbers, '
        'such as {"coins": 3.0}.'
    )
