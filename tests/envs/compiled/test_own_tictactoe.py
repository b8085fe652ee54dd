"""Our own tic-tac-toe plays as PettingZoo's."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.turn import digest
from mosaic.envs.catalog import make_env
from mosaic.envs.families.mosaic import family
from mosaic.testing import check_env


def own(**options):
    return family.make(EnvironmentConfig(family="mosaic", env_id="tictactoe", options=options))


@pytest.mark.parametrize("illegal", ["masked", "lost"])
def test_the_env_keeps_the_contract(illegal):
    report = check_env(lambda: own(illegal=illegal))
    assert report.env_id == "mosaic/tictactoe"
    assert report.masked == (illegal == "masked")
    assert (report.turn_based, report.competitive, report.has_chance) == (True, True, False)
    assert report.picture == (240, 240)
    assert report.episodes_ended == 2


def test_it_plays_as_the_reference():
    ours, theirs, random = own(), make_env("classic/tictactoe_v3"), Random(8)
    for _ in range(200):
        mine, their = ours.reset(), theirs.reset()
        while True:
            assert digest(mine) == digest(their)
            assert mine.over == their.over
            if mine.over:
                break
            ((agent, mask),) = mine.action_masks.items()
            action = random.choice(np.flatnonzero(mask).tolist())
            mine, their = ours.step({agent: action}), theirs.step({agent: action})


def test_a_taken_cell_loses():
    env = own(illegal="lost")
    env.reset()
    assert not env.step({"player_1": 4}).action_masks
    turn = env.step({"player_2": 4})
    assert turn.over
    assert turn.rewards == {"player_1": 1.0, "player_2": -1.0}
    assert turn.terminated == {"player_1": True, "player_2": True}
    assert turn.final_observations["player_1"][1, 1].tolist() == [1, 0]
    assert turn.final_observations["player_2"][1, 1].tolist() == [0, 1]
    assert env.agents == ()


@pytest.mark.parametrize("action", [4, 9, -1])
def test_a_cell_that_is_masked_is_refused(action):
    env = own()
    env.reset()
    env.step({"player_1": 4})
    with pytest.raises(ValueError, match=f"The cell {action} is taken or does not exist"):
        env.step({"player_2": action})
    assert env.step({"player_2": 0}).observations["player_1"][0, 0].tolist() == [0, 1]


def test_crosses_and_noughts_stay_what_they_are():
    env = own()
    env.reset()
    env.step({"player_1": 3})  # middle column, top row
    picture = env.render()
    cross = picture[40, 120].tolist()
    assert cross != picture[40, 40].tolist()
    env.step({"player_2": 0})
    picture = env.render()
    assert picture[40, 120].tolist() == cross
    assert picture[40, 17].tolist() not in (cross, picture[40, 40].tolist())


def test_options_are_checked():
    with pytest.raises(InputError, match="mosaic/tictactoe: illegal: it should be 'masked' or 'lost'"):
        own(illegal="ignored")
