"""Compiled kernel of Gymnasium's Acrobot, bit-identical from the first step on.

Only the first observation of an episode may differ in its last bit: there Gymnasium takes cosine and sine of float32
numbers, with NumPy's own approximation.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv

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

_SQUARE, _TIME_LIMIT = 9, 10


def find_acrobot(config: EnvironmentConfig) -> CompiledKernel | None:
    reference = read_reference(config, AcrobotEnv)
    if reference is None:
        return None
    env, time_limit = reference
    if env.book_or_nips != "book" or env.torque_noise_max > 0:
        return None
    masses = (env.LINK_MASS_1, env.LINK_MASS_2, env.LINK_LENGTH_1, env.LINK_COM_POS_1, env.LINK_COM_POS_2)
    facts = np.array([*masses, env.LINK_MOI, env.MAX_VEL_1, env.MAX_VEL_2, env.dt, 2.0, time_limit])
    head = ActionHead("categorical", (3,))
    return CompiledKernel(
        _step, _begin, facts, state_width=4, ints_width=1, widths=(6,), heads=(head,), load=load_state
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _start(state: Floats, ints: Ints, rng: Words, env: int) -> None:
    ints[env, 0] = 0
    for k in range(4):
        state[env, k] = np.float32(next_between(rng, env, -0.1, 0.1))


@njit(cache=True, nogil=True, error_model="numpy")
def _show(state: Floats, env: int, out: Rows) -> None:
    out[env, 0], out[env, 1] = math.cos(state[env, 0]), math.sin(state[env, 0])
    out[env, 2], out[env, 3] = math.cos(state[env, 1]), math.sin(state[env, 1])
    out[env, 4], out[env, 5] = state[env, 2], state[env, 3]


@njit(cache=True, nogil=True, error_model="numpy")
def _accelerations(
    facts: Floats, angle1: float, angle2: float, speed1: float, speed2: float, torque: float
) -> tuple[float, float]:
    """Compute Gymnasium's `_dsdt`, in its order of operations.

    Its powers are the C library's, which occasionally round differently from x * x; an exponent that the compiler does
    not know keeps it from replacing one by the other.
    """
    m1, m2, l1, lc1, lc2, moi, two = facts[0], facts[1], facts[2], facts[3], facts[4], facts[5], facts[_SQUARE]
    g, pi = 9.8, math.pi
    cosine2, sine2 = math.cos(angle2), math.sin(angle2)
    d1 = m1 * lc1**2 + m2 * (l1**2 + lc2**2 + 2 * l1 * lc2 * cosine2) + moi + moi
    d2 = m2 * (lc2**2 + l1 * lc2 * cosine2) + moi
    phi2 = m2 * lc2 * g * math.cos(angle1 + angle2 - pi / 2.0)
    phi1 = (
        -m2 * l1 * lc2 * math.pow(speed2, two) * sine2
        - 2 * m2 * l1 * lc2 * speed2 * speed1 * sine2
        + (m1 * lc1 + m2 * l1) * g * math.cos(angle1 - pi / 2)
        + phi2
    )
    faster2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * math.pow(speed1, two) * sine2 - phi2) / (
        m2 * lc2**2 + moi - math.pow(d2, two) / d1
    )
    return -(d2 * faster2 + phi1) / d1, faster2


@njit(cache=True, nogil=True, error_model="numpy")
def _wrapped(angle: float) -> float:
    while angle > math.pi:
        angle -= math.pi - -math.pi
    while angle < -math.pi:
        angle += math.pi - -math.pi
    return angle


@njit(cache=True, nogil=True, error_model="numpy")
def _move(facts: Floats, state: Floats, env: int, torque: float) -> None:
    """Advance by one fourth-order Runge-Kutta step."""
    seconds = facts[8]
    half, sixth = seconds / 2.0, seconds / 6.0
    a1, a2, v1, v2 = state[env, 0], state[env, 1], state[env, 2], state[env, 3]
    p1, p2 = _accelerations(facts, a1, a2, v1, v2, torque)
    qv1, qv2 = v1 + half * p1, v2 + half * p2
    q1, q2 = _accelerations(facts, a1 + half * v1, a2 + half * v2, qv1, qv2, torque)
    rv1, rv2 = v1 + half * q1, v2 + half * q2
    r1, r2 = _accelerations(facts, a1 + half * qv1, a2 + half * qv2, rv1, rv2, torque)
    sv1, sv2 = v1 + seconds * r1, v2 + seconds * r2
    s1, s2 = _accelerations(facts, a1 + seconds * rv1, a2 + seconds * rv2, sv1, sv2, torque)
    state[env, 0] = _wrapped(a1 + sixth * (v1 + 2 * qv1 + 2 * rv1 + sv1))
    state[env, 1] = _wrapped(a2 + sixth * (v2 + 2 * qv2 + 2 * rv2 + sv2))
    state[env, 2] = min(max(v1 + sixth * (p1 + 2 * q1 + 2 * r1 + s1), -facts[6]), facts[6])
    state[env, 3] = min(max(v2 + sixth * (p2 + 2 * q2 + 2 * r2 + s2), -facts[7]), facts[7])


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
    time_limit = np.int64(facts[_TIME_LIMIT])
    for env in range(state.shape[0]):
        _move(facts, state, env, np.float64(act[env, 0]) - 1.0)
        ints[env, 0] += 1
        over = -math.cos(state[env, 0]) - math.cos(state[env, 1] + state[env, 0]) > 1.0
        late = ints[env, 0] == time_limit
        rew[env] = 0.0 if over else -1.0
        term[env], trunc[env] = over, late
        if over or late:
            _show(state, env, fin)
            _start(state, ints, rng, env)
        _show(state, env, obs)
