"""Modules of agents that change from episode to episode, as a user's mapping function says."""

from __future__ import annotations

from typing import Any

from mosaic.core.ids import AgentID
from mosaic.learners.episode_mapping import EpisodeMapping

_NUMBER = "mosaic_episode"  # key of an episode's number in its custom data


class EpisodeModules:
    """RLlib's policy mapping function over a mapping by episode.

    Episodes are numbered over all env runners, from `first`: the k-th of runner r of n is number `first + k * n + r`. A
    runner numbers an episode when it creates it (`number`); the mapping itself is not told which runner it is in.
    """

    def __init__(self, mapping: EpisodeMapping, first: int = 0) -> None:
        self._mapping, self._first, self._begun = mapping, first, 0

    def number(self, episode: Any, runner: int, runners: int) -> None:
        """Give a new episode its number; `runner` is RLlib's index, where 0 is the main process."""
        episode.custom_data[_NUMBER] = self._first + self._begun * max(1, runners) + max(0, runner - 1)
        self._begun += 1

    def __call__(self, agent: AgentID, episode: Any = None, **also: object) -> str:
        data: dict[str, int] | None = getattr(episode, "_custom_data", None)
        if not data or _NUMBER not in data:  # RLlib, when cutting an episode, asks about agents already mapped
            return self._mapping.known[agent][0]
        return self._mapping.policy(agent, data[_NUMBER])
