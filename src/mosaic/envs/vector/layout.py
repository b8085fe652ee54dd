"""Layout of vector envs: flat arrays that every step overwrites, in memory that processes can share.

E envs with A agents each. An env has S slots: one per agent if all act together, one if they take turns (its agent
changes). Slot m belongs to env m // S. Rewards and ends belong to (env, agent) at e * A + a, because a waiting agent is
paid and can end too.
"""

# compiled code uses this file

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.system import anonymous_file
from mosaic.envs.vector.encoding import ActionHead


@dataclass(frozen=True, slots=True)
class VectorShape:
    envs: int
    agents: tuple[AgentID, ...]  # in the order of rows
    turn_based: bool
    widths: tuple[int, ...]  # number of columns that each agent observes
    heads: tuple[ActionHead, ...]  # action head of each agent
    masked: bool

    @property
    def slots_per_env(self) -> int:
        return 1 if self.turn_based else len(self.agents)

    @property
    def slots(self) -> int:
        return self.envs * self.slots_per_env

    @property
    def rows(self) -> int:
        return self.envs * len(self.agents)

    @property
    def width(self) -> int:
        return max(self.widths)

    @property
    def mask_width(self) -> int:
        return max(head.width for head in self.heads)

    @property
    def parts(self) -> int:
        return max(head.parts for head in self.heads)


class VectorArrays(NamedTuple):
    """C-contiguous arrays, allocated once, written in place; narrower agents leave the end of their rows zero.

    An episode that is over restarts within the same step: `term` and `trunc` mark the agents that ended in this step
    (both may be set; then nothing follows, as with `term` alone), `fin` is the agent's final observation, and
    everything else already belongs to the next episode. An agent that ends before its env does has an inactive slot
    until then.
    """

    obs: NDArray[np.float32]  # [slots, width]
    mask: NDArray[np.uint8]  # [slots, mask_width], or [0, mask_width] if nothing is ever illegal
    who: NDArray[np.int64]  # [slots] index of the agent that the slot holds now
    active: NDArray[np.uint8]  # [slots] 1: the slot must act now
    rew: NDArray[np.float32]  # [rows] paid in the last step
    term: NDArray[np.uint8]  # [rows]
    trunc: NDArray[np.uint8]  # [rows]
    fin: NDArray[np.float32]  # [rows, width] valid where trunc is set


class VectorEnv(Protocol):
    """Protocol of vector envs.

    The arrays are the same objects for the lifetime of the env; readers copy what they keep.
    """

    @property
    def shape(self) -> VectorShape: ...

    @property
    def obs(self) -> NDArray[np.float32]: ...

    @property
    def mask(self) -> NDArray[np.uint8]: ...

    @property
    def who(self) -> NDArray[np.int64]: ...

    @property
    def active(self) -> NDArray[np.uint8]: ...

    @property
    def rew(self) -> NDArray[np.float32]: ...

    @property
    def term(self) -> NDArray[np.uint8]: ...

    @property
    def trunc(self) -> NDArray[np.uint8]: ...

    @property
    def fin(self) -> NDArray[np.float32]: ...

    def reset(self, seed: int) -> None: ...  # every env at the start of an episode; nothing paid, nothing ended

    def step(self, act: NDArray[np.float32]) -> None: ...  # [slots, parts]; rows of inactive slots are not read

    def render(self, index: int) -> NDArray[np.uint8] | None: ...  # of one env; None if it cannot render

    def close(self) -> None: ...


@runtime_checkable
class CountsSteps(Protocol):
    """Vector env whose envs may step several times in one of its steps: while agents without a slot act."""

    @property
    def steps(self) -> NDArray[np.int64]: ...  # [envs] of its episode, in the last step; with those before its first


def step_counts(vector: VectorEnv) -> NDArray[np.int64] | None:
    """Return how often each env stepped in the vector's last step, an array that changes with it; None: once each."""
    return vector.steps if isinstance(vector, CountsSteps) else None


class EndedInfo(NamedTuple):
    """Numbers in the `info` of an agent's last step."""

    row: int  # of (env, agent), as in `rew`
    numbers: dict[str, float]


@runtime_checkable
class HasInfos(Protocol):
    """Vector env whose envs give an `info`."""

    @property
    def ended_infos(
        self,
    ) -> list[EndedInfo]: ...  # of agents that ended in the last step; the same list for its lifetime


def vector_arrays(shape: VectorShape) -> VectorArrays:
    """Allocate zeroed arrays, with every slot active and assigned to its own agent (in turn-based games the first)."""
    slots, rows, width = shape.slots, shape.rows, shape.width
    return VectorArrays(
        obs=np.zeros((slots, width), np.float32),
        mask=np.zeros((slots if shape.masked else 0, shape.mask_width), np.uint8),
        who=np.arange(slots, dtype=np.int64) % shape.slots_per_env,
        active=np.ones(slots, np.uint8),
        rew=np.zeros(rows, np.float32),
        term=np.zeros(rows, np.uint8),
        trunc=np.zeros(rows, np.uint8),
        fin=np.zeros((rows, width), np.float32),
    )


_LINE = 64  # bytes; processes that write next to each other must not share a cache line


class SharedArrays(NamedTuple):
    act: NDArray[np.float32]  # [slots, parts]
    steps: NDArray[np.int64]  # [envs] as in `CountsSteps`
    arrays: VectorArrays


@contextmanager
def nameless_memory(shape: VectorShape) -> Iterator[int]:
    """Yield a file descriptor of zeroed memory for this shape; the memory lives as long as it is mapped."""
    descriptor = anonymous_file()
    try:
        os.ftruncate(descriptor, _layout(shape)[1])
        yield descriptor
    finally:
        os.close(descriptor)


def map_arrays(descriptor: int, shape: VectorShape) -> SharedArrays:
    """Return the arrays in that memory; they hold the mapping, which is released with the last of them."""
    places, size = _layout(shape)
    memory = mmap.mmap(descriptor, size)
    act, steps, *arrays = (
        np.frombuffer(memory, dtype, count=int(np.prod(sizes)), offset=offset).reshape(sizes)
        for offset, sizes, dtype in places
    )
    return SharedArrays(act, steps, VectorArrays(*arrays))


def _layout(shape: VectorShape) -> tuple[list[tuple[int, tuple[int, ...], np.dtype[np.generic]]], int]:
    places: list[tuple[int, tuple[int, ...], np.dtype[np.generic]]] = []
    end = 0
    act, steps = np.empty((shape.slots, shape.parts), np.float32), np.empty(shape.envs, np.int64)
    for array in (act, steps, *vector_arrays(shape)):
        places.append((end, array.shape, array.dtype))
        end += -(-array.nbytes // _LINE) * _LINE
    return places, end
