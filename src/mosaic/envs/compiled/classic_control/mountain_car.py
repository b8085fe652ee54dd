"""Compiled kernels of Gymnasium's MountainCar and MountainCarContinuous, bit-identical.

The state is float64, observations are float32; the continuous car computes in float32 after the first step.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.random import next_between
from mosaic.envs.compiled.reference import load_state, read_reference
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
from mosaic.envs.vector.encoding import ActionHead


def find_mountain_car(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, MountainCarEnv)
    if reference is None:
        return None
    env, time_limit = reference
    goal = (env.goal_position, env.goal_velocity)
    facts = np.array([env.force, env.gravity, env.min_position, env.max_position, env.max_speed, *goal, time_limit])
    head = ActionHead("categorical", (3,))
    return CompiledKernel(
        _step, _begin, facts, state_width=2, ints_width=1, widths=(2,), heads=(head,), load=load_state
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _start(state: Floats, ints: Ints, rng: Words, env: int) -> None:
    ints[env, 0] = 0
    state[env, 0], state[env, 1] = next_between(rng, env, -0.6, -0.4), 0.0


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(state.shape[0]):
        _start(state, ints, rng, env)
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
            _start(state, ints, rng, env)
        obs[env, 0], obs[env, 1] = state[env, 0], state[env, 1]


def find_mountain_car_continuous(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, Continuous_MountainCarEnv)
    if reference is None:
        return None
    env, time_limit = reference
    goal = (env.goal_position, env.goal_velocity)
    facts = np.array([env.power, env.min_position, env.max_position, env.max_speed, *goal, time_limit])
    head = ActionHead("gaussian", (1,))
    return CompiledKernel(
        _step_continuous, _begin, facts, state_width=2, ints_width=1, widths=(2,), heads=(head,), load=load_state
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _drive(place: float, speed: float, change: float, left: float, right: float, fastest: float) -> tuple[float, float]:
    """Compute one step in the precision of the arguments."""
    speed = min(max(speed + change, -fastest), fastest)
    place = min(max(place + speed, left), right)
    return place, 0.0 if place == left and speed < 0 else speed


@cfunc(STEP, **CFUNC)
def _step_continuous(
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
            _start(state, ints, rng, env)
        obs[env, 0], obs[env, 1] = state[env, 0], state[env, 1]
