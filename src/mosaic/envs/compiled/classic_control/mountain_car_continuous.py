"""Compiled kernel of Gymnasium's MountainCarContinuous, bit-identical: float64 in the first step, float32 later."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.classic_control.mountain_car import load_car, start_car
from mosaic.envs.compiled.reference import read_reference
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
from mosaic.envs.vector.encoding import ActionHead


def find_mountain_car_continuous(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, Continuous_MountainCarEnv)
    if reference is None:
        return None
    env, time_limit = reference
    goal = (env.goal_position, env.goal_velocity)
    facts = np.array([env.power, env.min_position, env.max_position, env.max_speed, *goal, time_limit])
    head = ActionHead("gaussian", (1,))
    return one_agent_kernel(_step, _begin, facts, state_width=2, ints_width=1, width=2, head=head, load=load_car)


@njit(cache=True, nogil=True, error_model="numpy")
def _drive(place: float, speed: float, change: float, left: float, right: float, fastest: float) -> tuple[float, float]:
    """Compute one step in the precision of the arguments."""
    speed = min(max(speed + change, -fastest), fastest)
    place = min(max(place + speed, left), right)
    return place, 0.0 if place == left and speed < 0 else speed


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
    power, time_limit = np.float32(facts[0]), np.int64(facts[6])
    left, right, fastest, goal, goal_speed = facts[1], facts[2], facts[3], facts[4], facts[5]
    narrow_left, narrow_right, narrow_fastest = np.float32(left), np.float32(right), np.float32(fastest)
    for env in range(state.shape[0]):
        force = min(max(act[env, 0], np.float32(-1)), np.float32(1))
        place, speed = state[env, 0], state[env, 1]
        if ints[env, 0] == 0:
            change = force * power - np.float32(0.0025 * math.cos(3 * place))
            place, speed = _drive(place, speed, change, left, right, fastest)
            over = place >= goal and speed >= goal_speed
        else:
            near, slow = np.float32(place), np.float32(speed)
            slope = np.float32(0.0025 * math.cos(np.float64(np.float32(3) * near)))
            bounds = narrow_left, narrow_right, narrow_fastest
            place, speed = _drive(near, slow, force * power - slope, bounds[0], bounds[1], bounds[2])
            over = place >= np.float32(goal) and speed >= np.float32(goal_speed)
        state[env, 0], state[env, 1] = np.float32(place), np.float32(speed)
        ints[env, 0] += 1
        late = ints[env, 0] == time_limit
        effort = np.float64(force) * np.float64(force) * 0.1
        rew[env] = (100.0 if over else 0.0) - effort
        term[env], trunc[env] = over, late
        if over or late:
            fin[env, 0], fin[env, 1] = place, speed
            start_car(state, ints, rng, env)
        obs[env, 0], obs[env, 1] = state[env, 0], state[env, 1]
