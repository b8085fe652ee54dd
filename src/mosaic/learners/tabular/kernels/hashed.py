"""Compiled training loops over games whose positions are rows of a hashed table.

The decisions, updates and records are those of loops.py. numba's cache does not notice a change in an imported file:
after changing what is imported here, touch this file too.
"""

from __future__ import annotations

import numpy as np

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.board_games.connect_four import COLUMNS, drop_stone, key_of, open_columns, position_of_key
from mosaic.learners.tabular.hashed.table import find_or_add
from mosaic.learners.tabular.kernels.loops import (
    CHANCES,
    DECISIONS,
    EPISODES,
    EPSILON,
    NOWHERE,
    STATE,
    STEP_IN_EPISODE,
    STEPS,
    TD_ERRORS,
    Moves,
    best,
    choose,
    end,
    learn,
    list_moves,
    store,
)

ROWS_OF_A_MOVE = 2  # a move may add the start and the position after it
_ZERO = np.uint64(0)


def connect_four_moves() -> Moves:
    """Return the open columns as lists, by the number that `open_columns` gives."""
    columns = np.arange(COLUMNS)
    legal = (np.arange(1 << COLUMNS)[:, None] >> columns) & 1
    return list_moves(legal.astype(np.uint8))


@njit(cache=True, nogil=True, error_model="numpy")
def train_connect_four(rows, most_filled, moves, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Play `steps` more moves of self-play, until `episodes` have ended (0: no limit), or until the table is full.

    Both players learn in one table, each position seen by its mover. `progress.counts[STATE]` is the key of the running
    game's position.
    """
    keys, q, visits, filled = rows
    counts, sums, stream = progress.counts, progress.sums, progress.decisions
    length, decisions = counts[STEP_IN_EPISODE], np.uint64(counts[DECISIONS])
    epsilon, errors, updates = sums[EPSILON], sums[TD_ERRORS], 0
    mine, taken, row = _ZERO, _ZERO, np.int64(NOWHERE)
    if counts[STATE] != NOWHERE:
        mine, taken = position_of_key(np.uint64(counts[STATE]))
        row = find_or_add(keys, filled, np.uint64(counts[STATE]))
    while (
        updates < steps
        and not (episodes > 0 and counts[EPISODES] >= episodes)
        and filled[0] + ROWS_OF_A_MOVE <= most_filled
    ):
        if row == NOWHERE:
            mine, taken = _ZERO, _ZERO
            row = find_or_add(keys, filled, key_of(mine, taken))
        action = choose(q, row, moves, open_columns(taken), epsilon, stream, decisions)
        decisions += np.uint64(2)
        mine, taken, won, over = drop_stone(mine, taken, action)
        updates += 1
        length += 1
        reward, after = 1.0 if won else 0.0, np.int64(NOWHERE)
        target = reward
        if not over:
            after = find_or_add(keys, filled, key_of(mine, taken))
            target = reward - knobs.discount_factor * best(q, after, moves, open_columns(taken))
        errors += learn(q, visits, row, action, target, knobs)
        row = after
        if over:
            first_player = reward if length % 2 == 1 else -reward
            counts[EPISODES] += 1
            epsilon = end(sums, first_player, length, knobs, counts[EPISODES])
            length = np.int64(0)
    counts[STEPS] += updates
    state = np.int64(NOWHERE) if row == NOWHERE else np.int64(key_of(mine, taken))
    chances = np.uint64(counts[CHANCES])
    store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), 0.0, errors, updates)
