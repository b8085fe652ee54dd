"""Mapping functions while training with RLlib: each episode is played and learned by the policies of its number."""

import pickle
from typing import ClassVar

import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback

from mosaic.learners.episode_mapping import EpisodeMapping
from mosaic.workers.rllib.episode_modules import EpisodeModules, RunnerEpisodes
from tests.workers.rllib.rllib_setups import make_setup
from tests.workers.rllib.test_rllib_policies import SHORT, SPREAD, equal, weights_of


class Episode:
    def __init__(self):
        self._custom_data = {}
        self.custom_data = self._custom_data


def in_turns(agent, episode):
    return ("even", "odd")[episode % 2] if agent == "agent_0" else "rest"


def pairs(agent, episode):
    """Let `even` meet `random`, and `odd` meet `minimax`."""
    return (("even", "random"), ("odd", "minimax"))[episode % 2][agent == "player_2"]


def opponents(agent, episode):
    return ("random", "minimax")[episode % 2] if agent == "player_2" else "mine"


def alternating(agent, episode):
    return ("even", "odd")[episode % 2]


def test_episodes_are_numbered_over_all_runners():
    mapping = EpisodeMapping(f"python:{__name__}:in_turns", {"agent_0": ("even", "odd"), "agent_1": ("rest",)})
    found = {}
    for runner in (1, 2, 3):
        modules, numbers = pickle.loads(pickle.dumps((EpisodeModules(mapping), RunnerEpisodes(first=10))))
        for _ in range(2):
            episode = Episode()
            number = numbers.number(episode, runner, 3)
            found[number] = modules("agent_0", episode)
    assert sorted(found) == [10, 11, 12, 13, 14, 15]
    assert all(policy == ("even", "odd")[number % 2] for number, policy in found.items())
    assert modules("agent_0", None) == "even"


def train(setup, iterations=1):
    from mosaic.workers.rllib.config.build import configure
    from mosaic.workers.rllib.reporting.episodes import records_of

    algo = configure(setup).build_algo()
    try:
        before = {name: weights_of(algo, module) for name, module in setup.modules.items()}
        records = [record for _ in range(iterations) for record in records_of(algo.train())]
        after = {name: weights_of(algo, module) for name, module in setup.modules.items()}
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


class Watch(RLlibCallback):
    """Record the number of each episode, who learns in it, and who plays the other agent."""

    met: ClassVar[list[tuple[int, str, str]]] = []

    def on_episode_step(self, *, episode, env, env_index, **also):
        others = env.envs[env_index].unwrapped.view._view.others
        learner = episode.module_for("player_1") if hasattr(episode, "module_for") else "mine"
        self.met.append((episode.custom_data["mosaic_episode"], learner, others._policies_of(0)["player_2"]))


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(("function", "learners"), [("pairs", ("even", "odd")), ("opponents", ("mine", "mine"))])
def test_fixed_policies_inside_the_env_change_with_the_episodes(tmp_path, function, learners):
    params = {"callbacks": [f"python:{__name__}:Watch"]}
    setup = make_setup(tmp_path, "classic/tictactoe_v3", agents=f"python:{__name__}:{function}", params=params)
    Watch.met.clear()
    records, learned = train(setup)
    numbers = [number for number, *_ in Watch.met]
    assert len(set(numbers)) >= len(records) > 10
    assert set(Watch.met) == {(n, learners[n % 2], ("random", "minimax")[n % 2]) for n in numbers}
    assert all(learned.values())


def test_an_env_plays_the_fixed_policies_of_the_episode_that_it_is_told(tmp_path):
    from mosaic.workers.rllib.env.env import make_rllib_env

    setup = make_setup(tmp_path, "classic/tictactoe_v3", agents=f"python:{__name__}:opponents")
    env = make_rllib_env(pickle.loads(pickle.dumps(setup.env_config)))
    found = []
    for number in (4, 7, 8):
        env.number_next(number)
        env.reset(seed=number)
        found.append(env.view._view.others._policies_of(0))
    env.close()
    assert found == [{"player_2": "random"}, {"player_2": "minimax"}, {"player_2": "random"}]
