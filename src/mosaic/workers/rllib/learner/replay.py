"""What policies with unequal amounts of experience learn from replay: each in proportion to what it added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.rllib.utils.replay_buffers.multi_agent_episode_buffer import MultiAgentEpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.multi_agent_prioritized_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)

from mosaic.workers.rllib.learner.minibatches import rows_by_share


class _InShares(MultiAgentEpisodeReplayBuffer):
    """RLlib draws equally many steps for every policy, so that one with few steps sees each of them more often.

    `trained`: the others' steps are not drawn, where RLlib would draw them and throw them away.
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
    """Ours for several policies, by RLlib's for one; as a name, since RLlib looks at the name to see what it is."""
    return f"{__name__}.Balanced{kind}"
