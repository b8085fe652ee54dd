"""Blackjack as arrays: the reference's own code walked through every draw, and a large sample of it."""

from __future__ import annotations

from collections import Counter

import gymnasium
import numpy as np
import pytest

from mosaic.envs.compiled.mdp.blackjack import OBSERVATIONS, Hand, blackjack_mdp, dealer_totals, state_of
from mosaic.envs.compiled.mdp.mdp import probabilities

STEPS = 60_000


class Script:
    """Stands for the generator: hands out given cards, then asks for more."""

    def __init__(self, cards):
        self.cards = list(cards)

    def choice(self, deck):
        if not self.cards:
            raise LookupError
        return self.cards.pop(0)


def every_way(play, cards=(), probability=1.0):
    """Yields what `play(script)` answers for every sequence of cards it draws, with its probability."""
    try:
        yield probability, play(Script(cards))
    except LookupError:
        for card in range(1, 11):
            share = probability * (4 if card == 10 else 1) / 13
            yield from every_way(play, (*cards, card), share)


def observe(observation):
    total, card, usable = observation
    return state_of(Hand(total, usable), card)


@pytest.mark.parametrize(("natural", "sab"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("player", "card", "action"),
    [
        ([10, 10], 7, 0),
        ([1, 10], 1, 0),
        ([1, 10], 10, 0),
        ([1, 10], 5, 0),
        ([1, 4, 6], 10, 0),
        ([9, 3], 10, 0),
        ([1, 10], 3, 1),
        ([9, 3], 2, 1),
        ([1, 1], 6, 1),
        ([5, 5], 9, 1),
        ([1, 4, 6], 1, 1),
    ],
)
def test_exactly_as_the_reference(natural, sab, player, card, action):
    mdp = blackjack_mdp(natural=natural, sab=sab)
    raw = gymnasium.make("Blackjack-v1", natural=natural, sab=sab).unwrapped

    def play(script):
        # the hidden card is drawn first: the dealer's hand is not looked at before
        raw.player = list(player)
        raw.dealer = [card, script.choice(None)] if action == 0 else [card, 2]
        raw._np_random = script
        observation, reward, terminated, _, _ = raw.step(action)
        return observe(observation), reward, terminated

    theirs = Counter()
    for probability, outcome in every_way(play):
        theirs[outcome] += probability
    points = sum(player)
    usable = int(1 in player and points <= 11)
    state = state_of(Hand(points + 10 * usable, usable), card)
    if (natural or sab) and player == [1, 4, 6]:  # a 21 with a usable ace that is no natural
        state = OBSERVATIONS + card
    ours = Counter()
    for k, share in enumerate(probabilities(mdp.threshold)[state, action]):
        if share:
            following = int(mdp.next_state[state, action, k])
            following = state_of(Hand(21, 1), card) if following >= OBSERVATIONS else following
            ours[following, mdp.reward[state, action, k], bool(mdp.terminated[state, action, k])] += share
    assert ours.keys() == theirs.keys()
    for outcome, share in ours.items():
        assert share == pytest.approx(theirs[outcome], abs=1e-12)


def test_a_large_sample_of_random_play():
    env = gymnasium.make("Blackjack-v1")
    mdp = blackjack_mdp(natural=env.unwrapped.natural, sab=env.unwrapped.sab)
    assert mdp.legal.shape == (715, 2)  # as it is registered, naturals count
    chance = np.random.default_rng(6)
    seen, tried, starts = Counter(), Counter(), Counter()
    state = observe(env.reset(seed=4)[0])
    starts[state] += 1
    for action in chance.integers(2, size=STEPS).tolist():
        observation, reward, terminated, truncated, _ = env.step(action)
        following = observe(observation)
        if (action, observation[0], observation[2]) == (1, 21, 1) or (action == 0 and state >= OBSERVATIONS):
            following = OBSERVATIONS + observation[1]
        seen[state, action, following, reward, terminated] += 1
        tried[state, action] += 1
        assert not truncated
        state = following
        if terminated:
            state = observe(env.reset()[0])
            starts[state] += 1
    expected = Counter()
    shares = probabilities(mdp.threshold)
    for state, action in tried:
        for k in np.flatnonzero(shares[state, action]):
            outcome = (
                mdp.next_state[state, action, k],
                mdp.reward[state, action, k],
                bool(mdp.terminated[state, action, k]),
            )
            expected[(state, action, *outcome)] += shares[state, action, k]
    assert seen.keys() <= expected.keys()
    compared = sum(agrees(seen[key], tried[key[:2]], share) for key, share in expected.items())
    begin = dict(zip(mdp.start_state.tolist(), probabilities(mdp.start_threshold), strict=True))
    assert starts.keys() <= begin.keys()
    compared += sum(agrees(starts[state], starts.total(), share) for state, share in begin.items())
    assert compared > 1_000


def agrees(count, trials, share):
    """Within five sigma, where there is enough to compare; the extra 1 is for the corners of small counts."""
    spread = (trials * share * (1 - share)) ** 0.5
    assert abs(count - trials * share) <= 5 * spread + 1
    return trials * share >= 5


def test_the_dealer_always_ends():
    for card in range(1, 11):
        totals = dealer_totals(card)
        assert sum(totals.values()) == 1
        assert set(totals) <= set(range(17, 27))


@pytest.mark.parametrize(("natural", "sab"), [(False, False), (True, False), (False, True)])
def test_with_any_21_it_is_best_to_stick(natural, sab):
    """So a 21 with a usable ace may be taken for a natural."""
    mdp = blackjack_mdp(natural=natural, sab=sab)
    shares, worth = probabilities(mdp.threshold), np.zeros(len(mdp.legal))
    for _ in range(30):
        values = (shares * (mdp.reward + (1 - mdp.terminated) * worth[mdp.next_state])).sum(axis=2)
        worth = values.max(axis=1)
    for card in range(1, 11):
        states = [state_of(Hand(21, usable), card) for usable in (0, 1)]
        states += [OBSERVATIONS + card] if natural or sab else []
        assert (values[states, 0] > values[states, 1]).all()


def test_sizes():
    assert blackjack_mdp().legal.shape == (704, 2)
    assert blackjack_mdp(natural=True).legal.shape == (715, 2)
