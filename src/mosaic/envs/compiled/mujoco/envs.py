"""Compiled kernels of Gymnasium's MuJoCo envs, version 5: MuJoCo simulates, Gymnasium's rules are compiled.

Observations, rewards and ends are those of Gymnasium, computed in its order and precision. As there, positions of
bodies and sites, and forces, are those of the last simulated state before the newest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.mujoco import simulation as sim
from mosaic.envs.compiled.mujoco.simulation import Simulation, numbers_at, pairwise_sum
from mosaic.envs.compiled.random import next_between, next_uniform
from mosaic.envs.compiled.reference import bare_env
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.shared_env import described_env
from mosaic.envs.vector.encoding import ActionHead

RUNNER, ANT, PENDULUM, DOUBLE_PENDULUM, REACHER = range(5)  # kinds of rules

# Indices into the facts, after those of the simulation
(
    _KIND,
    _NOISE,  # of the start
    _NORMAL,  # 1: the noise of velocities is Gaussian, else uniform
    _SKIPPED,  # positions that are not observed
    _FASTEST,  # observed velocity
    _FORWARD,
    _CONTROL,
    _HEALTHY,
    _ENDS,  # 1: an unhealthy robot ends the episode
    _LOW_STATE,
    _HIGH_STATE,
    _LOW_Z,
    _HIGH_Z,
    _LOW_ANGLE,
    _HIGH_ANGLE,
    _CONTACT,
    _LOW_FORCE,
    _HIGH_FORCE,
    _SHOWS_FORCES,
    _BODY,  # whose position counts; Reacher: the fingertip
    _TARGET,
    _START,  # then positions, velocities, lower and upper action bounds
) = range(sim.FIRST_OWN, sim.FIRST_OWN + 22)
_MOST_FORCES = 128  # numpy adds up more in another order
_FAST = {"cache": True, "nogil": True, "error_model": "numpy"}
_UNBOUNDED = (-math.inf, math.inf)


class _Rules(NamedTuple):
    kind: int
    normal: int = 0
    skips: int = 0
    fastest: float = math.inf


_RULES = {  # by class of Gymnasium; those of older versions have other rules
    "half_cheetah_v5.HalfCheetahEnv": _Rules(RUNNER, normal=1, skips=1),
    "swimmer_v5.SwimmerEnv": _Rules(RUNNER, skips=2),
    "hopper_v5.HopperEnv": _Rules(RUNNER, skips=1, fastest=10),
    "walker2d_v5.Walker2dEnv": _Rules(RUNNER, skips=1, fastest=10),
    "ant_v5.AntEnv": _Rules(ANT, normal=1, skips=2),
    "inverted_pendulum_v5.InvertedPendulumEnv": _Rules(PENDULUM),
    "inverted_double_pendulum_v5.InvertedDoublePendulumEnv": _Rules(DOUBLE_PENDULUM, normal=1, fastest=10),
    "reacher_v5.ReacherEnv": _Rules(REACHER),
}
_MODULE = "gymnasium.envs.mujoco."


def find_mujoco(config: EnvironmentConfig) -> CompiledKernel | None:
    with described_env(config) as described:
        env, time_limit = bare_env(described)
    rules = _RULES.get(f"{type(env).__module__}.{type(env).__name__}".removeprefix(_MODULE))
    if rules is None or (rules.kind == ANT and env.model.nbody * 6 > _MOST_FORCES):
        return None
    own = [rules.kind, _told(env, "reset_noise_scale", 0.0), rules.normal]
    own += [rules.skips * _told(env, _EXCLUDES, 1), rules.fastest, *_rewards(env, rules.kind)]
    simulation = Simulation(env.model)
    return CompiledKernel(
        _step,
        _begin,
        simulation.facts(env, time_limit, own),
        state_width=env.model.nq + 2 * env.model.nv + 1,
        ints_width=1,
        widths=env.observation_space.shape,
        heads=(ActionHead("gaussian", (env.model.nu,)),),
        load=_load,
        owner=simulation,
    )


_EXCLUDES = "exclude_current_positions_from_observation"


def _rewards(env: Any, rules: int) -> list[float]:
    """Return weights and bounds of the rewards; those that an env lacks have no effect."""
    if rules == REACHER:
        bodies = [env.model.body(name).id for name in ("fingertip", "target")]
        weights = (env._reward_dist_weight, env._reward_control_weight)
    else:
        bodies = [env.model.body(_told(env, "main_body", 0)).id, 0]
        weights = (_told(env, "forward_reward_weight", 0.0), _told(env, "ctrl_cost_weight", 0.0))
    ranges = ("healthy_state_range", "healthy_z_range", "healthy_angle_range")
    bounds = [bound for name in ranges for bound in _told(env, name, _UNBOUNDED)]
    healthy = [_told(env, "healthy_reward", 0.0), _told(env, "terminate_when_unhealthy", 0)]
    contact = [_told(env, "contact_cost_weight", 0.0), *_told(env, "contact_force_range", _UNBOUNDED)]
    shows = _told(env, "include_cfrc_ext_in_observation", 0)
    return [*weights, *healthy, *bounds, *contact, shows, *bodies]


def _told(env: Any, name: str, default: Any) -> Any:
    return getattr(env, f"_{name}", default)


def _load(env: Env, state: Floats, ints: Ints) -> None:
    raw = bare_env(env)[0]
    nq, nv = raw.model.nq, raw.model.nv
    raw.set_state(state[:nq], state[nq : nq + nv])


@njit(**_FAST)
def _start(facts: Floats, state: Floats, ints: Ints, rng: Words, env: int) -> None:
    nq, nv, noise = np.int64(facts[sim.NQ]), np.int64(facts[sim.NV]), facts[_NOISE]
    ints[env, 0] = 0
    reacher = facts[_KIND] == REACHER
    for i in range(nq):
        spread = 0.1 if reacher else noise
        state[env, i] = facts[_START + i] + next_between(rng, env, -spread, spread)
    for i in range(nv):
        spread = 0.005 if reacher else noise
        if facts[_NORMAL]:
            radius = math.sqrt(-2 * math.log(1 - next_uniform(rng, env)))
            drawn = spread * radius * math.cos(2 * math.pi * next_uniform(rng, env))
        else:
            drawn = next_between(rng, env, -spread, spread)
        state[env, nq + i] = facts[_START + nq + i] + drawn
    if reacher:
        while True:
            x, y = next_between(rng, env, -0.2, 0.2), next_between(rng, env, -0.2, 0.2)
            if math.sqrt(x * x + y * y) < 0.2:
                break
        state[env, nq - 2], state[env, nq - 1] = x, y
        state[env, nq + nv - 2], state[env, nq + nv - 1] = 0.0, 0.0
    sim.restart(facts, state, env)
    state[env, nq + 2 * nv] = _body_x(facts)


@njit(**_FAST)
def _body_x(facts: Floats) -> float:
    x: float = numbers_at(facts, sim.XPOS_AT, 3 * np.int64(facts[sim.BODIES]))[3 * np.int64(facts[_BODY])]
    return x


@njit(**_FAST)
def _bounded(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


@njit(**_FAST)
def _show(facts: Floats, env: int, out: Rows) -> None:
    """Write the observation of the simulated env."""
    nq, nv, kind = np.int64(facts[sim.NQ]), np.int64(facts[sim.NV]), np.int64(facts[_KIND])
    qpos, qvel = numbers_at(facts, sim.QPOS_AT, nq), numbers_at(facts, sim.QVEL_AT, nv)
    if kind == REACHER:
        _show_reach(facts, qpos, qvel, env, out)
        return
    at = np.int64(0)
    if kind == DOUBLE_PENDULUM:
        out[env, 0] = qpos[0]
        for i in range(1, nq):
            out[env, i], out[env, nq - 1 + i] = math.sin(qpos[i]), math.cos(qpos[i])
        at = 2 * nq - 1
        out[env, at + nv] = _bounded(numbers_at(facts, sim.CONSTRAINT_AT, nv)[0], -10.0, 10.0)
    else:
        skipped = np.int64(facts[_SKIPPED])
        for i in range(skipped, nq):
            out[env, i - skipped] = qpos[i]
        at = nq - skipped
    for i in range(nv):
        out[env, at + i] = _bounded(qvel[i], -facts[_FASTEST], facts[_FASTEST])
    if facts[_SHOWS_FORCES]:
        forces = numbers_at(facts, sim.CFRC_AT, 6 * np.int64(facts[sim.BODIES]))
        for i in range(6, forces.shape[0]):
            out[env, at + nv + i - 6] = _bounded(forces[i], facts[_LOW_FORCE], facts[_HIGH_FORCE])


@njit(**_FAST)
def _show_reach(facts: Floats, qpos: Floats, qvel: Floats, env: int, out: Rows) -> None:
    for i in range(2):
        out[env, i], out[env, 2 + i] = math.cos(qpos[i]), math.sin(qpos[i])
        out[env, 4 + i], out[env, 6 + i] = qpos[2 + i], qvel[i]
        out[env, 8 + i] = _apart(facts, i)


@njit(**_FAST)
def _apart(facts: Floats, axis: int) -> float:
    """Return the distance of Reacher's fingertip from its target along an axis."""
    xpos = numbers_at(facts, sim.XPOS_AT, 3 * np.int64(facts[sim.BODIES]))
    apart: float = xpos[3 * np.int64(facts[_BODY]) + axis] - xpos[3 * np.int64(facts[_TARGET]) + axis]
    return apart


