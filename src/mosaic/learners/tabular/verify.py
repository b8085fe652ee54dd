"""Exhaustive check whether a table can be beaten."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.compiled.mdp.mdp import GameTables


class Verification(NamedTuple):
    """Result of exhaustive play against a table's best moves; equally good ones are all tried."""

    positions: int  # different ones in which the table had to move
    lost: int  # moves of the table or replies to them that lose the game for it

    @property
    def unbeatable(self) -> bool:
        return self.lost == 0


def prove(game: GameTables, values: NDArray[Any]) -> Verification:
    """Search all lines of play: the table moves first in half of them, and the other side tries everything."""
    legal = game.legal.astype(bool)
    best = np.where(legal, values, -np.inf).max(axis=1, keepdims=True)
    chosen = legal & (values == best)
    first = [game.start]
    second = [int(game.next_state[game.start, a]) for a in np.flatnonzero(legal[game.start])]
    seen: set[int] = set()
    waiting, lost = [*first, *second], 0
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        for action in np.flatnonzero(chosen[state]):
            if game.over[state, action]:
                lost += game.reward[state, action] < 0
                continue
            after = int(game.next_state[state, action])
            for reply in np.flatnonzero(legal[after]):
                if game.over[after, reply]:
                    lost += game.reward[after, reply] > 0
                else:
                    waiting.append(int(game.next_state[after, reply]))
    return Verification(len(seen), int(lost))
