"""Our Envs, seen as PettingZoo envs, pass PettingZoo's own tests."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import api_test, parallel_api_test, seed_test

from mosaic.core.errors import InputError, MosaicError
from mosaic.envs.adapters.to_pettingzoo import AsAEC, AsParallel, as_pettingzoo
from mosaic.envs.catalog import make_env
from mosaic.testing.toys import Alternating, Fading
from tests.envs.env_cases import IDS, steps_for

pytestmark = [  # opinions of PettingZoo's tests about envs that are as they are
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array"),
    pytest.mark.filterwarnings("ignore:Observation numpy array is all zeros"),
    pytest.mark.filterwarnings("ignore:Observation space for each agent probably should be"),
    pytest.mark.filterwarnings("ignore:Agent's m(in|ax)imum observation space value is"),
    pytest.mark.filterwarnings("ignore:Observations are different shapes"),
    pytest.mark.filterwarnings("ignore:Agents have different observation space sizes"),
    pytest.mark.filterwarnings("ignore:We recommend agents to be named"),
]


@pytest.mark.parametrize("env_id", IDS)
def test_the_catalog_passes_pettingzoos_tests(env_id, capsys):
    if env_id == "gym/Blackjack-v1":
        pytest.skip("api_test asks every observation for its dtype; Blackjack's is a tuple")
    cycles = steps_for(env_id, 5, 40)
    for test, view in ((api_test, AsAEC), (parallel_api_test, AsParallel)):
        env = view(make_env(env_id))
        test(env, cycles)
        env.close()
    seed_test(lambda: AsAEC(make_env(env_id)), cycles)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize("toy", [Alternating, Fading])
def test_the_toys_pass_too(toy, capsys):
    api_test(AsAEC(toy()), 20)
    parallel_api_test(AsParallel(toy()), 20)
    assert "Passed" in capsys.readouterr().out


def test_rewards_come_when_last_is_asked():
    env = AsAEC(Alternating())
    env.reset(seed=0)
    told = []
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        told.append((agent, reward, terminated))
        env.step(None if terminated or truncated else 0)
    assert told == [("x", 0, False), ("o", 1, False), ("x", 2, False), ("o", 3, False), ("x", -5, True), ("o", 1, True)]


def test_agents_are_born_and_end_apart():
    env = AsParallel(Fading())
    observations, _ = env.reset(seed=0)
    assert observations.keys() == {"a", "b"} == {*env.agents}
    lives = []
    while env.agents:
        _, _, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, 0))
        lives.append(
            (list(env.agents), [a for a in terminated if terminated[a]], [a for a in truncated if truncated[a]])
        )
    assert lives == [(["a", "b", "c"], [], []), (["b", "c"], ["a"], []), (["b", "c"], [], []), ([], ["c"], ["b"])]


def test_who_waits_sees_its_last_view_with_nothing_legal():
    env = AsParallel(make_env("classic/tictactoe_v3"))
    observations, _ = env.reset(seed=0)
    assert observations["player_1"]["action_mask"].tolist() == [1] * 9
    assert observations["player_2"]["action_mask"].tolist() == [0] * 9
    assert not observations["player_2"]["observation"].any()
    observations, *_ = env.step({"player_1": 4, "player_2": 4})  # the answer of the one who waits is ignored
    assert observations["player_1"]["action_mask"].tolist() == [0] * 9
    assert observations["player_2"]["action_mask"].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert observations["player_2"]["observation"][1, 1].tolist() == [0, 1]


def test_an_answer_must_come_from_everybody_who_is_asked():
    env = AsParallel(Fading())
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"Actions for \['a'\], but \['a', 'b'\] must act"):
        env.step({"a": 0})


def test_names_and_masks_can_be_given():
    env = AsAEC(make_env("classic/connect_four_v3"))
    assert env.metadata["name"] == "connect_four_v3"
    assert not env.metadata["is_parallelizable"]
    assert isinstance(env.observation_space("player_0"), spaces.Dict)
    plain = AsParallel(Fading(), "fading_v0", masked=True)
    assert plain.metadata["name"] == "fading_v0"
    observations, _ = plain.reset(seed=1)
    assert observations["a"]["action_mask"].tolist() == [1, 1, 1]
    assert observations["a"]["observation"] == 10
    assert observations["a"]["observation"].dtype == np.int64


def test_a_mask_is_never_lost_silently():
    env = AsAEC(make_env("classic/tictactoe_v3"), masked=False)
    with pytest.raises(MosaicError, match=r"restricts the actions of 'player_1'.*pass masked=True"):
        env.reset(seed=0)


def test_the_api_follows_from_the_env_unless_it_is_asked_for():
    assert isinstance(as_pettingzoo(Alternating()), AsAEC)
    assert isinstance(as_pettingzoo(Fading()), AsParallel)
    assert isinstance(as_pettingzoo(Fading, "aec"), AsAEC)
    assert isinstance(as_pettingzoo("gym/CartPole-v1"), AsParallel)
    with pytest.raises(InputError, match=r"no PettingZoo API named 'paralel'\. Did you mean 'parallel'"):
        as_pettingzoo(Fading(), "paralel")
