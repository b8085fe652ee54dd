"""Rock, paper, scissors as payoffs: round by round what PettingZoo plays."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.rock_paper_scissors import rock_paper_scissors

FIRST, SECOND = "player_0", "player_1"


@pytest.mark.parametrize("num_actions", [3, 5, 9])
def test_every_pair_of_actions_against_the_reference(num_actions):
    env = make_env("classic/rps_v2", num_actions=num_actions, max_cycles=num_actions**2)
    game = rock_paper_scissors(num_actions, num_actions**2)
    turn = env.reset(seed=1)
    assert turn.observations == {FIRST: num_actions, SECOND: num_actions}
    for number, (mine, theirs) in enumerate(product(range(num_actions), repeat=2), start=1):
        turn = env.step({FIRST: mine, SECOND: theirs})
        paid = float(game.payoff[mine, theirs])
        assert turn.rewards == {FIRST: paid, SECOND: -paid}
        seen = turn.final_observations if turn.over else turn.observations
        assert seen == {FIRST: theirs, SECOND: mine}
        assert turn.over == (number == game.rounds)
    assert turn.truncated == {FIRST: True, SECOND: True}
    assert turn.terminated == {FIRST: False, SECOND: False}


def test_nobody_has_an_advantage():
    payoff = rock_paper_scissors(7).payoff
    assert (payoff == -payoff.T).all()
    assert (payoff.sum(axis=1) == 0).all()
    assert payoff.dtype == np.float32


def test_paper_beats_rock():
    assert rock_paper_scissors().payoff[1, 0] == 1
    assert rock_paper_scissors().rounds == 15


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_actions": 4}, r"odd and at least 3 \(got 4\)"),
        ({"num_actions": 1}, "got 1"),
        ({"max_cycles": 0}, "got 0"),
    ],
)
def test_what_is_refused(options, text):
    with pytest.raises(InputError, match=text):
        rock_paper_scissors(**options)
