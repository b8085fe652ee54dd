"""Compiled kernel of PettingZoo's connect four, for many games at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.board_games import connect_four_bits as bits_of
from mosaic.envs.compiled.board_games.connect_four import COLUMNS, ROWS, drop_stone, open_columns
from mosaic.envs.compiled.board_games.connect_four_bits import BOARD, COLUMN
from mosaic.envs.compiled.vector import (
    BEGIN,
    CFUNC,
    FEATURES,
    OUTLOOK,
    STEP,
    UNKNOWN,
    Bytes,
    CompiledKernel,
    Features,
    Floats,
    Ints,
    Rows,
    SearchRules,
    Symmetry,
    Words,
)
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_MINE, _TAKEN, _MOVER = 0, 1, 2  # in `ints`: the mover's stones, all stones, index of the mover
_PICTURE_OPTIONS = {"render_mode", "screen_scaling"}
_CELLS = ROWS * COLUMNS
# Bit index of each cell, in the order of an observation: from the top row down.
_BITS = np.array([column * (ROWS + 1) + ROWS - 1 - row for row in range(ROWS) for column in range(COLUMNS)], np.uint64)
_ONE, _TWO, _FOUR, _PITCH = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(ROWS + 1)
_landing_cells = njit(cache=True, nogil=True, error_model="numpy")(bits_of.landing_cells)
_winning_cells = njit(cache=True, nogil=True, error_model="numpy")(bits_of.winning_cells)
_completing_counts = njit(cache=True, nogil=True, error_model="numpy")(bits_of.completing_counts)


def find_connect_four(config: EnvironmentConfig) -> CompiledKernel | None:
    if config.wrappers or config.api_type not in ("auto", "aec") or config.options.keys() - _PICTURE_OPTIONS:
        return None
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=np.zeros(0),
        state_width=0,
        ints_width=3,
        agents=("player_0", "player_1"),
        turn_based=True,
        widths=(2 * _CELLS,) * 2,
        heads=(ActionHead("categorical", (COLUMNS,)),) * 2,
        masked=True,
        load=_load,
        search=SearchRules(_read, (_mirror(),), _outlook, _features()),
    )


def _read(row: Rows, mover: int, state: Floats, ints: Ints) -> None:
    weights = np.int64(1) << _BITS.astype(np.int64)
    mine, theirs = (int(weights[row[plane::2] != 0].sum()) for plane in (0, 1))
    ints[_MINE], ints[_TAKEN], ints[_MOVER] = mine, mine | theirs, mover


def _mirror() -> Symmetry:
    cells = np.arange(_CELLS).reshape(ROWS, COLUMNS)[:, ::-1].ravel()
    return Symmetry(np.stack((2 * cells, 2 * cells + 1), axis=1).ravel(), np.arange(COLUMNS)[::-1].copy())


def _features() -> Features:
    """Return the observation, the fours that each empty cell would complete for either player, and who began."""
    lines = [
        [(row + step * down, column + step * right) for step in range(4)]
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        for row in range(ROWS)
        for column in range(COLUMNS)
        if 0 <= row + 3 * down < ROWS and 0 <= column + 3 * right < COLUMNS
    ]
    seen = 2 * _CELLS
    units = [(np.eye(seen)[column], 0.0, column) for column in range(seen)]
    for player in range(2):
        for line in lines:
            for last in line:
                row = np.zeros((ROWS, COLUMNS, 2))
                for cell in line:
                    row[(*cell, player)] = 1
                row[last] = -1  # taken by either
                units.append((row.ravel(), -2.0, seen + player * _CELLS + last[0] * COLUMNS + last[1]))
    units.append((np.tile((-1.0, 1.0), _CELLS), 0.0, 2 * seen))  # the second player sees one stone more of the first
    weights, biases, features = zip(*units, strict=True)
    return Features(
        np.stack(weights, axis=1).astype(np.float32),
        np.array(biases, np.float32),
        np.array(features, np.int64),
        _write_features,
    )


def _load(env: Env, state: Floats, ints: Ints) -> None:
    raw: Any = env.env.unwrapped  # type: ignore[attr-defined]
    mine, taken, mover = (int(number) for number in ints)
    marks = (2 - mover, mover + 1)  # of the waiting player, of the mover
    bits = _BITS.tolist()
    raw.board = [marks[mine >> bit & 1] if taken >> bit & 1 else 0 for bit in bits]
    while raw.agent_selection != raw.possible_agents[mover]:
        raw.agent_selection = raw._agent_selector.next()


@njit(cache=True, nogil=True, error_model="numpy")
def _show(ints: Ints, obs: Rows, mask: Bytes) -> None:
    for env in range(ints.shape[0]):
        mine, taken = np.uint64(ints[env, _MINE]), np.uint64(ints[env, _TAKEN])
        theirs = mine ^ taken
        for cell in range(_CELLS):  # through int32, because only that is converted to float in vectors of four or more
            obs[env, 2 * cell] = np.int32((mine >> _BITS[cell]) & _ONE)
            obs[env, 2 * cell + 1] = np.int32((theirs >> _BITS[cell]) & _ONE)
        room = open_columns(taken)
        for column in range(COLUMNS):
            mask[env, column] = (room >> column) & 1


@cfunc(STEP, **CFUNC)
def _step(
    facts: Floats,
    state: Floats,
    ints: Ints,
    rng: Words,
    act: Rows,
    obs: Rows,
    mask: Bytes,
    who: Ints,
    rew: Rows,
    term: Bytes,
    trunc: Bytes,
    fin: Rows,
) -> None:
    for env in range(ints.shape[0]):
        mover = ints[env, _MOVER]
        mine, taken, won, over = drop_stone(
            np.uint64(ints[env, _MINE]), np.uint64(ints[env, _TAKEN]), np.int64(act[env, 0])
        )
        rew[2 * env + mover] = 1.0 if won else 0.0
        rew[2 * env + 1 - mover] = -1.0 if won else 0.0
        for agent in range(2):
            term[2 * env + agent] = over
            trunc[2 * env + agent] = 0
        ints[env, _MINE] = 0 if over else np.int64(mine)
        ints[env, _TAKEN] = 0 if over else np.int64(taken)
        ints[env, _MOVER] = 0 if over else 1 - mover
        who[env] = ints[env, _MOVER]
    _show(ints, obs, mask)


@cfunc(OUTLOOK, **CFUNC)
def _outlook(facts: Floats, state: Floats, ints: Ints, outcomes: NDArray[np.int8]) -> None:
    """Find wins in one move or by two threats, losses to a win in the next move, and the draw by the last stone."""
    for env in range(ints.shape[0]):
        mine, taken = np.uint64(ints[env, _MINE]), np.uint64(ints[env, _TAKEN])
        landing = _landing_cells(taken)
        wins, threats = _winning_cells(mine, taken) & landing, _winning_cells(mine ^ taken, taken)
        forced = threats & landing
        for column in range(COLUMNS):
            cell = landing & (COLUMN << (np.uint64(column) * _PITCH))
            outcomes[env, column] = UNKNOWN
            if cell & wins:
                outcomes[env, column] = 1
            elif cell and not wins and (forced & ~cell or (cell << _ONE) & threats):
                outcomes[env, column] = -1
            elif taken | cell == BOARD:
                outcomes[env, column] = 0
            elif cell and not wins:
                cells = _winning_cells(mine | cell, taken | cell)
                next_wins = cells & _landing_cells(taken | cell)  # one of them can be blocked, from below another
                if next_wins & (next_wins - _ONE) or (next_wins << _ONE) & cells:
                    outcomes[env, column] = 1


@cfunc(FEATURES, **CFUNC)
def _write_features(facts: Floats, state: Floats, ints: Ints, rows: Rows) -> None:
    for env in range(ints.shape[0]):
        mine, taken = np.uint64(ints[env, _MINE]), np.uint64(ints[env, _TAKEN])
        theirs = mine ^ taken
        for cell in range(_CELLS):
            rows[env, 2 * cell] = np.int32((mine >> _BITS[cell]) & _ONE)
            rows[env, 2 * cell + 1] = np.int32((theirs >> _BITS[cell]) & _ONE)
        start = 2 * _CELLS
        for stones in (mine, theirs):
            ones, twos, fours, eights = _completing_counts(stones, taken)
            for cell in range(_CELLS):
                bit = _BITS[cell]
                low = ((ones >> bit) & _ONE) + _TWO * ((twos >> bit) & _ONE)
                high = ((fours >> bit) & _ONE) + _TWO * ((eights >> bit) & _ONE)
                rows[env, start + cell] = np.int32(low + _FOUR * high)
            start += _CELLS
        rows[env, start] = np.float32(ints[env, _MOVER])


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    ints[:] = 0
    who[:] = 0
    _show(ints, obs, mask)
