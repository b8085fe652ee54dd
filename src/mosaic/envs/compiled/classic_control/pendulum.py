"""Compiled kernel of Gymnasium's Pendulum, bit-identical: float64, except for the torque and its cost (float32)."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.pendulum import DEFAULT_X, DEFAULT_Y, PendulumEnv

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
)
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead


def find_pendulum(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, PendulumEnv)
    if reference is None:
        return None
    env, time_limit = reference
    pull, push = 3 * env.g / (2 * env.l), 3.0 / (env.m * env.l**2)
    facts = np.array([pull, push, env.dt, env.max_speed, env.max_torque, 2.0, time_limit])
    head = ActionHead("gaussian", (1,))
    return CompiledKernel(_step, _begin, facts, state_width=3, ints_width=1, widths=(3,), heads=(head,), load=_load)


def _load(env: Env, state: Floats, ints: Ints) -> None:
    """Load a state; its third number is the last torque, which is rendered as an arrow."""
    raw = bare_env(env)[0]
    raw.state, raw.last_u = state[:2].copy(), state[2] if ints[0] else None


@njit(cache=True, nogil=True, error_model="numpy")
def _start(state: Floats, ints: Ints, rng: Words, env: int) -> None:
    ints[env, 0] = 0
    state[env, 0] = next_between(rng, env, -DEFAULT_X, DEFAULT_X)
    state[env, 1] = next_between(rng, env, -DEFAULT_Y, DEFAULT_Y)
    state[env, 2] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _show(state: Floats, env: int, out: Rows) -> None:
    out[env, 0], out[env, 1], out[env, 2] = math.cos(state[env, 0]), math.sin(state[env, 0]), state[env, 1]


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(state.shape[0]):
        _start(state, ints, rng, env)
        _show(state, env, obs)


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
    pull, push, seconds, fastest = facts[0], np.float32(facts[1]), facts[2], facts[3]
    strongest, time_limit = np.float32(facts[4]), np.int64(facts[6])
    # an exponent that the compiler does not know: the C library's powers occasionally round differently from x * x
    two, narrow_two = facts[5], np.float32(facts[5])
    for env in range(state.shape[0]):
        angle, speed = state[env, 0], state[env, 1]
        torque = min(max(act[env, 0], -strongest), strongest)
        tilt = (angle + math.pi) % (2 * math.pi) - math.pi
        effort = np.float32(0.001) * np.float32(math.pow(torque, narrow_two))
        cost = math.pow(tilt, two) + 0.1 * math.pow(speed, two) + effort
        speed = speed + (pull * math.sin(angle) + push * torque) * seconds
        speed = min(max(speed, -fastest), fastest)
        state[env, 0], state[env, 1], state[env, 2] = angle + speed * seconds, speed, torque
        ints[env, 0] += 1
        late = ints[env, 0] == time_limit
        rew[env], term[env], trunc[env] = -cost, 0, late
        if late:
            _show(state, env, fin)
            _start(state, ints, rng, env)
        _show(state, env, obs)
