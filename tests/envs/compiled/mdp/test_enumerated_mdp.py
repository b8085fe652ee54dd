"""Any small model, given as a function, as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.envs.compiled.mdp.mdp import enumerate_mdp, probabilities


def chain(length, slip=0.0):
    """Left, right on a line; the right end pays 1 and ends."""

    def step(state, action):
        ahead = max(0, state + (1 if action else -1))
        end = ahead == length
        outcomes = [(1 - slip, ahead, float(end), end)]
        return [*outcomes, (slip, state, 0.0, False)] if slip else outcomes

    return step


@given(st.integers(1, 30), st.floats(0.01, 0.9))
def test_a_chain(length, slip):
    mdp, index = enumerate_mdp([0], chain(length, slip), 2, time_limit=9)
    assert sorted(index) == list(range(length + 1))
    assert mdp.next_state.shape == (length + 1, 2, 2)
    assert mdp.time_limit == 9
    for state in range(length):
        assert mdp.next_state[index[state], 1].tolist() == [index[state + 1], index[state]]
        np.testing.assert_allclose(probabilities(mdp.threshold)[index[state], 1], [1 - slip, slip], atol=1e-15)
        assert mdp.terminated[index[state], 1, 0] == mdp.reward[index[state], 1, 0] == (state + 1 == length)


def test_states_where_episodes_end_are_never_asked():
    asked = []

    def step(state, action):
        asked.append(state)
        return chain(2)(state, action)

    enumerate_mdp([0], step, 2)
    assert 2 not in asked


def test_a_state_that_ends_one_way_and_goes_on_another():
    model = {("a", 0): [(1.0, "b", 1.0, True)], ("a", 1): [(1.0, "c", 0.0, False)], ("c", 0): [(1.0, "b", 0.0, False)]}
    mdp, index = enumerate_mdp(["a"], lambda s, a: model.get((s, a), [(1.0, "a", -1.0, False)]), 2)
    assert mdp.terminated[index["a"], 0, 0] == 1
    assert mdp.terminated[index["c"], 0, 0] == 0
    assert mdp.reward[index["b"]].tolist() == [[-1.0], [-1.0]]


def test_start_probabilities_and_legal_actions():
    mdp, index = enumerate_mdp(
        {"a": 0.25, "b": 0.75}, lambda s, a: [(1.0, s, 0.0, True)], 2, legal=lambda s: [s == "a", True]
    )
    assert probabilities(mdp.start_threshold).tolist() == [0.25, 0.75]
    assert mdp.legal[index["b"]].tolist() == [0, 1]


def test_frozen_lake_again():
    reference = compile_mdp(make_env("gym/FrozenLake-v1"))
    table = make_env("gym/FrozenLake-v1").env.unwrapped.P
    mdp, index = enumerate_mdp([0], lambda s, a: table[s][a], 4, time_limit=100)
    order = [index[state] for state in range(16)]
    back = np.argsort(order)
    going = [state for state in range(16) if state not in (5, 7, 11, 12, 15)]
    assert (back[mdp.next_state[order]] == reference.next_state)[going].all()
    for ours, theirs in ((mdp.threshold, reference.threshold), (mdp.reward, reference.reward)):
        assert (ours[order] == theirs)[going].all()


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (([], chain(3), 2), {}, "has no start state"),
        (
            ([0], chain(10**9), 2),
            {"memory_limit": 50_000},
            r"explored so far has 1,137 states .*bytes.*hashed",
        ),
        (([0], chain(3), 2), {"legal": lambda s: [s < 2, s < 2]}, "no action is legal in state 2, yet no episode ends"),
        (([0], lambda s, a: [(0.4, 0, 0.0, True)], 1), {}, "must sum to 1"),
        (([0], lambda s, a: [(1.0, 0, float("nan"), True)], 1), {}, "has the reward nan"),
    ],
)
def test_models_that_are_refused(arguments, options, text):
    with pytest.raises(InputError, match=text):
        enumerate_mdp(*arguments, **options)
