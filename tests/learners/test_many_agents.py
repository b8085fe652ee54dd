"""Turn-based games of more than two agents: each agent is paid for its own steps, in a shared table or its own."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from pettingzoo import AECEnv

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.user import adapt
from mosaic.envs.env import EnvFacts
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.agent_tables import TableSetup
from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
from mosaic.workers.resolution import resolve

NAMES = ("x", "y", "z", "w")


class Round(AECEnv):
    """Agents bid 0 or 1 in turn, once each; then agent k is paid k + 1 if it bid 1.

    An agent sees its own number. All is paid with the last bid, while all but one agent wait.
    """

    metadata = {"name": "round", "is_parallelizable": False}  # noqa: RUF012

    def __init__(self, agents=3):
        super().__init__()
        self.possible_agents = list(NAMES[:agents])
        self.render_mode = None

    def observation_space(self, agent):
        return Discrete(len(NAMES))

    def action_space(self, agent):
        return Discrete(2)

    def observe(self, agent):
        return self.possible_agents.index(agent)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.bids, self.agent_selection = {}, self.agents[0]
        self.rewards = self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.bids[agent] = action
        self.rewards = dict.fromkeys(self.agents, 0.0)
        left = [other for other in self.agents if other not in self.bids]
        if left:
            self.agent_selection = left[0]
            return
        for number, other in enumerate(self.agents):
            self.rewards[other] = (number + 1.0) * self.bids[other]
        self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[0]


def env_of(agents):
    return adapt(Round(agents), EnvFacts(EnvironmentConfig(env_id="python:tests:round"), turn_based=True))


@pytest.mark.parametrize("storage", ["dense", "hashed"])
@pytest.mark.parametrize("agents", [3, 4])
def test_one_table_learns_for_all_agents(storage, agents):
    env = env_of(agents)
    options = TabularOptions(table_engine="list", epsilon=0.5, epsilon_min=0.5, learning_rate=0.5)
    training = MultiAgentTraining(
        env, dict.fromkeys(env.possible_agents, "table"), TableSetup("q_learning", options, storage), 1
    )
    training.advance(200 * agents)
    assert training.episodes == 200
    values = training.learners["table"].values[:agents]
    assert np.allclose(values[:, 0], 0.0)
    assert np.allclose(values[:, 1], np.arange(1, agents + 1))  # agent k is paid k + 1, though others act last
    training.read_statistics()
    assert 0 < training.table_returns["table"] < agents


def test_a_table_each():
    env = env_of(3)
    options = TabularOptions(table_engine="list", epsilon=0.5, epsilon_min=0.5, learning_rate=0.5)
    training = MultiAgentTraining(env, {agent: agent for agent in "xyz"}, TableSetup("monte_carlo", options), 1)
    training.advance(600)
    for number, agent in enumerate("xyz"):
        assert training.learners[agent].values[number, 1] == pytest.approx(number + 1.0, abs=1e-3)
        assert training.learners[agent].visits.sum() == 200
    training.read_statistics()
    returns = training.table_returns
    assert returns["x"] < returns["y"] < returns["z"]


def test_a_run_of_three_agents_is_accepted():
    config = {"environment": {"env_id": f"python:{__name__}:Round"}, "training": {"worker": "tabular"}}
    assert resolve(RunConfig.model_validate({**config, "policy_configuration": "self_play"}))
    assert resolve(RunConfig.model_validate({**config, "policy_configuration": "independent"}))
