"""Gymnasium's Blackjack as an Mdp: an infinite deck, and exact probabilities of the dealer's play."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from gymnasium import Space, spaces

from mosaic.core.turn import Observation
from mosaic.envs.compiled.mdp.mdp import Mdp, Outcome, tabulate

STICK, HIT = 0, 1
TOTALS, CARDS, ACES = 32, 11, 2  # the sizes of the three parts of an observation
OBSERVATIONS = TOTALS * CARDS * ACES
_DECK = {card: Fraction(4 if card == 10 else 1, 13) for card in range(1, 11)}
_BEST, _DEALER_STANDS = 21, 17


class Hand(NamedTuple):
    """Value of a hand: an ace counts 11 as long as possible, and is then called usable."""

    total: int
    usable: int


_SOFT_21 = Hand(_BEST, 1)


def blackjack_mdp(*, natural: bool = False, sab: bool = False) -> Mdp:
    """Return the Mdp; states are the observations, numbered by `state_of`.

    If a natural (ace and ten dealt) pays differently from another 21 with a usable ace, no observation distinguishes
    the two: the observation's number then means the natural, and OBSERVATIONS + the dealer's card the other.
    """
    apart = natural or sab
    size = OBSERVATIONS + (CARDS if apart else 0)
    table: list[list[list[Outcome]]] = [[[(1.0, state, 0.0, True)]] * 2 for state in range(size)]
    for hand, card in product(_player_hands(), range(1, CARDS)):
        state = state_of(hand, card)
        table[state] = [_stick(state, hand, card), _hit(hand, card, apart)]
    if apart:
        for card in range(1, CARDS):
            state, other = state_of(_SOFT_21, card), OBSERVATIONS + card
            table[other] = [_stick(other, _SOFT_21, card), _hit(_SOFT_21, card, apart)]
            table[state][STICK] = _stick_natural(state, card, sab)
    start = [Fraction(0)] * size
    for first, second, card in product(_DECK, repeat=3):
        start[state_of(_dealt(first, second), card)] += _DECK[first] * _DECK[second] * _DECK[card]
    legal = np.ones((size, 2), np.uint8)
    return tabulate(table, [float(p) for p in start], legal, 0, name="Blackjack")


def state_of(hand: Hand, card: int) -> int:
    """Return the number of an observation (total, the dealer's card, usable ace)."""
    return (hand.total * CARDS + card) * ACES + hand.usable


@cache
def dealer_totals(card: int) -> dict[int, Fraction]:
    """Return the probability of each final total of the dealer; above 21 is bust."""
    totals: dict[int, Fraction] = {}
    waiting = [(_with(Hand(0, 0), card), Fraction(1))]
    while waiting:
        hand, probability = waiting.pop()
        if hand.total >= _DEALER_STANDS:
            totals[hand.total] = totals.get(hand.total, Fraction(0)) + probability
        else:
            waiting += [(_with(hand, drawn), probability * p) for drawn, p in _DECK.items()]
    return totals


def _stick(state: int, hand: Hand, card: int) -> list[Outcome]:
    totals = dealer_totals(card).items()
    won = sum((p for total, p in totals if total > _BEST or total < hand.total), Fraction(0))
    drawn = sum((p for total, p in totals if total == hand.total), Fraction(0))
    return _shares(state, {1.0: won, 0.0: drawn, -1.0: 1 - won - drawn})


def _stick_natural(state: int, card: int, sab: bool) -> list[Outcome]:
    """Return the outcomes of sticking with a natural.

    `sab`: only the dealer's natural draws. Otherwise any 21 of the dealer's does, and a win pays 1.5.
    """
    if sab:
        drawn = _DECK[11 - card] if card in (1, 10) else Fraction(0)
        return _shares(state, {1.0: 1 - drawn, 0.0: drawn})
    drawn = dealer_totals(card).get(_BEST, Fraction(0))
    return _shares(state, {1.5: 1 - drawn, 0.0: drawn})


def _shares(state: int, rewards: dict[float, Fraction]) -> list[Outcome]:
    return [(float(p), state, reward, True) for reward, p in rewards.items() if p]


def _hit(hand: Hand, card: int, apart: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for drawn, p in _DECK.items():
        after = _with(hand, drawn)
        bust = after.total > _BEST
        state = OBSERVATIONS + card if apart and after == _SOFT_21 else state_of(after, card)
        outcomes.append((float(p), state, -1.0 if bust else 0.0, bust))
    return outcomes


def _with(hand: Hand, card: int) -> Hand:
    points = hand.total - 10 * hand.usable + card
    ace = hand.usable or card == 1
    return Hand(points + 10, 1) if ace and points + 10 <= _BEST else Hand(points, 0)


def _dealt(first: int, second: int) -> Hand:
    return _with(_with(Hand(0, 0), first), second)


def _player_hands() -> Iterator[Hand]:
    yield from (Hand(total, 0) for total in range(4, _BEST + 1))
    yield from (Hand(total, 1) for total in range(12, _BEST + 1))


def find_encoder(space: Space[object]) -> Callable[[Observation], int] | None:
    return _encode if isinstance(space, spaces.Tuple) else None


def _encode(observation: Observation) -> int:
    """Return the state; a 21 with a usable ace is read as a natural if those pay differently (same best action)."""
    total, card, usable = observation
    return state_of(Hand(int(total), int(usable)), int(card))
