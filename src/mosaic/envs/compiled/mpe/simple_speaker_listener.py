"""Compiled kernel of mpe2's simple_speaker_listener: one agent knows the goal and talks, the other moves."""

from __future__ import annotations

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.mpe.observations import write_velocity, write_ways, write_word, write_zeros
from mosaic.envs.compiled.mpe.physics import (
    CYCLES,
    MOVES,
    ParticleWorld,
    count_cycle,
    move_particles,
    name_rows,
    scatter,
)
from mosaic.envs.compiled.mpe.reference import ParticleOptions, fitting_options, load_world
from mosaic.envs.compiled.random import next_below
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_GOAL, _WORD = 1, 2  # in `ints`: index of the landmark, and the last word (-1: none yet)
_SPEAKER, _LISTENER, _AGENTS, _LANDMARKS, _WORDS = 0, 1, 2, 3, 3
_DARK, _BRIGHT = 0.15, 0.65  # landmark k has colour k


def find_simple_speaker_listener(config: EnvironmentConfig) -> CompiledKernel | None:
    options = fitting_options(config, ParticleOptions)
    if options is None:
        return None
    sizes = [0.075] * _AGENTS + [0.04] * _LANDMARKS
    world = ParticleWorld(agents=_AGENTS, sizes=sizes, max_cycles=options.max_cycles, accel=[0.0, 5.0])
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=world.facts,
        state_width=world.state_width,
        ints_width=3,
        agents=("speaker_0", "listener_0"),
        widths=(_LANDMARKS, 2 + 2 * _LANDMARKS + _WORDS),
        heads=(ActionHead("categorical", (_WORDS,)), ActionHead("categorical", (MOVES,))),
        load=_load,
    )


def _load(env: Env, state: Floats, ints: Ints) -> None:
    load_world(env, state, ints, goals=[int(ints[_GOAL])], words=[int(ints[_WORD])])


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_episode(facts: Floats, state: Floats, ints: Ints, env: int, rng: Words) -> None:
    ints[env, CYCLES], ints[env, _WORD] = 0, -1
    ints[env, _GOAL] = next_below(rng, env, _LANDMARKS)
    scatter(facts, state, env, rng, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, state: Floats, ints: Ints, env: int, out: Rows) -> None:
    told, heard = env * _AGENTS + _SPEAKER, env * _AGENTS + _LISTENER
    for colour in range(_LANDMARKS):
        out[told, colour] = _BRIGHT if colour == ints[env, _GOAL] else _DARK
    write_zeros(told, _LANDMARKS, out)
    column = write_velocity(facts, state, env, _LISTENER, heard, 0, out)
    column = write_ways(state, env, _LISTENER, _AGENTS, _AGENTS + _LANDMARKS, heard, column, out)
    column = write_word(ints[env, _WORD], _WORDS, heard, column, out)
    write_zeros(heard, column, out)


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
    force = np.empty(2 * _AGENTS)
    for env in range(state.shape[0]):
        ints[env, _WORD] = int(act[env * _AGENTS + _SPEAKER, 0])
        move_particles(facts, state, env, act, force)  # the speaker's acceleration is 0
        goal = 2 * (_AGENTS + ints[env, _GOAL])
        dx = state[env, 2 * _LISTENER] - state[env, goal]
        dy = state[env, 2 * _LISTENER + 1] - state[env, goal + 1]
        for a in range(_AGENTS):
            rew[env * _AGENTS + a] = -(dx * dx + dy * dy)
        if count_cycle(facts, ints, env, term, trunc):
            _show(facts, state, ints, env, fin)
            _begin_episode(facts, state, ints, env, rng)
        _show(facts, state, ints, env, obs)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    name_rows(facts, who)
    for env in range(state.shape[0]):
        _begin_episode(facts, state, ints, env, rng)
        _show(facts, state, ints, env, obs)
