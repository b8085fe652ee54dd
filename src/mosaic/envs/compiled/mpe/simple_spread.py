"""Compiled kernel of mpe2's simple_spread: agents cover landmarks and avoid collisions."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.mpe.observations import (
    sight_room,
    ways_width,
    write_position,
    write_sight,
    write_velocity,
    write_ways,
    write_zeros,
)
from mosaic.envs.compiled.mpe.physics import (
    AGENTS,
    CYCLES,
    LANDMARKS,
    LOCAL_RATIO,
    MOVES,
    NEAR_AGENTS,
    NEAR_LANDMARKS,
    ParticleWorld,
    are_touching,
    count_cycle,
    move_particles,
    name_rows,
    scatter,
)
from mosaic.envs.compiled.mpe.reference import Count, SightOptions, fitting_options, load_goalless
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.vector.encoding import ActionHead

_AGENT_SIZE, _LANDMARK_SIZE, _ACCEL = 0.15, 0.05, 5.0


class SpreadOptions(SightOptions):
    N: Count = 3
    local_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    curriculum: Literal[False] = False
    terminate_on_success: Literal[False] = False


def find_simple_spread(config: EnvironmentConfig) -> CompiledKernel | None:
    options = fitting_options(config, SpreadOptions)
    if options is None:
        return None
    agents, (near_agents, near_landmarks) = options.N, options.near
    world = ParticleWorld(
        agents=agents,
        sizes=[_AGENT_SIZE] * agents + [_LANDMARK_SIZE] * agents,
        max_cycles=options.max_cycles,
        accel=[_ACCEL] * agents,
        local_ratio=options.local_ratio,
        colliders=agents,
        near_agents=near_agents,
        near_landmarks=near_landmarks,
    )
    others = ways_width(agents - 1, near_agents)
    width = 4 + ways_width(agents, near_landmarks) + 2 * others  # with the others' positions come words of two numbers
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=world.facts,
        state_width=world.state_width,
        ints_width=1,
        agents=tuple(f"agent_{number}" for number in range(agents)),
        widths=(width,) * agents,
        heads=(ActionHead("categorical", (MOVES,)),) * agents,
        load=load_goalless,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_episode(facts: Floats, state: Floats, ints: Ints, env: int, rng: Words) -> None:
    ints[env, CYCLES] = 0
    scatter(facts, state, env, rng, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _pay(facts: Floats, state: Floats, env: int, rew: Rows) -> None:
    """Compute rewards: shared, minus every landmark's distance to the nearest agent; own, −1 per agent touched."""
    agents, entities = int(facts[AGENTS]), int(facts[AGENTS] + facts[LANDMARKS])
    here, together = state[env], 0.0
    for landmark in range(agents, entities):
        x, y, nearest = here[2 * landmark], here[2 * landmark + 1], np.inf
        for a in range(agents):
            dx, dy = here[2 * a] - x, here[2 * a + 1] - y
            nearest = min(nearest, dx * dx + dy * dy)
        together -= np.sqrt(nearest)
    first = env * agents
    for a in range(agents):
        rew[first + a] = 0.0
    for a in range(agents):
        for b in range(a + 1, agents):
            if are_touching(facts, state, env, a, b):
                rew[first + a] -= 1.0
                rew[first + b] -= 1.0
    for a in range(agents):
        rew[first + a] = together * (1 - facts[LOCAL_RATIO]) + rew[first + a] * facts[LOCAL_RATIO]


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, state: Floats, first: int, last: int, seen: Ints, out: Rows) -> None:
    """Write the observations of the envs first..last-1; if agents see everything, a short and fast loop is used."""
    if facts[NEAR_AGENTS] + facts[NEAR_LANDMARKS] == 0:
        _show_all(facts, state, first, last, out)
        return
    agents = int(facts[AGENTS])
    for env in range(first, last):
        for a in range(agents):
            row = env * agents + a
            column = write_velocity(facts, state, env, a, row, 0, out)
            column = write_position(state, env, a, row, column, out)
            column = write_sight(facts, state, env, a, seen, row, column, out)
            write_zeros(row, column, out)  # there is no communication


@njit(cache=True, nogil=True, error_model="numpy")
def _show_all(facts: Floats, state: Floats, first: int, last: int, out: Rows) -> None:
    agents, entities = int(facts[AGENTS]), int(facts[AGENTS] + facts[LANDMARKS])
    for env in range(first, last):
        for a in range(agents):
            row = env * agents + a
            column = write_velocity(facts, state, env, a, row, 0, out)
            column = write_position(state, env, a, row, column, out)
            column = write_ways(state, env, a, agents, entities, row, column, out)
            column = write_ways(state, env, a, 0, agents, row, column, out)
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
        _pay(facts, state, env, rew)
        if count_cycle(facts, ints, env, term, trunc):
            _show(facts, state, env, env + 1, seen, fin)
            _begin_episode(facts, state, ints, env, rng)
    _show(facts, state, 0, state.shape[0], seen, obs)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    seen = sight_room(facts)
    name_rows(facts, who)
    for env in range(state.shape[0]):
        _begin_episode(facts, state, ints, env, rng)
    _show(facts, state, 0, state.shape[0], seen, obs)
