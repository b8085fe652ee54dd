"""Common signature of all compiled envs, and a vector env of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

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
# facts, state, ints, outcomes [envs, actions]: writes the proven result of each action for the mover, or UNKNOWN
OUTLOOK = types.void(_FACTS, _STATE, _INTS, types.int8[:, ::1])
UNKNOWN = 9
# facts, state, ints, rows [envs, features]: writes the mover's row of `Features`
FEATURES = types.void(_FACTS, _STATE, _INTS, _OBS)
step_at, begin_at, outlook_at = function_at(STEP), function_at(BEGIN), function_at(OUTLOOK)
features_at = function_at(FEATURES)
CFUNC: dict[str, Any] = {"cache": True, "nopython": True, "error_model": "numpy"}

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Rows: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]
Number = TypeVar("Number", bound=np.generic)
Load: TypeAlias = Callable[[Env, Floats, Ints], None]  # loads one env's state and ints into the reference, to render it
Read: TypeAlias = Callable[[Rows, int, Floats, Ints], None]  # mover's observation row, index of the mover, state, ints


class MachineCode(Protocol):
    """Compiled function (`cfunc`) that numba calls through its address."""

    @property
    def address(self) -> int: ...

    def __call__(self, *arguments: object) -> None: ...


class Symmetry(NamedTuple):
    """Mapping of a game onto itself, as positions in rows: entry i of a mapped row is entry `observation[i]`."""

    observation: NDArray[np.int64]
    actions: NDArray[np.int64]  # likewise for rows of action probabilities and masks


class Features(NamedTuple):
    """Inputs that a network may read instead of the mover's observation.

    A feature is the sum of some rectified units of the observation, max(0, row @ weight + bias). A network that reads
    features is therefore also a network of dense layers that reads observations, and plays and exports as any other.
    """

    weight: NDArray[np.float32]  # [observation, units]
    bias: NDArray[np.float32]  # [units]
    feature: NDArray[np.int64]  # [units] of each unit; every feature has one at least
    write: MachineCode  # of the signature FEATURES: the same from a state, which is faster

    @property
    def width(self) -> int:
        return int(self.feature.max()) + 1


class SearchRules(NamedTuple):
    """Declaration that a kernel is a game of two agents that tree search can play.

    They act in turns, nothing is hidden or drawn by chance, and the only rewards are paid at the end: 1 for a win, 0
    for a draw, -1 for a loss. `mosaic.testing.check_search_rules` checks it.
    """

    read: Read  # writes the state and ints of the env that the mover observes
    symmetries: tuple[Symmetry, ...] = ()  # without the identity
    outlook: MachineCode | None = None  # of the signature OUTLOOK: results that need no search
    features: Features | None = None  # None: networks read the observation


class CompiledKernel(NamedTuple):
    """Description of a compiled env, except for the number of envs; by default it has one agent.

    `facts` are its constants, `state` and `ints` its variables, one row per env.
    """

    step: MachineCode  # of the signature STEP
    begin: MachineCode  # of the signature BEGIN
    facts: NDArray[np.float64]
    state_width: int
    ints_width: int
    widths: tuple[int, ...]
    heads: tuple[ActionHead, ...]
    agents: tuple[AgentID, ...] = (AGENT,)  # named as in GymnasiumEnv
    turn_based: bool = False
    masked: bool = False
    load: Load | None = None  # None: cannot be rendered
    owner: object = None  # of memory whose addresses are in the facts: it lives as long as the kernel
    search: SearchRules | None = None  # None: not a game that tree search can play

    def shape(self, envs: int) -> VectorShape:
        return VectorShape(envs, self.agents, self.turn_based, self.widths, self.heads, self.masked)


class KernelData(NamedTuple):
    """Constants and variables of a kernel's envs."""

    facts: NDArray[np.float64]
    state: NDArray[np.float64]  # [envs, state_width]
    ints: NDArray[np.int64]  # [envs, ints_width]
    rng: NDArray[np.uint64]  # [envs] random streams


def make_kernel_data(kernel: CompiledKernel, envs: int) -> KernelData:
    state, ints = np.zeros((envs, kernel.state_width)), np.zeros((envs, kernel.ints_width), np.int64)
    return KernelData(kernel.facts, state, ints, streams(0, envs))


