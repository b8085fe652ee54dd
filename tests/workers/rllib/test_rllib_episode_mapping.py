"""Mapping functions while training with RLlib: each episode is played and learned by the policies of its number."""

import pickle

import pytest

from mosaic.learners.episode_mapping import EpisodeMapping
from mosaic.workers.rllib.episode_modules import EpisodeModules
from tests.workers.rllib.rllib_setups import make_setup
from tests.workers.rllib.test_rllib_policies import SHORT, SPREAD, equal, weights_of


class Episode:
    def __init__(self):
        self._custom_data = {}
        self.custom_data = self._custom_data


def in_turns(agent, episode):
    return ("even", "odd")[episode % 2] if agent == "agent_0" else "rest"


def alternating(agent, episode):
    return ("even", "odd")[episode % 2]


def test_episodes_are_numbered_over_all_runners():
    mapping = EpisodeMapping(f"python:{__name__}:in_turns", {"agent_0": ("even", "odd"), "agent_1": ("rest",)})
    found = {}
    for runner in (1, 2, 3):
        modules = pickle.loads(pickle.dumps(EpisodeModules(mapping, first=10)))
        for _ in range(2):
            episode = Episode()
            modules.number(episode, runner, 3)
            found[episode.custom_data["mosaic_episode"]] = modules("agent_0", episode)
    assert sorted(found) == [10, 11, 12, 13, 14, 15]
    assert all(policy == ("even", "odd")[number % 2] for number, policy in found.items())
    assert modules("agent_0", None) == "even"


def train(setup, iterations=1):
    from mosaic.workers.rllib.config.build import configure
    from mosaic.workers.rllib.reporting.episodes import records_of

    algo = configure(setup, EpisodeModules(setup.roles.episodes)).build_algo()
    try:
        before = {name: weights_of(algo, name) for name in setup.modules}
        records = [record for _ in range(iterations) for record in records_of(algo.train())]
        after = {name: weights_of(algo, name) for name in setup.modules}
    finally:
        algo.stop()
    return records, {name: not equal(before[name], after[name]) for name in before}


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.usefixtures("ray")
def test_policies_play_and_learn_in_the_episodes_that_the_function_gives_them(tmp_path):
    own = {"odd": {"lr": 0.01, "network": {"fcnet_hiddens": [7], "use_lstm": True, "lstm_cell_size": 6}}}
    setup = make_setup(tmp_path, SPREAD, agents=f"python:{__name__}:in_turns", env_options=SHORT, policies=own)
    records, learned = train(setup)
    assert learned == {"even": True, "odd": True, "rest": True}
    first = [record["policies"]["agent_0"] for record in records]
    assert first.count("even") == pytest.approx(len(records) / 2, abs=1)
    assert {record["policies"]["agent_1"] for record in records} == {"rest"}


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_a_single_agent_may_have_several_policies(tmp_path):
    setup = make_setup(tmp_path, "gym/CartPole-v1", agents=f"python:{__name__}:alternating")
    records, learned = train(setup, iterations=4)
    assert learned == {"even": True, "odd": True}
    assert {record["policies"]["agent_0"] for record in records} == {"even", "odd"}
