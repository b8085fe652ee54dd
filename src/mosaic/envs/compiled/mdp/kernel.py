"""Compiled kernel of any Mdp: many walks through its table at once, with the observation rows of its reference env."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.blackjack import BlackjackEnv
from gymnasium.spaces import Space

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.core.turn import Observation
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.compiled.mdp.blackjack import ACES, CARDS, OBSERVATIONS
from mosaic.envs.compiled.mdp.mdp import Mdp, MdpEnv
from mosaic.envs.compiled.random import next_uniform
from mosaic.envs.compiled.reference import bare_env
from mosaic.envs.compiled.registry import find_twin
from mosaic.envs.compiled.vector import (
    BEGIN,
    CFUNC,
    STEP,
    Bytes,
    CompiledKernel,
    Floats,
    Ints,
    Rows,
    Words,
)
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead, row_code

_HEADER = 6  # states, actions, outcomes, starts, parts of an observation, time limit
_STATE, _STEPS, _LAST_ACTION = 0, 1, 2  # columns of ints
_NO_ACTION = -1


def find_mdp(config: EnvironmentConfig) -> CompiledKernel | None:
    """Return the kernel, or None if the env has no Mdp, or its observation is not the number of a state."""
    from mosaic.envs.shared_env import env_spec

    twin = find_twin(config)
    if not isinstance(twin, Mdp):
        return None
    return mdp_kernel(twin, env_spec(config).observation_spaces[AGENT])


def mdp_kernel(mdp: Mdp, space: Space[Any]) -> CompiledKernel | None:
    """Return the kernel; `space` is the observation space of the reference env."""
    ones = _places_of_ones(mdp, space)
    if ones is None:
        return None
    _, actions = mdp.legal.shape
    return CompiledKernel(
        _step,
        _begin,
        _packed(mdp, ones),
        state_width=0,
        ints_width=3,
        widths=(row_code(space).width,),
        heads=(ActionHead("categorical", (actions,)),),
        masked=not mdp.legal.all(),
        load=_load,
    )


def _places_of_ones(mdp: Mdp, space: Space[Any]) -> Ints | None:
    """Return the columns that are 1, [state, part]: an observation is one or more one-hot vectors in a row."""
    states = len(mdp.legal)
    if isinstance(space, spaces.Discrete) and space.start == 0 and space.n == states:
        return np.arange(states, dtype=np.int64)[:, None]
    if not isinstance(space, spaces.Tuple) or states not in (OBSERVATIONS, OBSERVATIONS + CARDS):
        return None
    code = row_code(space)
    rows = np.zeros((states, code.width), np.float32)
    for state in range(states):
        code.write(_blackjack_observation(state), rows[state])
    return np.nonzero(rows)[1].reshape(states, len(code.parts))


def _blackjack_observation(state: int) -> Observation:
    """Invert `state_of`; numbers after the last observation are 21 with a usable ace that is not a natural."""
    if state >= OBSERVATIONS:
        return 21, state - OBSERVATIONS, 1
    return state // (CARDS * ACES), state // ACES % CARDS, state % ACES


def _packed(mdp: Mdp, ones: Ints) -> Floats:
    """Concatenate all tables; `_step` and `_begin` locate them by the header."""
    header = (*mdp.threshold.shape, len(mdp.start_state), ones.shape[1], mdp.time_limit)
    tables = (mdp.threshold, mdp.next_state, mdp.reward, mdp.terminated)
    starts = (mdp.start_threshold, mdp.start_state)
    parts = (np.array(header), *tables, *starts, mdp.legal, ones)
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])


def _load(env: Env, state: Floats, ints: Ints) -> None:
    raw, place = bare_env(env)[0], int(ints[_STATE])
    if isinstance(raw, MdpEnv):
        raw._state = place
    elif isinstance(raw, BlackjackEnv):
        total, card, usable = _blackjack_observation(place)
        raw.player, raw.dealer = [1, total - 11] if usable else [total], [card, 10]
        raw.dealer_top_card_value_str = {1: "A", 10: "K"}.get(card, str(card))
    else:
        raw.s = place
        raw.lastaction = None if ints[_LAST_ACTION] == _NO_ACTION else int(ints[_LAST_ACTION])


@njit(cache=True, nogil=True, error_model="numpy")
def _drawn(facts: Floats, place: int, draw: float) -> int:
    """Return how many thresholds from `place` on are at most `draw`; the last is never reached."""
    outcome = 0
    while facts[place + outcome] <= draw:
        outcome += 1
    return outcome


@njit(cache=True, nogil=True, error_model="numpy")
def _start(facts: Floats, ints: Ints, rng: Words, env: int) -> None:
    states, actions, outcomes, starts = int(facts[0]), int(facts[1]), int(facts[2]), int(facts[3])
    thresholds = _HEADER + 4 * states * actions * outcomes
    ints[env, _STATE] = int(facts[thresholds + starts + _drawn(facts, thresholds, next_uniform(rng, env))])
    ints[env, _STEPS], ints[env, _LAST_ACTION] = 0, _NO_ACTION


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, ints: Ints, env: int, out: Rows) -> None:
    states, actions, outcomes, starts, parts = facts[0], facts[1], facts[2], facts[3], int(facts[4])
    ones = _HEADER + int(4 * states * actions * outcomes + 2 * starts + states * actions) + ints[env, _STATE] * parts
    for k in range(out.shape[1]):
        out[env, k] = 0.0
    for part in range(parts):
        out[env, int(facts[ones + part])] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _allow(facts: Floats, ints: Ints, env: int, mask: Bytes) -> None:
    states, actions, outcomes, starts = int(facts[0]), int(facts[1]), int(facts[2]), int(facts[3])
    legal = _HEADER + 4 * states * actions * outcomes + 2 * starts + ints[env, _STATE] * actions
    for action in range(actions):
        mask[env, action] = facts[legal + action]


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(ints.shape[0]):
        _start(facts, ints, rng, env)
        _show(facts, ints, env, obs)
        if mask.shape[0]:
            _allow(facts, ints, env, mask)


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
    actions, outcomes, time_limit = int(facts[1]), int(facts[2]), int(facts[5])
    table = int(facts[0]) * actions * outcomes
    for env in range(ints.shape[0]):
        action = int(act[env, 0])
        row = _HEADER + (ints[env, _STATE] * actions + action) * outcomes
        cell = row + _drawn(facts, row, next_uniform(rng, env))
        ints[env, _STATE], ints[env, _LAST_ACTION] = int(facts[cell + table]), action
        ints[env, _STEPS] += 1
        late = ints[env, _STEPS] == time_limit
        rew[env], term[env], trunc[env] = facts[cell + 2 * table], facts[cell + 3 * table], late
        if term[env] or late:
            _show(facts, ints, env, fin)
            _start(facts, ints, rng, env)
        _show(facts, ints, env, obs)
        if mask.shape[0]:
            _allow(facts, ints, env, mask)
