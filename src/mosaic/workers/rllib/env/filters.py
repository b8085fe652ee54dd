"""Normalization of observations during RLlib training."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
from ray.rllib.utils.filter import MeanStdFilter as RunningFilter
from ray.rllib.utils.filter import RunningStat
from ray.rllib.utils.typing import EpisodeType

from mosaic.core.ids import AgentID
from mosaic.workers.rllib.env.encoding import OBSERVATION, own_part

_SMALL = 1e-8  # added to the deviation by RLlib


class ObservationFilter(MeanStdFilter):
    """RLlib's filter, restricted to observations: masks and the state of a central critic stay as they are."""

    def recompute_output_observation_space(
        self, input_observation_space: Space[object], input_action_space: Space[object]
    ) -> Space[object]:
        return input_observation_space

    def __call__(self, *, batch: dict[str, object], episodes: list[EpisodeType], **also: object) -> dict[str, object]:
        if self._filters is None:
            self._init_new_filters()
        assert self._filters is not None
        for episode in self.single_agent_episode_iterator(episodes):
            seen = episode.get_observations(-1)
            own = seen[OBSERVATION] if isinstance(seen, dict) else seen
            shown = np.asarray(self._filters[episode.agent_id](own, update=self._update_stats), np.float32)
            new = {**seen, OBSERVATION: shown} if isinstance(seen, dict) else shown
            episode.set_observations(at_indices=-1, new_data=new)
        return batch

    def _init_new_filters(self) -> None:
        space: Any = self.input_observation_space
        seen = space.spaces if self._multi_agent else {None: space}
        self._filters = {
            agent: RunningFilter(  # type: ignore[no-untyped-call]
                np.array(own_part(part).shape),
                demean=self.de_mean_to_zero,
                destd=self.de_std_to_one,
                clip=self.clip_by_value,
            )
            for agent, part in seen.items()
        }


def filter_moments(
    pipeline: ConnectorPipelineV2,
) -> dict[AgentID | None, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return shift and scale of each agent's observations, under None if one agent learns; empty without a filter."""
    for connector in pipeline.connectors:
        if isinstance(connector, ObservationFilter) and connector._filters is not None:
            filters = cast("dict[AgentID | None, RunningFilter]", connector._filters)
            return {agent: _moments(found.running_stats) for agent, found in filters.items()}
    return {}


def _moments(stats: RunningStat) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.asarray(stats.mean, np.float32), np.asarray(1 / (stats.std + _SMALL), np.float32)
