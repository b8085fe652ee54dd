"""Checkpoints as RLlib's users write them, without Mosaic."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter
from ray.rllib.env.multi_agent_env import MultiAgentEnv


class Pair(MultiAgentEnv):
    """Two agents that see and do different things."""

    def __init__(self, config=None):
        super().__init__()
        self.observation_spaces = {"scout": Box(-1, 1, (3,), np.float32), "digger": Box(-1, 1, (5,), np.float32)}
        self.action_spaces = {"scout": Discrete(4), "digger": Box(-2.0, 3.0, (2,), np.float32)}
        self.agents = self.possible_agents = ["scout", "digger"]
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return self._observe(), {}

    def step(self, actions):
        self._steps += 1
        over = self._steps == 10
        rewards = dict.fromkeys(self.agents, 1.0)
        return self._observe(), rewards, {"__all__": over}, {"__all__": False}, {}

    def _observe(self):
        return {agent: space.sample() for agent, space in self.observation_spaces.items()}


def save(config, path):
    """Train one iteration in this process and save as RLlib does; return what its own env runner decides."""
    small = {"num_env_runners": 0, "num_envs_per_env_runner": 1}
    algorithm = (
        config.env_runners(**small).rl_module(model_config={"fcnet_hiddens": [8]}).debugging(seed=3).build_algo()
    )
    try:
        algorithm.train()
        algorithm.save_to_path(str(path))
    finally:
        algorithm.stop()


def save_ppo(path, env="CartPole-v1", filtered=False):
    config = PPOConfig().environment(env).training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    if filtered:
        config = config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    save(config, path)


def save_pair(path):
    config = PPOConfig().environment(Pair).training(train_batch_size_per_learner=40, minibatch_size=20, num_epochs=1)
    mapping = lambda agent, episode, **_: {"scout": "eyes", "digger": "hands"}[agent]  # noqa: E731
    save(config.multi_agent(policies={"eyes", "hands"}, policy_mapping_fn=mapping), path)


def save_dqn(path):
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .training(train_batch_size_per_learner=8, num_steps_sampled_before_learning_starts=8)
    )
    save(config, path)


def save_sac(path):
    small = {"train_batch_size_per_learner": 8, "num_steps_sampled_before_learning_starts": 8}
    save(SACConfig().environment("Pendulum-v1").training(**small), path)


def save_flattened(path):
    """Save a checkpoint with a connector of RLlib that is not one of its defaults."""
    config = PPOConfig().environment("CartPole-v1").training(train_batch_size_per_learner=64, minibatch_size=32)
    save(config.env_runners(env_to_module_connector=lambda env, spaces, device: FlattenObservations()), path)
