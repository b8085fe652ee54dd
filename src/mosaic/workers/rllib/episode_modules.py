"""Numbers of episodes over all env runners, and modules of agents that change from episode to episode.

A user's mapping function of (agent_id, episode) decides who plays: modules, by RLlib's own mapping, and fixed policies
inside the env. Both are told the number that an env runner gives an episode when it creates it.
"""

from __future__ import annotations

from typing import Any

from mosaic.core.ids import AgentID
from mosaic.learners.episode_mapping import EpisodeMapping

_NUMBER = "mosaic_episode"  # key of an episode's number in its custom data


class RunnerEpisodes:
    """Numbers of the episodes of one env runner: the k-th of runner r of n is number `first + k * n + r`."""

    def __init__(self, first: int = 0) -> None:
        self._first, self._begun = first, 0

    def number(self, episode: Any, runner: int, runners: int) -> int:
        """Give a new episode its number; `runner` is RLlib's index, where 0 is the main process."""
        number = self._first + self._begun * max(1, runners) + max(0, runner - 1)
        self._begun += 1
        episode.custom_data[_NUMBER] = number
        return number


class ToldNumber:
    """`EpisodeNumbers` of one env, which is told the number of each episode before it begins."""

    def __init__(self) -> None:
        self.number = 0

    def next(self, env: int) -> int:
        return self.number


class EpisodeModules:
    """RLlib's policy mapping function over a mapping by episode."""

    def __init__(self, mapping: EpisodeMapping) -> None:
        self._mapping = mapping

    def __call__(self, agent: AgentID, episode: Any = None, **also: object) -> str:
        data: dict[str, int] | None = getattr(episode, "_custom_data", None)
        if not data or _NUMBER not in data:  # RLlib, when cutting an episode, asks about agents already mapped
            return self._mapping.known[agent][0]
        return self._mapping.policy(agent, data[_NUMBER])
