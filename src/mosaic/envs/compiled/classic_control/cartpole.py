"""Compiled kernel of Gymnasium's CartPole, bit-identical: float64 state, float32 observations."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

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

_BLOCK = 128  # envs moved at a time: their intermediate values stay in the L1 cache
_SPEED, _ANGLE, _TURN, _SURE = range(0, 4 * _BLOCK, _BLOCK)  # columns of the intermediate values

# An error in the last bit grows a billionfold in an episode of 500 steps, so sine and cosine must equal the C
# library's. Near zero, their series give the value within an error bound that covers the error here and the library's
# (half a unit in the last place and a fiftieth); if both ends of the bound round to one number, that is the value.
# Otherwise the library is called.
_SMALL = 0.25**2
_SINE_DOUBT, _COSINE_DOUBT, _LEAST_DOUBT = 2.0**-49, 2.0**-54, 2.0**-61
_S3, _S5, _S7, _S9, _S11, _S13 = (1 / math.factorial(n) for n in range(3, 14, 2))
_C4, _C6, _C8, _C10, _C12 = (1 / math.factorial(n) for n in range(4, 13, 2))


def find_cartpole(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, CartPoleEnv)
    if reference is None:
        return None
    env, time_limit = reference
    upright, fallen = (0.0, -1.0) if env._sutton_barto_reward else (1.0, 1.0)
    bounds = (env.x_threshold, env.theta_threshold_radians)
    masses = (env.gravity, env.masspole, env.total_mass, env.length, env.polemass_length)
    facts = np.array([*masses, env.force_mag, env.tau, *bounds, upright, fallen, time_limit])
    head = ActionHead("categorical", (2,))
    return CompiledKernel(
        _step, _begin, facts, state_width=4, ints_width=1, widths=(4,), heads=(head,), load=load_state
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _start(state: Floats, ints: Ints, rng: Words, env: int) -> None:
    ints[env, 0] = 0
    for k in range(4):
        state[env, k] = next_between(rng, env, -0.05, 0.05)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(state.shape[0]):
        _start(state, ints, rng, env)
        for k in range(4):
            obs[env, k] = state[env, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _sine_and_cosine(angle: float) -> tuple[float, float, bool]:
    """Return both by their series, and whether a good C library must round them to the same numbers."""
    square = angle * angle
    sine_tail = _S7 - square * (_S9 - square * (_S11 - square * _S13))
    bend = -angle * (square * (_S3 - square * (_S5 - square * sine_tail)))
    cosine_tail = _C6 - square * (_C8 - square * (_C10 - square * _C12))
    coarse = 1.0 - 0.5 * square
    fine = ((1.0 - coarse) - 0.5 * square) + square * square * (_C4 - square * cosine_tail)
    sine_doubt, cosine_doubt = abs(bend) * _SINE_DOUBT, square * _COSINE_DOUBT + _LEAST_DOUBT
    sine, cosine = angle + (bend - sine_doubt), coarse + (fine - cosine_doubt)
    sure = (sine == angle + (bend + sine_doubt)) & (cosine == coarse + (fine + cosine_doubt)) & (square < _SMALL)
    return sine, cosine, sure


@njit(cache=True, nogil=True, error_model="numpy")
def _push(facts: Floats, chosen: float, sine: float, cosine: float, speed: float, turn: float) -> tuple[float, float]:
    """Return the speeds of cart and pole after a push to the left (0) or right (1)."""
    gravity, pole_mass, mass, length, pole_mass_length = facts[0], facts[1], facts[2], facts[3], facts[4]
    force = facts[5] if chosen == 1 else -facts[5]
    push = (force + pole_mass_length * (turn * turn) * sine) / mass
    turn_change = (gravity * sine - cosine * push) / (length * (4.0 / 3.0 - pole_mass * (cosine * cosine) / mass))
    speed_change = push - pole_mass_length * turn_change * cosine / mass
    return speed + facts[6] * speed_change, turn + facts[6] * turn_change


@njit(cache=True, nogil=True, error_model="numpy")
def _move(facts: Floats, rows: Floats, act: Rows, fell: Bytes, old: Floats) -> None:
    """Step a block of envs; the first loop has neither branches nor calls, so that it is vectorised."""
    seconds, far, steep = facts[6], facts[7], facts[8]
    for env in range(act.shape[0]):
        x, speed, angle, turn = rows[4 * env], rows[4 * env + 1], rows[4 * env + 2], rows[4 * env + 3]
        sine, cosine, sure = _sine_and_cosine(angle)
        old[_SPEED + env], old[_ANGLE + env], old[_TURN + env] = speed, angle, turn
        old[_SURE + env] = sure
        x, angle = x + seconds * speed, angle + seconds * turn
        speed, turn = _push(facts, act[env], sine, cosine, speed, turn)
        rows[4 * env], rows[4 * env + 1], rows[4 * env + 2], rows[4 * env + 3] = x, speed, angle, turn
        fell[env] = (abs(x) > far) | (abs(angle) > steep)
    for env in range(act.shape[0]):
        if old[_SURE + env] == 0:
            angle = old[_ANGLE + env]
            sine, cosine = math.sin(angle), math.cos(angle)
            speed, turn = _push(facts, act[env], sine, cosine, old[_SPEED + env], old[_TURN + env])
            rows[4 * env + 1], rows[4 * env + 3] = speed, turn


@njit(cache=True, nogil=True, error_model="numpy")
def _count_and_pay(facts: Floats, age: Ints, fell: Bytes, late: Bytes, rew: Rows) -> None:
    upright, fallen, time_limit = np.float32(facts[9]), np.float32(facts[10]), np.int64(facts[11])
    for env in range(age.shape[0]):
        age[env] += 1
        late[env] = age[env] == time_limit
    for env in range(age.shape[0]):
        rew[env] = fallen if fell[env] else upright


@njit(cache=True, nogil=True, error_model="numpy")
def _show(rows: Floats, obs: Rows) -> None:
    for k in range(rows.shape[0]):
        obs[k] = rows[k]


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
    envs = state.shape[0]
    rows, chosen, old = state.reshape(-1), act.reshape(-1), np.empty(4 * _BLOCK)
    for first in range(0, envs, _BLOCK):
        last = min(first + _BLOCK, envs)
        _move(facts, rows[4 * first : 4 * last], chosen[first:last], term[first:last], old)
    _count_and_pay(facts, ints.reshape(-1), term, trunc, rew)
    for env in range(envs):
        if term[env] | trunc[env]:
            for k in range(4):
                fin[env, k] = state[env, k]
            _start(state, ints, rng, env)
    _show(rows, obs.reshape(-1))
