"""Activation functions and their derivatives, compiled.

The loops must stay free of calls that LLVM cannot vectorise: libm's tanh and exp take ten times as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit

NONE, TANH, RELU, SILU = -1, 0, 1, 2
CODES = {"tanh": TANH, "relu": RELU, "silu": SILU}

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_FAR = np.float32(7.90531110763549805)  # beyond this, tanh is ±1 in float32


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="always")
def fast_tanh(x: np.float32) -> np.float32:
    """Approximate tanh to within 4e-7 by a rational function."""
    x = min(max(x, -_FAR), _FAR)
    square = x * x
    above = square * np.float32(-2.76076847742355e-16) + np.float32(2.00018790482477e-13)
    above = square * above + np.float32(-8.60467152213735e-11)
    above = square * above + np.float32(5.12229709037114e-08)
    above = square * above + np.float32(1.48572235717979e-05)
    above = square * above + np.float32(6.37261928875436e-04)
    above = square * above + np.float32(4.89352455891786e-03)
    below = square * np.float32(1.19825839466702e-06) + np.float32(1.18534705686654e-04)
    below = square * below + np.float32(2.26843463243900e-03)
    below = square * below + np.float32(4.89352518554385e-03)
    return np.float32(x * above / below)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="always")
def fast_sigmoid(x: np.float32) -> np.float32:
    return np.float32(_HALF + _HALF * fast_tanh(_HALF * x))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def add_bias(y: NDArray[np.float32], bias: NDArray[np.float32], activation: int, slopes: NDArray[np.float32]) -> None:
    """Replace y by activation(y + bias), in place.

    Silu's derivative is not a function of its value, so it is stored in `slopes`. Other activations do not touch
    `slopes`; any matrix will do. All indices come from `range` alone: numba checks any other index for being negative,
    and LLVM then does not vectorise.
    """
    rows, width = y.shape
    if activation == TANH:
        for i in range(rows):
            for j in range(width):
                y[i, j] = fast_tanh(y[i, j] + bias[j])
    elif activation == RELU:
        for i in range(rows):
            for j in range(width):
                y[i, j] = max(y[i, j] + bias[j], _ZERO)
    elif activation == SILU:
        for i in range(rows):
            for j in range(width):
                x = y[i, j] + bias[j]
                gate = fast_sigmoid(x)
                y[i, j] = x * gate
                slopes[i, j] = gate * (_ONE + x * (_ONE - gate))
    else:
        for i in range(rows):
            for j in range(width):
                y[i, j] += bias[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def times_derivative(
    delta: NDArray[np.float32], y: NDArray[np.float32], activation: int, slopes: NDArray[np.float32]
) -> None:
    rows, width = delta.shape
    if activation == TANH:
        for i in range(rows):
            for j in range(width):
                delta[i, j] *= _ONE - y[i, j] * y[i, j]
    elif activation == RELU:
        for i in range(rows):
            for j in range(width):
                delta[i, j] *= np.float32(y[i, j] > _ZERO)
    else:
        for i in range(rows):
            for j in range(width):
                delta[i, j] *= slopes[i, j]
