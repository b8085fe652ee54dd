"""Replay for policies with unequal amounts of experience: each is sampled in proportion to what it added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.utils.replay_buffers.multi_agent_episode_buffer import MultiAgentEpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.multi_agent_prioritized_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)


class _InShares(MultiAgentEpisodeReplayBuffer):
    """Replay buffer that draws each policy's steps in proportion.

    RLlib draws equally many steps for every policy, so that one with few steps sees each of them more often. `trained`:
    the others' steps are not drawn, while RLlib would draw them and throw them away.
    """

    def __init__(self, *given: Any, trained: Sequence[str], **also: Any) -> None:
        super().__init__(*given, **also)
        self._trained = tuple(trained)

    def sample(self, num_items: int | None = None, **asked: Any) -> Any:
        assert num_items is not None
        added = {name: self.get_added_timesteps(name) for name in self._trained}
        drawn: list[Any] = []
        for name, rows in rows_by_share(num_items, added).items():
            drawn += super().sample(rows, **asked | {"modules_to_sample": [name]})
        return drawn


class BalancedEpisodeReplayBuffer(_InShares):
    pass


class BalancedPrioritizedEpisodeReplayBuffer(_InShares, MultiAgentPrioritizedEpisodeReplayBuffer):
    pass


def balanced_buffer(kind: str) -> str:
    """Return the name of Mosaic's multi-policy buffer for one of RLlib's.

    It is a name because RLlib looks at the name to detect the type.
    """
    return f"{__name__}.Balanced{kind}"


class _AnyBuffer(SACConfig):
    """RLlib's configuration, which knows buffers by a list of names, without its refusal of all others."""

    def validate(self) -> None:
        asked = self.replay_buffer_config
        if "." in str(asked["type"]):  # path of a class
            self.replay_buffer_config = {**asked, "type": "MultiAgentEpisodeReplayBuffer"}
        try:
            super().validate()
        finally:
            if self.replay_buffer_config != asked:
                self.replay_buffer_config = asked


class AnyBufferSACConfig(_AnyBuffer):
    pass


class AnyBufferTQCConfig(_AnyBuffer, TQCConfig):
    pass


def rows_by_share(rows: int, added: Mapping[str, int]) -> dict[str, int]:
    """Return the rows to draw from each policy's experience: all for the one with most, the others in proportion."""
    most = max(added.values(), default=0)
    return {name: max(1, round(rows * count / most)) for name, count in added.items() if count}
