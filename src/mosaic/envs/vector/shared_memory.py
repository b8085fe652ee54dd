"""Anonymous shared memory for the arrays of a vector env: no name that could be left behind."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.layout import VectorArrays, VectorShape, vector_arrays

_LINE = 64  # bytes; processes that write next to each other must not share a cache line


class SharedArrays(NamedTuple):
    act: NDArray[np.float32]  # [slots, parts]
    arrays: VectorArrays


@contextmanager
def nameless_memory(shape: VectorShape) -> Iterator[int]:
    """Yield a file descriptor of zeroed memory for this shape; the memory lives as long as it is mapped."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("mosaic-envs", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:  # anonymous from the start
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, _layout(shape)[1])
        yield descriptor
    finally:
        os.close(descriptor)


def map_arrays(descriptor: int, shape: VectorShape) -> SharedArrays:
    """Return the arrays in that memory; they hold the mapping, which is released with the last of them."""
    places, size = _layout(shape)
    memory = mmap.mmap(descriptor, size)
    act, *arrays = (
        np.frombuffer(memory, dtype, count=int(np.prod(sizes)), offset=offset).reshape(sizes)
        for offset, sizes, dtype in places
    )
    return SharedArrays(act, VectorArrays(*arrays))


def _layout(shape: VectorShape) -> tuple[list[tuple[int, tuple[int, ...], np.dtype[np.generic]]], int]:
    places: list[tuple[int, tuple[int, ...], np.dtype[np.generic]]] = []
    end = 0
    for array in (np.empty((shape.slots, shape.parts), np.float32), *vector_arrays(shape)):
        places.append((end, array.shape, array.dtype))
        end += -(-array.nbytes // _LINE) * _LINE
    return places, end
