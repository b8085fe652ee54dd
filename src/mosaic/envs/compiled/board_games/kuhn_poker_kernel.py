"""Compiled kernel of Kuhn poker, for many games at once."""

from __future__ import annotations

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.board_games.kuhn_poker import (
    AGENTS,
    BET,
    CARDS,
    CHECK_BET,
    MOVER,
    NEXT,
    OVER,
    PASSED,
    STAKE,
    START,
    WIDTH,
)
from mosaic.envs.compiled.random import next_below
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_FIRST, _SECOND, _POSITION = 0, 1, 2  # in `ints`: the cards, and the position of the betting
_CARDS = len(CARDS)
_MOVER, _NEXT, _STAKE = np.array(MOVER), np.array(NEXT), np.array(STAKE, np.float32)


def find_kuhn_poker(config: EnvironmentConfig) -> CompiledKernel | None:
    from mosaic.envs.families.mosaic import KuhnPokerOptions, read_options

    if config.wrappers or config.api_type not in ("auto", "aec"):
        return None
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=np.array([read_options(config, KuhnPokerOptions).remember_card], np.float64),
        state_width=0,
        ints_width=3,
        agents=AGENTS,
        turn_based=True,
        widths=(WIDTH,) * 2,
        heads=(ActionHead("categorical", (2,)),) * 2,
        load=_load,
    )


def _load(env: Env, state: Floats, ints: Ints) -> None:
    env.load(ints[:_POSITION].tolist(), int(ints[_POSITION]))  # type: ignore[attr-defined]


@njit(cache=True, nogil=True, error_model="numpy")
def _deal(ints: Ints, rng: Words, env: int) -> None:
    first = next_below(rng, env, _CARDS)
    ints[env, _FIRST] = first
    ints[env, _SECOND] = (first + 1 + next_below(rng, env, _CARDS - 1)) % _CARDS
    ints[env, _POSITION] = START


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, ints: Ints, obs: Rows, who: Ints) -> None:
    for env in range(ints.shape[0]):
        position = ints[env, _POSITION]
        who[env] = _MOVER[position]
        for column in range(obs.shape[1]):
            obs[env, column] = 0.0
        if position != CHECK_BET or facts[0] == 0.0:
            obs[env, ints[env, who[env]]] = 1.0
        obs[env, _CARDS + position] = 1.0


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
        position, action = ints[env, _POSITION], np.int64(act[env, 0])
        after = _NEXT[position, action]
        paid = _STAKE[position, action]
        folded = action != BET and position != PASSED
        lost = _MOVER[position] == 0 if folded else ints[env, _FIRST] < ints[env, _SECOND]  # by the first player
        if lost:
            paid = np.float32(0.0) - paid
        rew[2 * env] = paid
        rew[2 * env + 1] = np.float32(0.0) - paid
        for agent in range(2):
            term[2 * env + agent] = after == OVER
            trunc[2 * env + agent] = 0
        if after == OVER:
            _deal(ints, rng, env)
        else:
            ints[env, _POSITION] = after
    _show(facts, ints, obs, who)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(ints.shape[0]):
        _deal(ints, rng, env)
    _show(facts, ints, obs, who)
