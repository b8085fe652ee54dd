"""Kuhn poker: its rules, exact values of strategies, and the kernel game by game against the Env."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.kuhn_poker import (
    AGENTS,
    BET,
    NASH_VALUE,
    PASS,
    exploitability,
    game_value,
)
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.testing import check_env, check_secrecy
from tests.envs.compiled.kuhn_strategies import strategy_of

KUHN = "mosaic/kuhn_poker"
JACK, QUEEN, KING = range(3)
STRATEGIES = arrays(np.float64, (4, 3), elements=st.floats(0, 1))


def equilibrium(alpha: float) -> np.ndarray:
    """One of Kuhn's solutions: the first player bluffs with this probability, at most 1/3."""
    third = 1 / 3
    return np.array([[alpha, 0, 3 * alpha], [third, 0, 1], [0, third, 1], [0, alpha + third, 1]])


@pytest.mark.parametrize("alpha", [0, 0.1, 1 / 3])
def test_kuhns_solutions_cannot_be_exploited(alpha):
    assert game_value(equilibrium(alpha)) == pytest.approx(NASH_VALUE)
    assert exploitability(equilibrium(alpha)) == pytest.approx(0, abs=1e-12)


@given(STRATEGIES)
def test_nobody_gains_less_than_nothing_by_a_best_response(bets):
    assert exploitability(bets) >= -1e-12
    assert -2 <= game_value(bets) <= 2


@pytest.mark.parametrize(
    ("cards", "actions", "paid"),
    [
        ((KING, QUEEN), (PASS, PASS), 1),
        ((JACK, QUEEN), (PASS, PASS), -1),
        ((JACK, KING), (BET, PASS), 1),
        ((JACK, KING), (BET, BET), -2),
        ((KING, JACK), (PASS, BET, PASS), -1),
        ((KING, JACK), (PASS, BET, BET), 2),
    ],
)
def test_the_rules(cards, actions, paid):
    env = make_env(KUHN)
    env.reset(0)
    env.load(cards, 0)
    for number, action in enumerate(actions):
        turn = env.step({AGENTS[number % 2]: action})
    assert turn.over
    assert turn.rewards == {"player_1": paid, "player_2": -paid}


def test_wrong_steps_are_refused():
    env = make_env(KUHN)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step({"player_1": 0})
    env.reset(0)
    with pytest.raises(ValueError, match=r"Actions for \['player_2'\], but \['player_1'\] must act"):
        env.step({"player_2": 0})
    with pytest.raises(ValueError, match="The action 2 does not exist: 0 passes, 1 bets"):
        env.step({"player_1": 2})
    with pytest.raises(InputError, match="Did you mean 'remember_card'"):
        make_env(KUHN, remember_cards=True)


@pytest.mark.parametrize("remember", [False, True])
def test_the_contract_and_what_a_player_sees(remember):
    report = check_env(lambda: make_env(KUHN, remember_card=remember))
    assert report.turn_based
    assert report.picture == (208, 288)
    env = make_env(KUHN, remember_card=remember)
    for cards in permutations(range(3), 2):
        env.reset(0)
        env.load(cards, 0)
        env.step({"player_1": PASS})
        seen = env.step({"player_2": BET}).observations["player_1"]
        own = [0, 0, 0] if remember else np.eye(3)[cards[0]].tolist()
        assert seen.tolist() == [*own, 0, 0, 0, 1]


def test_viewers_are_sent_what_their_agent_may_see():
    assert check_secrecy(KUHN).messages >= 3


@pytest.mark.parametrize("remember", [False, True])
def test_the_kernel_plays_as_the_env_does(remember):
    config = EnvironmentConfig(env_id=KUHN, options={"remember_card": remember})
    vector, envs = make_compiled_vector(config, 40), [make_env(config) for _ in range(40)]
    chance, ended, deals = np.random.default_rng(0), 0, set()
    vector.reset(3)
    for env, row in zip(envs, vector.ints, strict=True):
        env.reset(0)
        env.load(row[:2].tolist(), int(row[2]))
    for _ in range(60):
        act = chance.integers(2, size=(40, 1)).astype(np.float32)
        movers = vector.who.copy()
        vector.step(act)
        for index, env in enumerate(envs):
            turn = env.step({AGENTS[movers[index]]: int(act[index, 0])})
            rows = slice(2 * index, 2 * index + 2)
            assert vector.rew[rows].tolist() == list(turn.rewards.values())
            assert vector.term[rows].tolist() == [turn.over] * 2
            if turn.over:
                ended += 1
                deals.add(tuple(vector.ints[index, :2].tolist()))
                env.reset()
                env.load(vector.ints[index, :2].tolist(), 0)
            else:
                (mover,) = turn.observations
                assert AGENTS[vector.who[index]] == mover
                assert vector.obs[index].tobytes() == turn.observations[mover].tobytes()
    assert ended > 500
    assert deals == set(permutations(range(3), 2))
    picture = vector.render(0)
    assert picture is not None
    assert picture.shape == (208, 288, 3)


def test_deals_are_equally_likely():
    vector = make_compiled_vector(EnvironmentConfig(env_id=KUHN), 6000)
    vector.reset(0)
    counts = [int((vector.ints[:, :2] == deal).all(axis=1).sum()) for deal in permutations(range(3), 2)]
    assert sum(counts) == 6000
    assert min(counts) > 880
    env, seen = make_env(KUHN), {}
    for seed in range(300):
        env.reset(seed)
        seen[env.cards] = seen.get(env.cards, 0) + 1
    assert set(seen) == set(permutations(range(3), 2))
    assert min(seen.values()) > 25


def test_random_play_is_valued_as_it_is_paid():
    """The exact value of even odds equals the mean over all games of equally likely actions."""
    env, paid = make_env(KUHN), []
    for cards, actions in product(permutations(range(3), 2), product((PASS, BET), repeat=3)):
        env.reset(0)
        env.load(cards, 0)
        for action in actions:
            turn = env.step({AGENTS[[0, 1, 1, 0][env.position]]: action})
            if turn.over:
                paid.append(turn.rewards["player_1"])
                break
    assert np.mean(paid) == pytest.approx(game_value(np.full((4, 3), 0.5)))


def test_wrappers_have_no_kernel():
    assert find_kernel(EnvironmentConfig(env_id=KUHN, wrappers=("time_limit:max_steps=3",))) is None


@pytest.mark.parametrize("remember_card", [False, True])
def test_a_strategy_is_read_from_what_a_policy_does_after_what_it_saw(remember_card):
    bets = equilibrium(0.2)

    def chance(agent, turns):
        seen = [turn.observations[agent] for turn in turns]
        assert len(turns) == (2 if seen[-1][3 + 3] else 1)
        assert seen[-1][:3].any() or (remember_card and len(turns) == 2)
        card, position = int(seen[0][:3].argmax()), int(seen[-1][3:].argmax())
        return bets[position, card]

    np.testing.assert_array_equal(strategy_of(chance, remember_card=remember_card), bets)
