"""MuJoCo's simulation for compiled code: the library's functions and arrays, reached through addresses.

Addresses differ in every process. They are numbers in the kernel's facts, never constants of its code: cached machine
code is right in any process, on any machine, with any version of the library.

One `mjData` serves all envs of a vector. What determines the next step is copied into it and back: positions,
velocities, and the accelerations from which the constraint solver starts. Everything else in it is computed from these.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numba import types

from mosaic.core.numba_cache import carray, function_at, memory_at, njit
from mosaic.envs.compiled.vector import Floats, Rows

# Indices into the facts of every kernel
(
    STEP_AT,
    FORWARD_AT,
    FORCES_AT,
    RESET_AT,
    MODEL_AT,
    DATA_AT,
    QPOS_AT,
    QVEL_AT,
    WARMSTART_AT,
    CTRL_AT,
    XPOS_AT,
    SITE_AT,
    CFRC_AT,
    CONSTRAINT_AT,
    NQ,
    NV,
    NU,
    BODIES,
    FRAME_SKIP,
    DT,
    TIME_LIMIT,
    FIRST_OWN,  # of the env's rules
) = range(22)

_call = function_at(types.void(types.intp, types.intp))
_FAST = {"cache": True, "nogil": True, "error_model": "numpy"}


class Simulation:
    """A `mjData` of its own for a model; it must live as long as its facts are used."""

    def __init__(self, model: Any) -> None:
        import mujoco  # an extra

        self.model = model
        self.data = mujoco.MjData(model)

    def facts(self, env: Any, time_limit: int, own: list[float]) -> Floats:
        """Return the facts of a kernel: addresses, sizes, the env's own constants, then its start and action bounds."""
        model, data = self.model, self.data
        names = ("mj_step", "mj_forward", "mj_rnePostConstraint", "mj_resetData")
        arrays = (data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, data.xpos, data.site_xpos, data.cfrc_ext)
        numbers: list[float] = [
            *(_function(name) for name in names),
            *(model._address, data._address),
            *(array.ctypes.data for array in (*arrays, data.qfrc_constraint)),
            *(model.nq, model.nv, model.nu, model.nbody, env.frame_skip, env.dt, time_limit),
        ]
        space = env.action_space
        return np.concatenate((numbers, own, env.init_qpos, env.init_qvel, space.low, space.high))


def _function(name: str) -> int:
    """Return the address of a function of the library that the module mujoco has loaded."""
    address = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    assert address is not None
    return address


def _library() -> ctypes.CDLL:
    """Open the loaded library once more; another version beside it would crash with this one's models."""
    import mujoco

    folder, release = Path(mujoco.__file__).parent, mujoco.__version__
    names = (f"libmujoco.so.{release}", f"libmujoco.{release}.dylib")
    return ctypes.CDLL(str(next(path for name in names if (path := folder / name).is_file())))


@njit(**_FAST)
def numbers_at(facts: Floats, place: int, count: int) -> Floats:
    """Return an array of the simulation."""
    return carray(memory_at(np.int64(facts[place])), (count,), np.float64)  # type: ignore[no-any-return]


@njit(**_FAST)
def call(facts: Floats, function: int) -> None:
    """Call a function of the library with model and data."""
    _call(np.int64(facts[function]))(np.int64(facts[MODEL_AT]), np.int64(facts[DATA_AT]))


@njit(**_FAST)
def keep_state(facts: Floats, state: Floats, env: int) -> None:
    """Copy what determines the next step from the simulation into an env's row."""
    nq, nv = np.int64(facts[NQ]), np.int64(facts[NV])
    qpos, qvel = numbers_at(facts, QPOS_AT, nq), numbers_at(facts, QVEL_AT, nv)
    warm = numbers_at(facts, WARMSTART_AT, nv)
    for i in range(nq):
        state[env, i] = qpos[i]
    for i in range(nv):
        state[env, nq + i], state[env, nq + nv + i] = qvel[i], warm[i]


@njit(**_FAST)
def advance(facts: Floats, state: Floats, env: int, act: Rows, low: int) -> np.float32:
    """Simulate one step of an env with clipped actions; return the sum of their squares, added up as numpy does.

    The action bounds are in the facts from `low` on. The result is in the simulation.
    """
    nq, nv, nu = np.int64(facts[NQ]), np.int64(facts[NV]), np.int64(facts[NU])
    qpos, qvel = numbers_at(facts, QPOS_AT, nq), numbers_at(facts, QVEL_AT, nv)
    warm, ctrl = numbers_at(facts, WARMSTART_AT, nv), numbers_at(facts, CTRL_AT, nu)
    for i in range(nq):
        qpos[i] = state[env, i]
    for i in range(nv):
        qvel[i], warm[i] = state[env, nq + i], state[env, nq + nv + i]
    squares = np.zeros(nu, np.float32)
    for i in range(nu):
        bounded = min(max(act[env, i], np.float32(facts[low + i])), np.float32(facts[low + nu + i]))
        squares[i] = bounded * bounded
        ctrl[i] = bounded
    for _ in range(np.int64(facts[FRAME_SKIP])):
        call(facts, STEP_AT)
    return pairwise_sum(squares)  # type: ignore[no-any-return]


@njit(**_FAST)
def restart(facts: Floats, state: Floats, env: int) -> None:
    """Put the positions and velocities of an env's row into a simulation without a past, and compute the rest."""
    nq, nv = np.int64(facts[NQ]), np.int64(facts[NV])
    call(facts, RESET_AT)
    qpos, qvel = numbers_at(facts, QPOS_AT, nq), numbers_at(facts, QVEL_AT, nv)
    for i in range(nq):
        qpos[i] = state[env, i]
    for i in range(nv):
        qvel[i] = state[env, nq + i]
    call(facts, FORWARD_AT)
    keep_state(facts, state, env)


@njit(**_FAST)
def pairwise_sum(numbers: Rows) -> np.float32:
    """Add up at most 128 numbers in the order of `np.sum`."""
    count = numbers.shape[0]
    total = numbers[0]
    if count < 8:
        for i in range(1, count):
            total += numbers[i]
        return total  # type: ignore[no-any-return]
    whole = count - count % 8
    part = numbers[:8].copy()
    for i in range(8, whole):
        part[i % 8] += numbers[i]
    total = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))
    for i in range(whole, count):
        total += numbers[i]
    return total  # type: ignore[no-any-return]
