"""Own classes for RLlib: a module, a learner, callbacks, three connectors and a hook, for CartPole.

    mosaic train gym/CartPole-v1 --worker rllib \
        --set training.params.rl_module=python:examples/rllib_classes.py:SkipModule \
        --set training.params.learner=python:examples/rllib_classes.py:DecayLearner \
        --set 'training.params.callbacks=["python:examples/rllib_classes.py:PoleAngles"]' \
        --set training.params.env_to_module=python:examples/rllib_classes.py:Scaled \
        --set training.params.module_to_env=python:examples/rllib_classes.py:stay_inside \
        --set training.params.learner_connector=python:examples/rllib_classes.py:HalfRewards \
        --set training.params.configure=python:examples/rllib_classes.py:configure
"""

from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn

Batch = dict[str, Any]
SCALE = np.array([2.4, 3.0, 0.21, 3.0], np.float32)  # of position, speed, angle and angular speed
EDGE = 0.8  # scaled position beyond which the cart is pushed back


class SkipModule(TorchRLModule, ValueFunctionAPI):
    """Two layers with a connection around the second. PPO learns with every module that computes values."""

    def setup(self) -> None:
        seen: Any = self.observation_space
        actions: Any = self.action_space
        settings: Any = self.model_config
        width, hidden = seen.shape[0], settings["fcnet_hiddens"][0]
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, hidden)
        self.policy, self.value = nn.Linear(hidden, actions.n), nn.Linear(hidden, 1)

    def _features(self, batch: Batch) -> Tensor:
        first = torch.tanh(self.first(batch[Columns.OBS]))
        return first + torch.tanh(self.second(first))

    def _forward(self, batch: Batch, **also: Any) -> Batch:
        return {Columns.ACTION_DIST_INPUTS: self.policy(self._features(batch))}

    def compute_values(self, batch: Batch, embeddings: Any = None) -> Tensor:
        values: Tensor = self.value(self._features(batch)).squeeze(-1)
        return values


class DecayLearner(PPOTorchLearner):
    """PPO whose loss also keeps the weights of the policy's last layer small."""

    def compute_loss_for_module(self, *, module_id: str, **given: Any) -> Any:
        loss = super().compute_loss_for_module(module_id=module_id, **given)
        module: Any = self.module[module_id].unwrapped()
        return loss + 1e-4 * (module.policy.weight**2).sum()


class PoleAngles(RLlibCallback):
    """Record the largest angle of the pole in each episode."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any = None, **also: Any) -> None:
        angles = np.abs(np.asarray(episode.get_observations())[:, 2])
        metrics_logger.log_value("largest_angle", float(angles.max()), window=100)


class Scaled(ConnectorV2):
    """Env to module: observations between about -1 and 1."""

    def __call__(self, *, batch: Batch, episodes: list[Any], **also: Any) -> Batch:
        for episode in self.single_agent_episode_iterator(episodes):
            episode.set_observations(at_indices=-1, new_data=np.asarray(episode.get_observations(-1)) / SCALE)
        return batch


class StayInside(ConnectorV2):
    """Module to env: near the edge the cart is pushed back, whatever the module wants."""

    def __call__(self, *, batch: Batch, episodes: list[Any], **also: Any) -> Batch:
        pieces = self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False)
        begun = [episode for episode in pieces if len(episode.observations)]  # new ones wait for their reset
        position = {episode.id_: episode.get_observations(-1)[0] for episode in begun}

        def safe(action: Any, episode: Any, *place: object) -> Any:
            x = position.get(episode, 0.0)
            return np.asarray(0 if x > 0 else 1) if abs(x) > EDGE else action

        self.foreach_batch_item_change_in_place(batch, column=Columns.ACTIONS, func=safe)
        return batch


def stay_inside(env: Any, spaces: Any) -> list[ConnectorV2]:
    """Connectors may also be made by a function, which RLlib gives the env and its spaces."""
    return [StayInside()]


class HalfRewards(ConnectorV2):
    """Learner: every reward counts half."""

    def __call__(self, *, batch: Batch, episodes: list[Any], **also: Any) -> Batch:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            episode.set_rewards(new_data=np.asarray(episode.get_rewards()) / 2)
        return batch


def configure(config: AlgorithmConfig) -> None:
    """Change what Mosaic has no option for: here gradients are reported too."""
    config.reporting(log_gradients=True)