@njit(**_FAST)
def _judge(facts: Floats, before: float, squares: np.float32) -> tuple[float, bool]:
    """Return the reward of the simulated step and whether it terminates the episode.

    `before` is the position from which the step started, `squares` the sum of the squared actions.
    """
    nq, nv, kind = np.int64(facts[sim.NQ]), np.int64(facts[sim.NV]), np.int64(facts[_KIND])
    qpos, qvel = numbers_at(facts, sim.QPOS_AT, nq), numbers_at(facts, sim.QVEL_AT, nv)
    if kind == PENDULUM:
        upright = abs(qpos[1]) <= 0.2 and _all_within(qpos, qvel, 0, -math.inf, math.inf)
        return (1.0, False) if upright else (0.0, True)
    if kind == DOUBLE_PENDULUM:
        tip = numbers_at(facts, sim.SITE_AT, 3)
        fallen = tip[2] <= 1
        far = 0.01 * tip[0] * tip[0] + (tip[2] - 2) * (tip[2] - 2)
        fast = 0.001 * qvel[1] * qvel[1] + 0.005 * qvel[2] * qvel[2]
        return (0.0 if fallen else facts[_HEALTHY]) - far - fast, fallen
    effort = np.float32(facts[_CONTROL]) * squares
    if kind == REACHER:
        x, y, z = _apart(facts, 0), _apart(facts, 1), _apart(facts, 2)
        return -math.sqrt(x * x + y * y + z * z) * facts[_FORWARD] - effort, False
    after = _body_x(facts) if kind == ANT else qpos[0]
    reward = facts[_FORWARD] * ((after - before) / facts[sim.DT])
    if kind == ANT:
        healthy = facts[_LOW_Z] <= qpos[2] <= facts[_HIGH_Z] and _all_within(qpos, qvel, 0, -math.inf, math.inf)
        forces = numbers_at(facts, sim.CFRC_AT, 6 * np.int64(facts[sim.BODIES])).copy()
        for i in range(forces.shape[0]):
            bounded = _bounded(forces[i], facts[_LOW_FORCE], facts[_HIGH_FORCE])
            forces[i] = bounded * bounded
        reward = reward + (facts[_HEALTHY] if healthy else 0.0) - (effort + facts[_CONTACT] * pairwise_sum(forces))
    else:
        healthy = facts[_LOW_Z] < qpos[1] < facts[_HIGH_Z] and facts[_LOW_ANGLE] < qpos[2] < facts[_HIGH_ANGLE]
        healthy = healthy and _all_within(qpos, qvel, 2, facts[_LOW_STATE], facts[_HIGH_STATE])
        reward = reward + (facts[_HEALTHY] if healthy else 0.0) - effort
    return reward, facts[_ENDS] != 0 and not healthy


