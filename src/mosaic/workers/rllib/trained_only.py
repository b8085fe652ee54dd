"""Whose experience reaches the networks: that of the policies that learn, not of those that only play along."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode


class TrainedOnly(TorchLearner):
    """RLlib leaves out what is not trained after it made batches of it, and cannot make any where the learner does not
    hold the network at all: snapshots of a league live in env runners only."""

    def _make_batch_if_necessary(self, training_data: TrainingData) -> Any:
        if training_data.episodes is not None:
            kept = [part for episode in training_data.episodes if (part := _part(episode, self._learns)) is not None]
            training_data = replace(training_data, episodes=kept)
        return super()._make_batch_if_necessary(training_data)  # type: ignore[no-untyped-call]

    def _learns(self, module_id: str | None) -> bool:
        if module_id is None:
            return True
        return module_id in self.module and bool(self.should_module_be_updated(module_id))  # type: ignore[no-untyped-call]


def _part(episode: Any, learns: Callable[[str | None], bool]) -> Any:
    """None where nothing is left. The episode itself stays whole: env runners count what was earned in it."""
    if not isinstance(episode, MultiAgentEpisode):
        return episode if learns(episode.module_id) else None
    kept = {agent: own for agent, own in episode.agent_episodes.items() if learns(own.module_id)}
    if len(kept) == len(episode.agent_episodes):
        return episode
    if not kept:
        return None
    part = copy(episode)
    part.agent_episodes = kept
    return part
