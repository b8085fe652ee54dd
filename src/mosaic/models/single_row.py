"""Compiled decisions for a single row, within microseconds when called from Python.

A compiled function pays about 0.2 µs per array it is called with, nested tuples included. Here the whole model is one
array of integers, and the products are plain loops: for one row BLAS gains nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.models.activations import NONE, RELU, SILU, TANH, fast_sigmoid, fast_tanh
from mosaic.models.dense import matrix
from mosaic.models.fused import CATEGORICAL, SQUASHED, Model

# Indices into a plan; after _FACTS: sizes of the parts, then (width in, width out, offset in the weights) of every
# layer
_KIND, _PARTS, _ACTIVATION, _LAYERS, _WIDEST, _FACTS = range(6)

_ZERO = np.float32(0)


def row_plan(model: Model) -> NDArray[np.int64]:
    """Return the policy of a model as one array."""
    dims, starts = model.policy.dims, model.policy.weights
    sizes = model.head.sizes if model.head.kind == CATEGORICAL else np.array([model.head.parts])
    facts = np.array([model.head.kind, len(sizes), model.policy.activation, len(starts), dims.max()])
    layers = np.stack((dims[:-1], dims[1:], starts), axis=1)
    return np.concatenate((facts, sizes, layers.ravel())).astype(np.int64)


def row_room(model: Model) -> NDArray[np.float32]:
    """Allocate scratch space for `decide_row`: two layers at a time."""
    return np.zeros(2 * int(model.policy.dims.max()), np.float32)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def decide_row(
    weights: NDArray[np.float32],
    plan: NDArray[np.int64],
    row: NDArray[np.float32],
    mask: NDArray[np.uint8],
    room: NDArray[np.float32],
    act: NDArray[np.float32],
) -> np.int64:
    """Write the most probable action into act (ties: the lowest) and return the first part's choice (numbers: 0).

    `row` must have exactly the policy's width. An empty mask means that everything is legal.
    """
    widest, parts, last = plan[_WIDEST], plan[_PARTS], plan[_LAYERS] - 1
    source, target = widest, 0
    for j in range(plan[_FACTS + parts]):
        room[source + j] = row[j]
    for layer in range(last + 1):
        at = _FACTS + parts + 3 * layer
        width_in, width_out, start = plan[at], plan[at + 1], plan[at + 2]
        bias = start + width_in * width_out
        _layer(
            room[source : source + width_in],
            matrix(weights, start, width_in, width_out),
            weights[bias : bias + width_out],
            room[target : target + width_out],
            plan[_ACTIVATION] if layer < last else NONE,
        )
        source, target = target, source
    if plan[_KIND] != CATEGORICAL:
        for part in range(plan[_FACTS]):
            act[part] = fast_tanh(room[source + part]) if plan[_KIND] == SQUASHED else room[source + part]
        return np.int64(0)
    first = 0
    for part in range(parts):
        end = first + plan[_FACTS + part]
        best = -1
        for a in range(first, end):
            legal = mask.shape[0] == 0 or mask[a] != 0
            if legal and (best < 0 or room[source + a] > room[source + best]):
                best = a
        act[part] = np.float32(max(best - first, 0))
        first = end
    return np.int64(act[0])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _layer(
    x: NDArray[np.float32],
    product: NDArray[np.float32],
    bias: NDArray[np.float32],
    y: NDArray[np.float32],
    activation: int,
) -> None:
    """Compute one layer; indices come from `range` alone, see activations.add_bias."""
    for j in range(y.shape[0]):
        y[j] = bias[j]
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            y[j] += x[i] * product[i, j]
    if activation == TANH:
        for j in range(y.shape[0]):
            y[j] = fast_tanh(y[j])
    elif activation == RELU:
        for j in range(y.shape[0]):
            y[j] = max(y[j], _ZERO)
    elif activation == SILU:
        for j in range(y.shape[0]):
            y[j] *= fast_sigmoid(y[j])
