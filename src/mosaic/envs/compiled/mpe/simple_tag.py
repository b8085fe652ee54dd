"""Compiled kernel of mpe2's simple_tag: slow adversaries hunt fast agents among obstacles."""

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
    write_zeros,
)
from mosaic.envs.compiled.mpe.physics import (
    ADVERSARIES,
    AGENTS,
    CYCLES,
    MOVES,
    NEAR_AGENTS,
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

_OBSTACLE_RANGE = 0.9
_CAUGHT = 10.0


class TagOptions(SightOptions):
    num_good: Count = 1
    num_adversaries: Count = 3
    num_obstacles: Annotated[int, Field(ge=0)] = 2
    curriculum: Literal[False] = False
    terminate_on_success: Literal[False] = False


def find_simple_tag(config: EnvironmentConfig) -> CompiledKernel | None:
    options = fitting_options(config, TagOptions)
    if options is None:
        return None
    good, adversaries, obstacles = options.num_good, options.num_adversaries, options.num_obstacles
    agents, (near_agents, near_landmarks) = good + adversaries, options.near
    world = ParticleWorld(
        agents=agents,
        sizes=[0.075] * adversaries + [0.05] * good + [0.2] * obstacles,
        max_cycles=options.max_cycles,
        accel=[3.0] * adversaries + [4.0] * good,
        colliders=agents + obstacles,
        adversaries=adversaries,
        near_agents=near_agents,
        near_landmarks=near_landmarks,
        max_speed=[1.0] * adversaries + [1.3] * good,
    )
    width = 4 + ways_width(obstacles, near_landmarks) + ways_width(agents - 1, near_agents)
    names = [f"adversary_{number}" for number in range(adversaries)] + [f"agent_{number}" for number in range(good)]
    speeds = (2 * near_agents,) * 2 if near_agents else (2 * good, 2 * (good - 1))  # an agent is not its own neighbour
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=world.facts,
        state_width=world.state_width,
        ints_width=1,
        agents=tuple(names),
        widths=(width + speeds[0],) * adversaries + (width + speeds[1],) * good,
        heads=(ActionHead("categorical", (MOVES,)),) * agents,
        load=load_goalless,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_episode(facts: Floats, state: Floats, ints: Ints, env: int, rng: Words) -> None:
    ints[env, CYCLES] = 0
    scatter(facts, state, env, rng, _OBSTACLE_RANGE)


@njit(cache=True, nogil=True, error_model="numpy")
def _pay(facts: Floats, state: Floats, env: int, rew: Rows) -> None:
    """Compute rewards: all adversaries gain from every catch; a caught agent loses, and pays for leaving the screen."""
    agents, adversaries = int(facts[AGENTS]), int(facts[ADVERSARIES])
    catches = 0.0
    for a in range(adversaries, agents):
        alone = 0.0
        for b in range(adversaries):
            if are_touching(facts, state, env, b, a):
                alone -= _CAUGHT
                catches += _CAUGHT
        alone -= _toll(abs(state[env, 2 * a]))
        alone -= _toll(abs(state[env, 2 * a + 1]))
        rew[env * agents + a] = alone
    for a in range(adversaries):
        rew[env * agents + a] = catches


@njit(cache=True, nogil=True, error_model="numpy")
def _toll(x: float) -> float:
    if x < 0.9:
        return 0.0
    if x < 1.0:
        return (x - 0.9) * 10
    return min(np.exp(2 * x - 2), 10.0)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, state: Floats, env: int, seen: Ints, out: Rows) -> None:
    agents = int(facts[AGENTS])
    for a in range(agents):
        row = env * agents + a
        column = write_velocity(facts, state, env, a, row, 0, out)
        column = write_position(state, env, a, row, column, out)
        column = write_sight(facts, state, env, a, seen, row, column, out)
        column = _write_speeds(facts, state, env, a, seen, row, column, out)
        write_zeros(row, column, out)


@njit(cache=True, nogil=True, error_model="numpy")
def _write_speeds(facts: Floats, state: Floats, env: int, a: int, seen: Ints, row: int, column: int, out: Rows) -> int:
    """Write the velocities of good agents only; among the nearest, others leave zeros."""
    agents, adversaries, near = int(facts[AGENTS]), int(facts[ADVERSARIES]), int(facts[NEAR_AGENTS])
    if near == 0:
        for b in range(adversaries, agents):
            if b != a:
                column = write_velocity(facts, state, env, b, row, column, out)
        return column
    for place in range(near):
        if seen[place] >= adversaries:
            write_velocity(facts, state, env, seen[place], row, column, out)
        else:
            out[row, column] = out[row, column + 1] = 0.0
        column += 2
    return column


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
            _show(facts, state, env, seen, fin)
            _begin_episode(facts, state, ints, env, rng)
        _show(facts, state, env, seen, obs)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    seen = sight_room(facts)
    name_rows(facts, who)
    for env in range(state.shape[0]):
        _begin_episode(facts, state, ints, env, rng)
        _show(facts, state, env, seen, obs)
