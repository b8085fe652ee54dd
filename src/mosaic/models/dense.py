"""Forward and backward passes of dense layers: BLAS products on views of flat vectors.

A net is data, not code: it holds the offset of each layer in the weights and in the scratch arrays, so one compiled
function serves every depth and width.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.models.activations import CODES, NONE, SILU, add_bias, times_derivative
from mosaic.models.architecture import Activation

_ZERO = np.float32(0)


class Net(NamedTuple):
    """Offsets and widths of the layers of one stack."""

    dims: NDArray[np.int64]  # widths: input, hidden layers, output
    weights: NDArray[np.int64]  # per layer: offset of its matrix [in, out] in the flat weights; its bias follows
    columns: NDArray[np.int64]  # per layer: scratch columns before its output
    activation: np.int64  # of the hidden layers


class NetScratch(NamedTuple):
    """Intermediate results of a net for a batch, layer after layer."""

    outputs: NDArray[np.float32]
    slopes: NDArray[np.float32]  # for the hidden layers, silu only
    deltas: NDArray[np.float32]  # d(loss) / d(output of a layer), activation included


def make_net(dims: Sequence[int], activation: Activation, start: int = 0) -> Net:
    """Return a net of these widths, whose layers are contiguous in the flat weights from `start` on."""
    widths = np.array(dims, np.int64)
    sizes = widths[:-1] * widths[1:] + widths[1:]
    starts = start + np.concatenate(([0], np.cumsum(sizes[:-1]))).astype(np.int64)
    columns = np.concatenate(([0], np.cumsum(widths[1:-1]))).astype(np.int64)
    return Net(widths, starts, columns, np.int64(CODES[activation]))


def net_size(dims: Sequence[int]) -> int:
    """Return the number of weights of a net of these widths."""
    return sum((width_in + 1) * width_out for width_in, width_out in pairwise(dims))


def make_net_scratch(net: Net, rows: int) -> NetScratch:
    size = rows * int(net.dims[1:].sum())
    slopes = size if net.activation == SILU else 1
    return NetScratch(np.zeros(size, np.float32), np.zeros(slopes, np.float32), np.zeros(size, np.float32))


def no_net_scratch() -> NetScratch:
    """Return a placeholder for the value net of a model that has no separate one."""
    return NetScratch(np.zeros(1, np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="always")
def matrix(flat: NDArray[np.float32], start: int, rows: int, columns: int) -> NDArray[np.float32]:
    return flat[start : start + rows * columns].reshape(rows, columns)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def forward(
    weights: NDArray[np.float32], net: Net, inputs: NDArray[np.float32], scratch: NetScratch
) -> NDArray[np.float32]:
    """Return the last layer's output [rows, out], a view of the scratch."""
    rows = inputs.shape[0]
    last = net.dims.shape[0] - 2
    x = inputs
    for layer in range(last + 1):
        width_in, width_out, start = net.dims[layer], net.dims[layer + 1], net.weights[layer]
        place = net.columns[layer] * rows
        y = matrix(scratch.outputs, place, rows, width_out)
        np.dot(x, matrix(weights, start, width_in, width_out), y)
        bias = start + width_in * width_out
        activation = net.activation if layer < last else NONE
        slopes = matrix(scratch.slopes, place, rows, width_out) if activation == SILU else y
        add_bias(y, weights[bias : bias + width_out], activation, slopes)
        x = y
    return x


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def last_delta(net: Net, rows: int, scratch: NetScratch) -> NDArray[np.float32]:
    """Return the array in which `backward` expects d(loss) / d(output)."""
    last = net.dims.shape[0] - 2
    delta: NDArray[np.float32] = matrix(scratch.deltas, net.columns[last] * rows, rows, net.dims[last + 1])
    return delta


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def backward(
    weights: NDArray[np.float32],
    gradient: NDArray[np.float32],
    net: Net,
    inputs: NDArray[np.float32],
    scratch: NetScratch,
) -> None:
    """Compute the gradient of all weights of this net from `last_delta`; `forward` must have run on the same inputs."""
    rows = inputs.shape[0]
    for layer in range(net.dims.shape[0] - 2, -1, -1):
        width_in, width_out, start = net.dims[layer], net.dims[layer + 1], net.weights[layer]
        delta = matrix(scratch.deltas, net.columns[layer] * rows, rows, width_out)
        below = net.columns[layer - 1] * rows if layer > 0 else 0
        x = inputs if layer == 0 else matrix(scratch.outputs, below, rows, width_in)
        np.dot(x.T, delta, matrix(gradient, start, width_in, width_out))
        bias = start + width_in * width_out
        sum_rows(delta, gradient[bias : bias + width_out])
        if layer > 0:
            _pass_down(weights, net, layer, rows, scratch)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def input_slopes(
    weights: NDArray[np.float32], net: Net, first: int, rows: int, scratch: NetScratch, out: NDArray[np.float32]
) -> None:
    """Write d(loss) / d(input) of the inputs from `first` on, from `last_delta`; `forward` must have run."""
    for layer in range(net.dims.shape[0] - 2, 0, -1):
        _pass_down(weights, net, layer, rows, scratch)
    slopes_after_backward(weights, net, first, rows, scratch, out)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def slopes_after_backward(
    weights: NDArray[np.float32], net: Net, first: int, rows: int, scratch: NetScratch, out: NDArray[np.float32]
) -> None:
    """Do as `input_slopes` after `backward`, which has computed the deltas of all layers."""
    width_in, width_out = net.dims[0], net.dims[1]
    delta = matrix(scratch.deltas, net.columns[0] * rows, rows, width_out)
    np.dot(delta, matrix(weights, net.weights[0] + first * width_out, width_in - first, width_out).T, out)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _pass_down(weights: NDArray[np.float32], net: Net, layer: int, rows: int, scratch: NetScratch) -> None:
    """Compute the delta of the layer below."""
    width_in, width_out, start = net.dims[layer], net.dims[layer + 1], net.weights[layer]
    delta = matrix(scratch.deltas, net.columns[layer] * rows, rows, width_out)
    below = net.columns[layer - 1] * rows
    x, delta_below = matrix(scratch.outputs, below, rows, width_in), matrix(scratch.deltas, below, rows, width_in)
    np.dot(delta, matrix(weights, start, width_in, width_out).T, delta_below)
    slopes = matrix(scratch.slopes, below, rows, width_in) if net.activation == SILU else x
    times_derivative(delta_below, x, net.activation, slopes)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def sum_rows(delta: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    out[:] = _ZERO
    for i in range(delta.shape[0]):
        for j in range(delta.shape[1]):
            out[j] += delta[i, j]


def set_product_threads(threads: int) -> None:
    """Set the threads of matrix products in compiled code.

    numba multiplies with scipy's OpenBLAS. Its threads wait by spinning: minibatches are too small to gain from them,
    and on a busy machine they cost many times the product itself. The environment variable OPENBLAS_NUM_THREADS does
    the same if it is set before scipy is imported; this works at any time. Does nothing where scipy uses another
    library: Apple's Accelerate, or that of a conda or Debian package.
    """
    blas = _blas()
    if blas is not None:
        blas.scipy_openblas_set_num_threads(ctypes.c_int(threads))


def product_threads() -> int | None:
    """Return the threads of matrix products in compiled code; None where Mosaic does not set them."""
    blas = _blas()
    return None if blas is None else int(blas.scipy_openblas_get_num_threads())


@cache
def _blas() -> ctypes.CDLL | None:
    """Return the OpenBLAS that scipy's wheels bring with them; None if this scipy has none."""
    import scipy.linalg.cython_blas  # loads the same library that numba will find

    return bundled_openblas(Path(scipy.__file__).parent)


def bundled_openblas(scipy: Path) -> ctypes.CDLL | None:
    for folder in (scipy.parent / "scipy.libs", scipy / ".dylibs"):  # of Linux and of macOS
        for path in sorted(folder.glob("libscipy_openblas*")):
            library = ctypes.CDLL(str(path))
            if hasattr(library, "scipy_openblas_set_num_threads"):
                return library
    return None
