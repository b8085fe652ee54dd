"""Compiled kernel of mpe2's simple_adversary: agents know the goal, the adversary has to guess it."""

from __future__ import annotations

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.mpe.observations import sight_room, ways_width, write_sight, write_way, write_zeros
from mosaic.envs.compiled.mpe.physics import (
    AGENTS,
    CYCLES,
    LANDMARKS,
    MOVES,
    ParticleWorld,
    count_cycle,
    distance_between,
    move_particles,
    name_rows,
    scatter,
)
from mosaic.envs.compiled.mpe.reference import Count, SightOptions, fitting_options, load_world
from mosaic.envs.compiled.random import next_below
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead

_GOAL = 1  # in `ints`: index of the landmark
_ACCEL = 5.0
_ADVERSARY = 0


class AdversaryOptions(SightOptions):
    N: Count = 2


def find_simple_adversary(config: EnvironmentConfig) -> CompiledKernel | None:
    options = fitting_options(config, AdversaryOptions)
    if options is None:
        return None
    landmarks, (near_agents, near_landmarks) = options.N, options.near
    agents = landmarks + 1
    world = ParticleWorld(
        agents=agents,
        sizes=[0.15] * agents + [0.08] * landmarks,
        max_cycles=options.max_cycles,
        accel=[_ACCEL] * agents,
        near_agents=near_agents,
        near_landmarks=near_landmarks,
    )
    width = ways_width(landmarks, near_landmarks) + ways_width(agents - 1, near_agents)
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=world.facts,
        state_width=world.state_width,
        ints_width=2,
        agents=("adversary_0", *(f"agent_{number}" for number in range(landmarks))),
        widths=(width, *(width + 2,) * landmarks),
        heads=(ActionHead("categorical", (MOVES,)),) * agents,
        load=_load,
    )


def _load(env: Env, state: Floats, ints: Ints) -> None:
    load_world(env, state, ints, goals=[int(ints[_GOAL])])


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_episode(facts: Floats, state: Floats, ints: Ints, env: int, rng: Words) -> None:
    ints[env, CYCLES] = 0
    ints[env, _GOAL] = next_below(rng, env, int(facts[LANDMARKS]))
    scatter(facts, state, env, rng, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _pay(facts: Floats, state: Floats, ints: Ints, env: int, rew: Rows) -> None:
    """Compute rewards: adversary, minus its distance to the goal; agents, that distance minus the nearest agent's."""
    agents = int(facts[AGENTS])
    goal = agents + ints[env, _GOAL]
    astray = distance_between(state, env, _ADVERSARY, goal)
    nearest = np.inf
    for a in range(1, agents):
        nearest = min(nearest, distance_between(state, env, a, goal))
    rew[env * agents + _ADVERSARY] = -astray
    for a in range(1, agents):
        rew[env * agents + a] = -nearest + astray


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, state: Floats, ints: Ints, env: int, seen: Ints, out: Rows) -> None:
    agents = int(facts[AGENTS])
    for a in range(agents):
        row, column = env * agents + a, 0
        if a != _ADVERSARY:
            column = write_way(state, env, a, agents + ints[env, _GOAL], row, column, out)
        column = write_sight(facts, state, env, a, seen, row, column, out)
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
    force, seen = np.empty(2 * int(facts[AGENTS])), sight_room(facts)
    for env in range(state.shape[0]):
        move_particles(facts, state, env, act, force)
        _pay(facts, state, ints, env, rew)
        if count_cycle(facts, ints, env, term, trunc):
            _show(facts, state, ints, env, seen, fin)
            _begin_episode(facts, state, ints, env, rng)
        _show(facts, state, ints, env, seen, obs)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    seen = sight_room(facts)
    name_rows(facts, who)
    for env in range(state.shape[0]):
        _begin_episode(facts, state, ints, env, rng)
        _show(facts, state, ints, env, seen, obs)
