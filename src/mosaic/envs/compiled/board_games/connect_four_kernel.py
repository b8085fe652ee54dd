"""Compiled kernel of PettingZoo's connect four, for many games at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.board_games.connect_four import COLUMNS, ROWS, drop_stone, open_columns
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_MINE, _TAKEN, _MOVER = 0, 1, 2  # in `ints`: the mover's stones, all stones, index of the mover
_PICTURE_OPTIONS = {"render_mode", "screen_scaling"}
_CELLS = ROWS * COLUMNS
# Bit index of each cell, in the order of an observation: from the top row down.
_BITS = np.array([column * (ROWS + 1) + ROWS - 1 - row for row in range(ROWS) for column in range(COLUMNS)], np.uint64)
_ONE = np.uint64(1)


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


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    ints[:] = 0
    who[:] = 0
    _show(ints, obs, mask)
