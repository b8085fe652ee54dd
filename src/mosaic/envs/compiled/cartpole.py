"""CartPole as Gymnasium computes it, bit by bit: float64 within, float32 shown."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from mosaic.config.environment import EnvironmentConfig
from mosaic.core.compiled import cfunc, njit
from mosaic.envs.compiled.bare import bare_env, read_reference
from mosaic.envs.compiled.chance import next_between
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
from mosaic.envs.rows import ActionHead


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
    return one_agent_kernel(_step, _begin, facts, state_width=4, ints_width=1, width=4, head=head, load=_load)


def _load(env: Env, state: Floats, ints: Ints) -> None:
    bare_env(env)[0].state = state.copy()


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
    gravity, pole_mass, mass, length, pole_mass_length = facts[0], facts[1], facts[2], facts[3], facts[4]
    force_size, seconds, far, steep, upright, fallen = facts[5], facts[6], facts[7], facts[8], facts[9], facts[10]
    time_limit = np.int64(facts[11])
    for env in range(state.shape[0]):
        x, speed, angle, turn = state[env, 0], state[env, 1], state[env, 2], state[env, 3]
        force = force_size if act[env, 0] == 1 else -force_size
        cosine, sine = math.cos(angle), math.sin(angle)
        push = (force + pole_mass_length * (turn * turn) * sine) / mass
        turn_change = (gravity * sine - cosine * push) / (length * (4.0 / 3.0 - pole_mass * (cosine * cosine) / mass))
        speed_change = push - pole_mass_length * turn_change * cosine / mass
        x, speed = x + seconds * speed, speed + seconds * speed_change
        angle, turn = angle + seconds * turn, turn + seconds * turn_change
        state[env, 0], state[env, 1], state[env, 2], state[env, 3] = x, speed, angle, turn
        ints[env, 0] += 1
        over = x < -far or x > far or angle < -steep or angle > steep
        late = ints[env, 0] == time_limit
        rew[env] = fallen if over else upright
        term[env], trunc[env] = over, late
        if over or late:
            for k in range(4):
                fin[env, k] = state[env, k]
            _start(state, ints, rng, env)
        for k in range(4):
            obs[env, k] = state[env, k]
