"""Datasets that RLlib learns from: Minari's, read into memory and encoded as an agent's experience."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.offline.offline_data import OfflineData
from ray.rllib.utils import flatten_dict
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer

from mosaic.core.errors import InputError
from mosaic.workers.rllib.config.datasets import load_dataset
from mosaic.workers.rllib.env.encoding import AgentCode, agent_code

DATASET, PICTURE_SIZE, NORMALIZED = "dataset", "picture_size", "normalize_actions"  # keys of RLlib's `input_config`


class DatasetInMemory(OfflineData):
    """RLlib's source of batches: single steps, drawn at random from all episodes of a dataset.

    RLlib's own reads Parquet files with Ray Data, whose processes would need most of a small machine.
    """

    def __init__(self, config: AlgorithmConfig) -> None:
        settings: Mapping[str, Any] = config.input_config
        self._episodes = episodes = read_episodes(
            settings[DATASET], settings[PICTURE_SIZE], normalize=settings[NORMALIZED]
        )
        steps = sum(len(episode) for episode in episodes)
        self._buffer = EpisodeReplayBuffer(capacity=steps, batch_size_B=1, batch_length_T=1)
        self._buffer.rng = self._random = np.random.default_rng(config.seed)
        self._buffer.add(episodes)
        self.config = config
        self.learner_handles: Any = None  # set by RLlib, as are the next
        self.locality_hints = self.module_spec = self.spaces = None
        self.iter_batches_kwargs: dict[str, Any] = {}

    def sample(self, num_samples: int, *given: Any, **asked: Any) -> list[Any]:
        """Return the iterator over batches that the learner uses."""
        return [self]

    def iter_torch_batches(self, *, batch_size: int, **asked: Any) -> Iterator[dict[str, Any]]:
        """Yield batches without end, as the learner's connectors make them."""
        (learner,) = self.learner_handles
        if not any(isinstance(piece, GeneralAdvantageEstimation) for piece in learner._learner_connector.connectors):
            yield from self._rows_of(_made(learner, self._episodes), batch_size)
        while True:  # advantages depend on the value function as it is now
            drawn: Any = self._buffer.sample(
                num_items=batch_size, batch_length_T=None, n_step=1, sample_episodes=True, to_numpy=True, lookback=0
            )
            yield _made(learner, drawn)

    def _rows_of(self, whole: dict[str, Any], batch_size: int) -> Iterator[dict[str, Any]]:
        """Yield rows of the whole dataset, which was made once."""
        (steps,) = {len(column) for column in whole.values()}
        while True:
            rows = torch.from_numpy(self._random.integers(steps, size=batch_size))
            yield {name: column[rows.to(column.device)] for name, column in whole.items()}


def _made(learner: Any, episodes: list[SingleAgentEpisode]) -> dict[str, Any]:
    """Return the batch that the learner's connectors make of episodes, with joined names."""
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=episodes, shared_data={}, metrics=None
    )
    return dict(flatten_dict(batch))


def read_episodes(reference: str, picture_size: int, *, normalize: bool) -> list[SingleAgentEpisode]:
    """Read a dataset; `normalize` scales actions from the bounds of their space to -1 … 1, as networks return them."""
    dataset = load_dataset(reference)
    code = agent_code(dataset.observation_space, dataset.action_space, picture_size)
    episodes = []
    for episode in dataset.iterate_episodes():
        steps = len(episode.actions)
        if not steps:
            continue
        terminated = bool(episode.terminations[-1])
        episodes.append(
            SingleAgentEpisode(
                observation_space=code.observation_space,
                action_space=code.action_space,
                observations=[code.read(_at(episode.observations, time)) for time in range(steps + 1)],
                actions=[_action(dataset.action_space, action, code, normalize) for action in episode.actions],
                rewards=[float(reward) for reward in episode.rewards],
                terminated=terminated,
                truncated=not terminated,  # its end is the end of the record
                len_lookback_buffer=0,
            ).to_numpy()
        )
    if not episodes:
        raise InputError(f"dataset={reference} has no steps to learn from.")
    return episodes


def _at(observations: Any, time: int) -> Any:
    """Return one observation of an episode, whose parts are arrays over time."""
    if isinstance(observations, dict):
        return {name: _at(part, time) for name, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_at(part, time) for part in observations)
    return observations[time]


def _action(space: Any, action: Any, code: AgentCode, normalize: bool) -> NDArray[np.generic]:
    if isinstance(space, spaces.Discrete):
        return np.asarray(int(action) - int(space.start))
    row = np.ravel(np.asarray(action, np.float32))
    box = code.action_space
    assert isinstance(box, spaces.Box)
    if normalize and np.isfinite(box.low).all() and np.isfinite(box.high).all():
        row = (2 * (row - box.low) / (box.high - box.low) - 1).astype(np.float32)
    return row
