"""Common signature of all compiled envs, and a vector env of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.numba_cache import carray, function_at, memory_at, njit
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.compiled.random import streams
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape, vector_arrays

_FACTS, _STATE, _INTS, _RNG = types.float64[::1], types.float64[:, ::1], types.int64[:, ::1], types.uint64[::1]
_OBS, _MASK, _WHO = types.float32[:, ::1], types.uint8[:, ::1], types.int64[::1]
_ACT, _PAY, _ENDS, _FIN = types.float32[:, ::1], types.float32[::1], types.uint8[::1], types.float32[:, ::1]

# facts, state, ints, rng, act, obs, mask, who, rew, term, trunc, fin: as in VectorArrays. Rewards and ends of every row
# are written at every step; an env whose episode is over is reset before the step returns.
STEP = types.void(_FACTS, _STATE, _INTS, _RNG, _ACT, _OBS, _MASK, _WHO, _PAY, _ENDS, _ENDS, _FIN)
# facts, state, ints, rng, obs, mask, who: puts every env at the start of an episode and writes its observations
BEGIN = types.void(_FACTS, _STATE, _INTS, _RNG, _OBS, _MASK, _WHO)
_step_at, _begin_at = function_at(STEP), function_at(BEGIN)
CFUNC: dict[str, Any] = {"cache": True, "nopython": True, "error_model": "numpy"}

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Rows: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]
Load: TypeAlias = Callable[[Env, Floats, Ints], None]  # loads one env's state and ints into the reference, to render it


class CompiledKernel(NamedTuple):
    """Description of a compiled env, except for the number of envs.

    `facts` are its constants, `state` and `ints` its variables, one row per env.
    """

    step: Any  # cfunc of the signature STEP
    begin: Any  # cfunc of the signature BEGIN
    facts: NDArray[np.float64]
    state_width: int
    ints_width: int
    agents: tuple[AgentID, ...]
    turn_based: bool
    widths: tuple[int, ...]
    heads: tuple[ActionHead, ...]
    masked: bool
    load: Load | None = None  # None: cannot be rendered

    def shape(self, envs: int) -> VectorShape:
        return VectorShape(envs, self.agents, self.turn_based, self.widths, self.heads, self.masked)


def one_agent_kernel(
    step: Any,
    begin: Any,
    facts: Floats,
    *,
    state_width: int,
    ints_width: int,
    width: int,
    head: ActionHead,
    masked: bool = False,
    load: Load | None = None,
) -> CompiledKernel:
    """Return the kernel of an env with one agent, named as in GymnasiumEnv."""
    ours = (AGENT,), False, (width,), (head,)
    return CompiledKernel(step, begin, facts, state_width, ints_width, *ours, masked, load)


class CompiledVector:
    """A kernel with its arrays; `reference` makes the env that renders, at the first render."""

    def __init__(self, kernel: CompiledKernel, envs: int, reference: Callable[[], Env] | None = None) -> None:
        self.kernel = kernel
        self.shape = kernel.shape(envs)
        self.arrays = vector_arrays(self.shape)
        self.obs, self.mask, self.who, self.active, self.rew, self.term, self.trunc, self.fin = self.arrays
        self.state = np.zeros((envs, kernel.state_width))
        self.ints = np.zeros((envs, kernel.ints_width), np.int64)
        self.rng = streams(0, envs)
        shown_and_paid = (self.obs, self.mask, self.who, self.rew, self.term, self.trunc, self.fin)
        self._places = _places((kernel.facts, self.state, self.ints, self.rng, *shown_and_paid))
        self._step_address = kernel.step.address
        self._act_shape = (self.shape.slots, self.shape.parts)
        self._make_reference = reference
        self._reference: Env | None = None

    def reset(self, seed: int) -> None:
        self.rng[:] = streams(seed, self.shape.envs)
        for paid_or_ended in (self.rew, self.term, self.trunc, self.fin):
            paid_or_ended[:] = 0
        kernel = self.kernel
        _begin(kernel.begin.address, kernel.facts, self.state, self.ints, self.rng, self.obs, self.mask, self.who)

    def step(self, act: NDArray[np.float32]) -> None:
        if act.shape != self._act_shape:  # machine code would read beyond its end
            raise ValueError(f"Actions of shape {act.shape}, but {self._act_shape} (slots, parts) are needed.")
        _step(self._step_address, self._places, act)

    def render(self, index: int) -> NDArray[np.uint8] | None:
        return self.freeze(index)()

    def freeze(self, index: int) -> Callable[[], NDArray[np.uint8] | None]:
        """Return a function that renders one env as it is now, also in another thread while this one keeps stepping."""
        load, state, ints = self.kernel.load, self.state[index].copy(), self.ints[index].copy()

        def draw() -> NDArray[np.uint8] | None:
            if load is None or self._make_reference is None:
                return None
            if self._reference is None:
                self._reference = self._make_reference()
                self._reference.reset(seed=0)
            load(self._reference, state, ints)
            return self._reference.render()

        return draw

    def close(self) -> None:
        if self._reference is not None:
            self._reference.close()
            self._reference = None


def make_compiled_vector(config: EnvironmentConfig, envs: int) -> CompiledVector | None:
    """Return the vector env, or None if no compiled env has the rules of this configuration."""
    from mosaic.envs.catalog import make_env
    from mosaic.envs.compiled.registry import find_kernel

    kernel = find_kernel(config)
    if kernel is None:
        return None
    return CompiledVector(kernel, envs, lambda: make_env(config))


# Python cannot call a cfunc's machine code: compiled code must. It gets the address instead of the cfunc, because numba
# unpacks a function argument by way of Python, which takes some 15 µs at every call.
@njit(cache=True, nogil=True, error_model="numpy")
def _begin(address: Any, facts: Any, state: Any, ints: Any, rng: Any, obs: Any, mask: Any, who: Any) -> None:
    _begin_at(address)(facts, state, ints, rng, obs, mask, who)


# numba takes 80 ns to unpack an array from Python, so it gets the addresses of all but one in one array.
@njit(cache=True, nogil=True, error_model="numpy")
def _step(address: Any, places: Any, act: Any) -> None:
    facts, state, ints = _line(places[0], np.float64), _table(places[1], np.float64), _table(places[2], np.int64)
    rng, obs, mask = _line(places[3], np.uint64), _table(places[4], np.float32), _table(places[5], np.uint8)
    who, rew, term = _line(places[6], np.int64), _line(places[7], np.float32), _line(places[8], np.uint8)
    trunc, fin = _line(places[9], np.uint8), _table(places[10], np.float32)
    _step_at(address)(facts, state, ints, rng, act, obs, mask, who, rew, term, trunc, fin)


@njit(cache=True, nogil=True, error_model="numpy")
def _line(place: Any, dtype: Any) -> Any:
    return carray(memory_at(place[0]), (place[1],), dtype)


@njit(cache=True, nogil=True, error_model="numpy")
def _table(place: Any, dtype: Any) -> Any:
    return carray(memory_at(place[0]), (place[1], place[2]), dtype)


def _places(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return address, rows and columns of each array."""
    return np.array([(array.ctypes.data, *array.shape, 1)[:3] for array in arrays], np.int64)
