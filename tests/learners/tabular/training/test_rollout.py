"""Training in a Python env is left after any step, resumed there bit for bit, and needs no end of an episode."""

from array import array

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.adapters.user import adapt
from mosaic.envs.env import EnvFacts
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import ALGORITHMS, TabularOptions
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.training.agent_tables import TableSetup
from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
from mosaic.learners.tabular.training.resumable import PlayedTraining

OPTIONS = TabularOptions(epsilon=0.3, epsilon_min=0.05)


class Ring(gymnasium.Env):
    """Five places, noisy moves, a reward at place 0; `ends=0`: it never ends."""

    observation_space, action_space = Discrete(5), Discrete(2)

    def __init__(self, ends=0):
        self.ends = ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = int(self.np_random.integers(5)), 0
        return self.place, {}

    def step(self, action):
        way = action if self.np_random.random() < 0.9 else 1 - action
        self.place, self.count = (self.place + (1 if way else -1)) % 5, self.count + 1
        return self.place, float(self.place == 0), self.count == self.ends, False, {}


class Pair(ParallelEnv):
    """Two agents that act at once, for ever."""

    metadata = {"name": "pair"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent):
        return Discrete(4)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.random = ["a", "b"], np.random.default_rng(seed)
        return self._seen(), {"a": {}, "b": {}}

    def _seen(self):
        return {agent: int(self.random.integers(4)) for agent in self.agents}

    def step(self, actions):
        rewards = {agent: float(action) for agent, action in actions.items()}
        never = dict.fromkeys(self.agents, False)
        return self._seen(), rewards, never, never, {"a": {}, "b": {}}


def own(raw, **facts):
    return adapt(raw, EnvFacts(EnvironmentConfig(env_id="python:tests:env"), **facts))


def played(ends=0, algorithm="q_learning", options=OPTIONS, **facts):
    return PlayedTraining(own(Ring(ends), **facts), algorithm, options, 7)


def pair():
    env = own(Pair())
    return MultiAgentTraining(env, dict.fromkeys(env.possible_agents, "table"), TableSetup("q_learning", OPTIONS), 7)


@pytest.mark.parametrize("make", [played, pair])
def test_an_env_that_never_ends_stops_after_the_steps_asked_for_and_has_figures(make):
    training = make()
    for done in (1, 64, 1000):
        training.advance(done - training.agent_steps)
        assert training.agent_steps in (done, done + 1)  # agents that act at once act together
        statistics = training.read_statistics()
        assert statistics.episodes == training.episodes == 0
        assert statistics.return_mean is None
    assert statistics.td_error_mean > 0.0
    assert training.coverage > 0.5


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("ends", [0, 1, 7])
def test_how_often_training_is_left_changes_nothing(algorithm, ends):
    whole, pieces = played(ends, algorithm), played(ends, algorithm)
    whole.advance(2500)
    for piece in (1, 2, 497, 1000, 1000):
        pieces.advance(piece)
    assert np.array_equal(whole.learner.values, pieces.learner.values)
    assert np.array_equal(whole.learner.visits, pieces.learner.visits)
    assert whole.episodes == pieces.episodes == (2500 // ends if ends else 0)


@pytest.mark.parametrize("algorithm", ["q_learning", "sarsa", "n_step_sarsa"])
@pytest.mark.parametrize("ends", [0, 7])
def test_a_run_resumed_in_mid_episode_equals_an_uninterrupted_one(tmp_path, algorithm, ends):
    whole, first = played(ends, algorithm), played(ends, algorithm)
    whole.advance(3000)
    first.advance(1234)
    first.save(tmp_path)
    resumed = played(ends, algorithm)
    resumed.restore(tmp_path, first.env_steps)
    resumed.advance(3000 - 1234)
    assert np.array_equal(whole.learner.values, resumed.learner.values)
    assert (whole.env_steps, whole.episodes) == (resumed.env_steps, resumed.episodes)
    assert whole.episode_began == resumed.episode_began


def test_agents_that_act_at_once_resume_in_mid_episode(tmp_path):
    whole, first, resumed = pair(), pair(), pair()
    whole.advance(1000)
    first.advance(600)
    first.save(tmp_path)
    resumed.restore(tmp_path, first.env_steps)
    resumed.advance(400)
    assert np.array_equal(whole.learners["table"].values, resumed.learners["table"].values)
    assert resumed.env_steps == whole.env_steps == 500


def test_an_env_that_seeds_do_not_reproduce_begins_a_new_episode_and_says_so(tmp_path, capsys):
    training, resumed = played(reproducible=False), played(reproducible=False)
    training.advance(100)
    training.save(tmp_path)
    resumed.restore(tmp_path, 100)
    assert "does not reproduce the running episode from its seed: starting a new one" in capsys.readouterr().out
    resumed.advance(50)
    assert resumed.env_steps == 150


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("engine", ["fused", "numpy", "list"])
def test_a_rollout_makes_the_decisions_and_updates_of_the_public_methods(algorithm, engine):
    options = TabularOptions(epsilon=0.3, epsilon_min=0.05, table_engine=engine, dtype="float64")
    learner, by_hand = (TabularLearner(5, 2, algorithm, options, 3) for _ in range(2))
    learner.train(own(Ring(ends=7)), episodes=12)
    env = own(Ring(ends=7))
    seeds = iter([child_seed(3, "tabular", "train", 0)])
    for _ in range(12):
        turn = env.reset(next(seeds, None))
        while turn.observations:
            state = turn.observations["agent_0"]
            action = by_hand.select_action(state)
            turn = env.step({"agent_0": action})
            over = not turn.observations
            after = (turn.final_observations if over else turn.observations)["agent_0"]
            by_hand.update(state, action, turn.rewards["agent_0"], after, over)
    assert np.array_equal(learner.values, by_hand.values)
    assert learner.epsilon == by_hand.epsilon


class Faulty(Ring):
    def __init__(self, observation=0, reward=0.0):
        super().__init__(ends=9)
        self.observation, self.reward = observation, reward

    def step(self, action):
        return self.observation, self.reward, False, False, {}


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (Faulty(observation=5), "The state 5 is outside the table, which has states 0..4."),
        (Faulty(observation=1.5), "1.5 is not in Discrete(5): it should be a whole number from 0 to 4"),
        (Faulty(reward=float("nan")), "The reward is nan; it should be a finite number."),
    ],
)
def test_what_an_env_must_not_say_is_refused(env, text):
    learner = TabularLearner(5, 2)
    with pytest.raises(InputError, match=text.replace("(", r"\(").replace(")", r"\)")):
        learner.train(own(env), steps=10)
    assert not learner.visits.any()


