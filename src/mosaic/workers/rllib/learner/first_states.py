"""Recurrent states with which pieces of episodes begin, where agents act at different times."""

from __future__ import annotations

from typing import Any

import numpy as np
import tree  # type: ignore[import-untyped]
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.numpy import convert_to_numpy
from ray.rllib.utils.typing import EpisodeType


class FirstStates(ConnectorV2):
    """Learner connector that begins a piece of an episode with the initial state if its own is not known.

    A piece keeps only a few env steps of the one before, so the last state of an agent that acted earlier is lost;
    RLlib would then fail, or begin with the piece's last state.
    """

    def __call__(
        self, *, rl_module: Any, batch: dict[str, Any], episodes: list[EpisodeType], **also: object
    ) -> dict[str, Any]:
        if not rl_module.is_stateful():
            return batch
        for piece in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            states = piece.extra_model_outputs.get(Columns.STATE_OUT)
            if piece.t_started and states is not None and not states.lookback and piece.module_id in rl_module:
                _begin_with(piece, states, convert_to_numpy(rl_module[piece.module_id].get_initial_state()))
        return batch


def _begin_with(piece: SingleAgentEpisode, states: InfiniteLookbackBuffer, first: Any) -> None:
    data: Any = (
        tree.map_structure(lambda one, rest: np.concatenate([one[None], rest]), first, states.data)
        if states.finalized
        else [first, *states.data]
    )
    piece.extra_model_outputs[Columns.STATE_OUT] = InfiniteLookbackBuffer(data, lookback=1)
