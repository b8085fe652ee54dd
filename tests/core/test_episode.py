"""Records and outcomes."""

import math

import pytest

from mosaic.core.episode import Episode, PolicyChange, outcomes


def test_outcomes_compare_returns():
    assert outcomes({"a": 1, "b": -1}) == {"a": "win", "b": "loss"}
    assert outcomes({"a": 0, "b": 0}) == {"a": "draw", "b": "draw"}
    assert outcomes({"a": 0, "b": -1}) == {"a": "win", "b": "loss"}  # b moved illegally
    assert outcomes({"a": 2, "b": 2, "c": -4}) == {"a": "draw", "b": "draw", "c": "loss"}


@pytest.mark.parametrize(("above", "word"), [(0.0, "draw"), (-math.inf, "win")])
def test_a_hand_that_nobody_won_is_a_draw_where_the_game_says_so(above, word):
    assert outcomes({"a": -0.2, "b": -0.5}, above)["a"] == word


def test_every_action_names_its_policy():
    episode = Episode({}, 0, {"a": "random", "b": "minimax"}, [PolicyChange(3, "a", "human")])
    assert [episode.policy_of("a", step) for step in (0, 2, 3, 9)] == ["random", "random", "human", "human"]
    assert episode.policy_of("b", 9) == "minimax"


def test_returns_count_waiting_agents_too():
    episode = Episode({}, 0, {"a": "x", "b": "x"}, rewards=[{"a": 1.0, "b": -1.0}, {"b": 0.5}])
    assert episode.returns == {"a": 1.0, "b": -0.5}