@njit(**_FAST)
def _all_within(qpos: Floats, qvel: Floats, first: int, low: float, high: float) -> bool:
    """Return whether all positions from the first on, and all velocities, are between the bounds."""
    within = True
    for i in range(first, qpos.shape[0]):
        within = within and low < qpos[i] < high
    for i in range(qvel.shape[0]):
        within = within and low < qvel[i] < high
    return within


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(state.shape[0]):
        _start(facts, state, ints, rng, env)
        _show(facts, env, obs)


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
    nq, nv, kind = np.int64(facts[sim.NQ]), np.int64(facts[sim.NV]), np.int64(facts[_KIND])
    place, low = nq + 2 * nv, _START + nq + nv
    for env in range(state.shape[0]):
        before = state[env, place] if kind == ANT else state[env, 0]
        squares = sim.advance(facts, state, env, act, low)
        if kind == ANT:
            sim.call(facts, sim.FORCES_AT)
        sim.keep_state(facts, state, env)
        state[env, place] = _body_x(facts)
        reward, ended = _judge(facts, before, squares)
        ints[env, 0] += 1
        late = ints[env, 0] == np.int64(facts[sim.TIME_LIMIT])
        rew[env], term[env], trunc[env] = reward, ended, late
        if ended or late:
            _show(facts, env, fin)
            _start(facts, state, ints, rng, env)
        _show(facts, env, obs)
