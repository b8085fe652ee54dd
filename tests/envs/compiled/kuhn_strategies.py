"""Strategies of Kuhn poker, read from what a policy does in every position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn
from mosaic.envs.compiled.board_games.kuhn_poker import (
    AGENTS,
    BET_MADE,
    CARDS,
    CHECK_BET,
    MOVER,
    PASSED,
    POSITIONS,
    START,
    KuhnPokerEnv,
)


def strategy_of(chance: Callable[[AgentID, Sequence[Turn]], float], *, remember_card: bool) -> NDArray[np.float64]:
    """Return the strategies of a policy; `chance` gives its probability of a bet after the turns it has seen."""
    env, bets = KuhnPokerEnv(remember_card=remember_card), np.zeros((POSITIONS, len(CARDS)))

    def seen(player: int, card: int, *positions: int) -> list[Turn]:
        other = (card + 1) % len(CARDS)  # hidden
        turns = []
        for position in positions:
            env.load((card, other) if player == 0 else (other, card), position)
            turns.append(env.turn())
        return turns

    for card in range(len(CARDS)):
        for positions in ((START,), (START, CHECK_BET), (PASSED,), (BET_MADE,)):
            player = MOVER[positions[-1]]
            bets[positions[-1], card] = chance(AGENTS[player], seen(player, card, *positions))
    return bets
