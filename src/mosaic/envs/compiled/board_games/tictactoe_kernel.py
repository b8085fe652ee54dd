"""Compiled kernel of tic-tac-toe (PettingZoo's and Mosaic's own), for many games at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.board_games.tictactoe import CELLS, LINES, IllegalMoves
from mosaic.envs.compiled.vector import (
    BEGIN,
    CFUNC,
    STEP,
    Bytes,
    CompiledKernel,
    Floats,
    Ints,
    Load,
    Rows,
    SearchRules,
    Symmetry,
    Words,
)
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_MINE, _THEIRS, _MOVER = 0, 1, 2  # in `ints`: marks of the mover and of the other as bits, index of the mover
_PICTURE_OPTIONS = {"render_mode", "screen_height"}
_FULL = (1 << CELLS) - 1
_LINES = tuple(sum(1 << cell for cell in line) for line in LINES)
_HAS_LINE = np.array([any(marks & line == line for line in _LINES) for marks in range(_FULL + 1)])


def find_classic_tictactoe(config: EnvironmentConfig) -> CompiledKernel | None:
    return None if config.options.keys() - _PICTURE_OPTIONS else _kernel(config, "masked", _load_classic)


def find_own_tictactoe(config: EnvironmentConfig) -> CompiledKernel | None:
    from mosaic.envs.families.mosaic import TicTacToeOptions, read_options

    return _kernel(config, read_options(config, TicTacToeOptions).illegal, _load_own)


def _kernel(config: EnvironmentConfig, illegal: IllegalMoves, load: Load) -> CompiledKernel | None:
    if config.wrappers or config.api_type not in ("auto", "aec"):
        return None
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=np.zeros(0),
        state_width=0,
        ints_width=3,
        agents=("player_1", "player_2"),
        turn_based=True,
        widths=(2 * CELLS,) * 2,
        heads=(ActionHead("categorical", (CELLS,)),) * 2,
        masked=illegal == "masked",
        load=load,
        search=SearchRules(_read, _symmetries()),
    )


def _read(row: Rows, mover: int, state: Floats, ints: Ints) -> None:
    weights = 1 << np.arange(CELLS)
    ints[_MINE], ints[_THEIRS], ints[_MOVER] = row[::2] @ weights, row[1::2] @ weights, mover


def _symmetries() -> tuple[Symmetry, ...]:
    """Return the rotations and reflections of the board, except for the identity."""
    board = np.arange(CELLS).reshape(3, 3)
    turned = [np.rot90(each, turns).ravel() for each in (board, board.T) for turns in range(4)]
    return tuple(Symmetry(np.stack((2 * cells, 2 * cells + 1), axis=1).ravel(), cells) for cells in turned[1:])


def _load_classic(env: Env, state: Floats, ints: Ints) -> None:
    raw: Any = env.env.unwrapped  # type: ignore[attr-defined]
    mover = int(ints[_MOVER])
    raw.board.squares = _marks(ints, mover + 1, 2 - mover)
    while raw.agent_selection != raw.possible_agents[mover]:
        raw.agent_selection = raw._agent_selector.next()


def _load_own(env: Env, state: Floats, ints: Ints) -> None:
    position = sum(mark * 3**cell for cell, mark in enumerate(_marks(ints, 1, 2)))
    env.load(position, int(ints[_MOVER]))  # type: ignore[attr-defined]


def _marks(ints: Ints, mine: int, theirs: int) -> list[int]:
    """Return the marks by cell, 0 if it is free."""
    first, second = int(ints[_MINE]), int(ints[_THEIRS])
    return [mine * (first >> cell & 1) + theirs * (second >> cell & 1) for cell in range(CELLS)]


@njit(cache=True, nogil=True, error_model="numpy")
def _show(ints: Ints, obs: Rows, mask: Bytes) -> None:
    for env in range(ints.shape[0]):
        mine, theirs = ints[env, _MINE], ints[env, _THEIRS]
        for cell in range(CELLS):
            obs[env, 2 * cell] = (mine >> cell) & 1
            obs[env, 2 * cell + 1] = (theirs >> cell) & 1
        if mask.shape[0] > 0:
            for cell in range(CELLS):
                mask[env, cell] = 1 - (((mine | theirs) >> cell) & 1)


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
        mover, theirs = ints[env, _MOVER], ints[env, _THEIRS]
        taken = ints[env, _MINE] | theirs
        mark = np.int64(1) << np.int64(act[env, 0])
        mine = ints[env, _MINE] | mark
        reward, over = 0.0, mine | theirs == _FULL
        if taken & mark:  # only if nothing is masked
            reward, over = -1.0, True
        elif _HAS_LINE[mine]:
            reward, over = 1.0, True
        rew[2 * env + mover] = reward
        rew[2 * env + 1 - mover] = 0.0 - reward
        for agent in range(2):
            term[2 * env + agent] = over
            trunc[2 * env + agent] = 0
        ints[env, _MINE] = 0 if over else theirs
        ints[env, _THEIRS] = 0 if over else mine
        ints[env, _MOVER] = 0 if over else 1 - mover
        who[env] = ints[env, _MOVER]
    _show(ints, obs, mask)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    ints[:] = 0
    who[:] = 0
    _show(ints, obs, mask)
