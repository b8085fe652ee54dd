"""Compiled kernel of mpe2's simple_reference: each agent knows the other's goal, and both talk and move."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.mpe.observations import write_velocity, write_ways, write_word, write_zeros
from mosaic.envs.compiled.mpe.physics import (
    CYCLES,
    LOCAL_RATIO,
    MOVES,
    ParticleWorld,
    count_cycle,
    distance_between,
    move_particles,
    name_rows,
    scatter,
)
from mosaic.envs.compiled.mpe.reference import ParticleOptions, fitting_options, load_world
from mosaic.envs.compiled.random import next_below
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_GOALS, _WORDS = 1, 3  # in `ints`: two each; the goal that an agent knows is the other's, -1 is silence
_AGENTS, _LANDMARKS, _VOCABULARY = 2, 3, 10
_DARK, _BRIGHT = 0.25, 0.75  # landmark k has colour k


class ReferenceOptions(ParticleOptions):
    local_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5


def find_simple_reference(config: EnvironmentConfig) -> CompiledKernel | None:
    options = fitting_options(config, ReferenceOptions)
    if options is None:
        return None
    world = ParticleWorld(
        agents=_AGENTS,
        sizes=[0.05] * (_AGENTS + _LANDMARKS),
        max_cycles=options.max_cycles,
        accel=[5.0] * _AGENTS,
        local_ratio=options.local_ratio,
    )
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=world.facts,
        state_width=world.state_width,
        ints_width=5,
        agents=("agent_0", "agent_1"),
        widths=(2 + 2 * _LANDMARKS + 3 + _VOCABULARY,) * _AGENTS,
        heads=(ActionHead("categorical", (MOVES * _VOCABULARY,)),) * _AGENTS,
        load=_load,
    )


def _load(env: Env, state: Floats, ints: Ints) -> None:
    load_world(env, state, ints, goals=ints[_GOALS:_WORDS].tolist(), words=ints[_WORDS:].tolist())


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_episode(facts: Floats, state: Floats, ints: Ints, env: int, rng: Words) -> None:
    ints[env, CYCLES] = 0
    for a in range(_AGENTS):
        ints[env, _GOALS + a] = next_below(rng, env, _LANDMARKS)
        ints[env, _WORDS + a] = -1
    scatter(facts, state, env, rng, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _pay(facts: Floats, state: Floats, ints: Ints, env: int, rew: Rows) -> None:
    """Compute rewards: minus the other's distance to the goal that it was not told, mixed with the mean of both."""
    first = -distance_between(state, env, 1, _AGENTS + ints[env, _GOALS])
    second = -distance_between(state, env, 0, _AGENTS + ints[env, _GOALS + 1])
    together = (first + second) / 2 * (1 - facts[LOCAL_RATIO])
    rew[env * _AGENTS] = together + first * facts[LOCAL_RATIO]
    rew[env * _AGENTS + 1] = together + second * facts[LOCAL_RATIO]


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, state: Floats, ints: Ints, env: int, out: Rows) -> None:
    for a in range(_AGENTS):
        row = env * _AGENTS + a
        column = write_velocity(facts, state, env, a, row, 0, out)
        column = write_ways(state, env, a, _AGENTS, _AGENTS + _LANDMARKS, row, column, out)
        for colour in range(_LANDMARKS):
            out[row, column + colour] = _BRIGHT if colour == ints[env, _GOALS + a] else _DARK
        column = write_word(ints[env, _WORDS + 1 - a], _VOCABULARY, row, column + _LANDMARKS, out)
        write_zeros(row, column, out)


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
        for a in range(_AGENTS):
            ints[env, _WORDS + a] = int(act[env * _AGENTS + a, 0]) // MOVES
        move_particles(facts, state, env, act, force)
        _pay(facts, state, ints, env, rew)
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