@njit(cache=True, nogil=True, error_model="numpy")
def copy_state(source: KernelData, env: int, target: KernelData, to: int) -> None:
    """Make env `to` of the target continue as env `env` of the source would; facts are those of one kernel."""
    for i in range(source.state.shape[1]):
        target.state[to, i] = source.state[env, i]
    for i in range(source.ints.shape[1]):
        target.ints[to, i] = source.ints[env, i]
    target.rng[to] = source.rng[env]


class ReferenceRenderer:
    """Renders states of a compiled env in its reference env, which is made at the first picture."""

    def __init__(self, make: Callable[[], Env], load: Load) -> None:
        self._make, self._load = make, load
        self._env: Env | None = None

    def draw(self, state: Floats, ints: Ints) -> NDArray[np.uint8] | None:
        if self._env is None:
            self._env = self._make()
            self._env.reset(seed=0)
        self._load(self._env, state, ints)
        return self._env.render()

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None


class CompiledVector:
    """A kernel with its arrays; `reference` makes the env that renders."""

    def __init__(self, kernel: CompiledKernel, envs: int, reference: Callable[[], Env] | None = None) -> None:
        self.kernel = kernel
        self.shape = kernel.shape(envs)
        self.arrays = vector_arrays(self.shape)
        self.obs, self.mask, self.who, self.active, self.rew, self.term, self.trunc, self.fin = self.arrays
        self.data = make_kernel_data(kernel, envs)
        written = (self.obs, self.mask, self.who, self.rew, self.term, self.trunc, self.fin)
        self._places = _places(kernel.step, (*self.data, *written))
        self._act_shape = (self.shape.slots, self.shape.parts)
        self._renderer = ReferenceRenderer(reference, kernel.load) if reference and kernel.load else None

    @property
    def state(self) -> Floats:
        return self.data.state

    @property
    def ints(self) -> Ints:
        return self.data.ints

    @property
    def rng(self) -> Words:
        return self.data.rng

    def reset(self, seed: int) -> None:
        self.rng[:] = streams(seed, self.shape.envs)
        for paid_or_ended in (self.rew, self.term, self.trunc, self.fin):
            paid_or_ended[:] = 0
        _begin(self.kernel.begin.address, *self.data, self.obs, self.mask, self.who)

    def step(self, act: NDArray[np.float32]) -> None:
        if act.shape != self._act_shape:  # machine code would read beyond its end
            raise ValueError(f"Actions of shape {act.shape}, but {self._act_shape} (slots, parts) are needed.")
        _step(self._places, act)

    def render(self, index: int) -> NDArray[np.uint8] | None:
        return self.freeze(index)()

    def freeze(self, index: int) -> Callable[[], NDArray[np.uint8] | None]:
        """Return a function that renders one env as it is now, also in another thread while this one keeps stepping."""
        renderer, state, ints = self._renderer, self.state[index].copy(), self.ints[index].copy()
        return lambda: None if renderer is None else renderer.draw(state, ints)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()


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
def _begin(
    address: int, facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints
) -> None:
    begin_at(address)(facts, state, ints, rng, obs, mask, who)


# numba takes 80 ns to unpack an array from Python, so it gets the addresses of all but one in one array.
@njit(cache=True, nogil=True, error_model="numpy")
def _step(places: Ints, act: Rows) -> None:
    facts, state, ints = _line(places[1], np.float64), _table(places[2], np.float64), _table(places[3], np.int64)
    rng, obs, mask = _line(places[4], np.uint64), _table(places[5], np.float32), _table(places[6], np.uint8)
    who, rew, term = _line(places[7], np.int64), _line(places[8], np.float32), _line(places[9], np.uint8)
    trunc, fin = _line(places[10], np.uint8), _table(places[11], np.float32)
    step_at(places[0, 0])(facts, state, ints, rng, act, obs, mask, who, rew, term, trunc, fin)


@njit(cache=True, nogil=True, error_model="numpy")
def _line(place: Ints, dtype: type[Number]) -> NDArray[Number]:
    return carray(memory_at(place[0]), (place[1],), dtype)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def _table(place: Ints, dtype: type[Number]) -> NDArray[Number]:
    return carray(memory_at(place[0]), (place[1], place[2]), dtype)  # type: ignore[no-any-return]


def _places(step: MachineCode, arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    """Return the address of the machine code, then address, rows and columns of each array."""
    places = [(array.ctypes.data, *array.shape, 1)[:3] for array in arrays]
    return np.array([(step.address, 0, 0), *places], np.int64)