class Coins(Ring):
    """Says at the end of each episode how many steps were worth a coin."""

    def __init__(self, metrics=None):
        super().__init__(ends=3)
        self.metrics = metrics

    def step(self, action):
        *step, info = super().step(action)
        metrics = {"coins": 2.0 * self.count} if self.metrics is None else self.metrics
        return *step, {"custom_metrics": metrics} if self.count == self.ends else info


def test_custom_metrics_in_the_info_of_an_env_are_kept_and_reported():
    statistics = TabularLearner(5, 2).train(own(Coins()), episodes=4)
    assert statistics.custom_metrics == {"coins": [6.0] * 4}
    assert statistics.summary()["coins"] == 6.0
    training = PlayedTraining(own(Coins()), "q_learning", OPTIONS, 7)
    training.advance(7)
    assert training.read_statistics().custom_metrics == {"coins": 6.0}
    assert training.read_statistics().custom_metrics == {}
    env = own(Coins())
    seats = MultiAgentTraining(env, dict.fromkeys(env.possible_agents, "table"), TableSetup("q_learning", OPTIONS), 7)
    seats.advance(7)
    seats.read_statistics()
    assert seats.table_metrics == {"table": {"coins": 6.0}}


@pytest.mark.parametrize("metrics", [3, {"coins": "many"}, {"coins": float("nan")}, {1: 2.0}])
def test_custom_metrics_that_are_not_named_numbers_are_refused(metrics):
    with pytest.raises(InputError, match=r'It should be a dict of names and finite numbers, such as {"coins": 3.0}'):
        TabularLearner(5, 2).train(own(Coins(metrics)), episodes=1)


def test_episodes_that_are_added_together_count_as_those_that_are_added_one_by_one():
    rewards, lengths = array("d", [3.0, -1.0, 0.5, 7.25, 2.0]), array("q", [1, 5, 2, 8, 3])
    one_by_one, together = TrainingStatistics(), TrainingStatistics()
    for reward, length in zip(rewards, lengths, strict=True):
        one_by_one.add_episode(reward, length)
    for part in (slice(0, 0), slice(0, 2), slice(2, 5)):
        together.add_episodes(rewards[part], lengths[part])
    summary = together.summary()
    for name, number in one_by_one.summary().items():
        assert summary[name] == pytest.approx(number, nan_ok=True), name
