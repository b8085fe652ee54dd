"""Compiled kernel of Gymnasium's MountainCar, bit-identical: float64 state, float32 observations."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.random import next_between
from mosaic.envs.compiled.reference import bare_env, read_reference
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
    one_agent_kernel,
)
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead


def find_mountain_car(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, MountainCarEnv)
    if reference is None:
        return None
    env, time_limit = reference
    goal = (env.goal_position, env.goal_velocity)
    facts = np.array([env.force, env.gravity, env.min_position, env.max_position, env.max_speed, *goal, time_limit])
    head = ActionHead("categorical", (3,))
    return one_agent_kernel(_step, _begin, facts, state_width=2, ints_width=1, width=2, head=head, load=load_car)


def load_car(env: Env, state: Floats, ints: Ints) -> None:
    bare_env(env)[0].state = state.copy()


@njit(cache=True, nogil=True, error_model="numpy")
def start_car(state: Floats, ints: Ints, rng: Words, env: int) -> None:
    ints[env, 0] = 0
    state[env, 0], state[env, 1] = next_between(rng, env, -0.6, -0.4), 0.0


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(state.shape[0]):
        start_car(state, ints, rng, env)
        obs[env, 0], obs[env, 1] = state[env, 0], state[env, 1]


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
    force, gravity, left, right, fastest = facts[0], facts[1], facts[2], facts[3], facts[4]
    goal, goal_speed, time_limit = facts[5], facts[6], np.int64(facts[7])
    for env in range(state.shape[0]):
        place, speed = state[env, 0], state[env, 1]
        speed += (np.float64(act[env, 0]) - 1.0) * force + math.cos(3 * place) * (-gravity)
        speed = min(max(speed, -fastest), fastest)
        place = min(max(place + speed, left), right)
        if place == left and speed < 0:
            speed = 0.0
        state[env, 0], state[env, 1] = place, speed
        ints[env, 0] += 1
        over = place >= goal and speed >= goal_speed
        late = ints[env, 0] == time_limit
        rew[env], term[env], trunc[env] = -1.0, over, late
        if over or late:
            fin[env, 0], fin[env, 1] = place, speed
            start_car(state, ints, rng, env)
        obs[env, 0], obs[env, 1] = state[env, 0], state[env, 1]
