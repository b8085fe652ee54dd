"""Compiled gated memories, GRU and minGRU: sequences forwards, and backwards through time.

Rows of a sequence table are in time order: row t·N + i is step t of sequence i. The input's part of all gates is one
product; only the state's part has to follow time, and a minGRU's gates do not depend on the state. The gradients of
the weights are one product over all steps.

Each loop over the columns of a row reads and writes few arrays: LLVM checks at run time that they do not overlap, and
with many of them it finds that more costly than what vectors gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.models.activations import fast_sigmoid, fast_tanh
from mosaic.models.architecture import Architecture
from mosaic.models.dense import matrix, sum_rows
from mosaic.models.layout import MEMORY, tensors

GRU, MINGRU = 0, 1

_ZERO, _ONE = np.float32(0), np.float32(1)


class MemoryCell(NamedTuple):
    """Widths of a memory, and offsets of its tensors in the flat weights; a minGRU has none that read the state."""

    kind: np.int64  # GRU or MINGRU
    inputs: np.int64
    size: np.int64
    gates: np.int64  # their number: reset, update and candidate; update and candidate
    input_weights: np.int64  # [gates · size, inputs]
    input_bias: np.int64
    state_weights: np.int64  # [gates · size, size]
    state_bias: np.int64


class MemoryScratch(NamedTuple):
    """Intermediate results of a table of sequences, flat; each thread needs its own."""

    inputs: NDArray[np.float32]
    gates: NDArray[np.float32]  # after their activations
    before: NDArray[np.float32]  # the state that each step begins with, after a reset
    recalled: NDArray[np.float32]  # the state's part of a GRU's candidate, before the reset gate
    features: NDArray[np.float32]  # the state after each step
    step: NDArray[np.float32]  # the state's part of the gates of one step
    input_deltas: NDArray[np.float32]  # d(loss) / d(the input's part of the gates)
    state_deltas: NDArray[np.float32]  # d(loss) / d(the state's part of the gates)
    deltas: NDArray[np.float32]  # d(loss) / d(features)
    carried: NDArray[np.float32]  # d(loss) / d(state), from step to step
    turned: NDArray[np.float32]  # a GRU's state weights transposed, which makes the products of many steps faster


def build_cell(architecture: Architecture) -> MemoryCell:
    places = {tensor.name.rpartition(".")[2]: tensor.start for tensor in tensors(architecture)
              if tensor.name.startswith(MEMORY)}  # fmt: skip
    whole = {"weight": MINGRU, "weight_ih": GRU}
    kind = next(whole[name] for name in places if name in whole)
    at = [places.get(name, 0) for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
    if kind == MINGRU:
        at[:2] = places["weight"], places["bias"]
    widths = (kind, architecture.observation, architecture.memory_size, 3 if kind == GRU else 2)
    return MemoryCell(*(np.int64(number) for number in (*widths, *at)))


def make_memory_scratch(cell: MemoryCell, rows: int) -> MemoryScratch:
    """Allocate for tables of up to `rows` steps in all."""
    inputs, size, gates = int(cell.inputs), int(cell.size), int(cell.gates * cell.size)
    widths = (inputs, gates, size, size, size, gates, gates, gates, size, size)
    lengths = (*(rows * width for width in widths), gates * size)
    return MemoryScratch(*(np.zeros(length, np.float32) for length in lengths))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def unroll(
    weights: NDArray[np.float32],
    cell: MemoryCell,
    obs: NDArray[np.float32],
    first: NDArray[np.uint8],
    table: NDArray[np.int64],
    states: NDArray[np.float32],
    scratch: MemoryScratch,
) -> NDArray[np.float32]:
    """Return the state after each step [L · N, size], a view of the scratch.

    `table` [L, N] lists rows of `obs` and `first`; −1 pads the end of a short sequence. `states` [N, size] come before
    the first step, and are reset where a row is the first of its episode.
    """
    steps, lanes = table.shape
    rows, size, wide = steps * lanes, cell.size, cell.gates * cell.size
    inputs = matrix(scratch.inputs, 0, rows, cell.inputs)
    for t in range(steps):
        for i in range(lanes):
            row = max(table[t, i], 0)
            for j in range(cell.inputs):
                inputs[t * lanes + i, j] = obs[row, j]
    gates = matrix(scratch.gates, 0, rows, wide)
    np.dot(inputs, matrix(weights, cell.input_weights, wide, cell.inputs).T, gates)
    if cell.kind == GRU:
        _begin_gru(weights, cell, gates, steps, scratch)
    before, features = matrix(scratch.before, 0, rows, size), matrix(scratch.features, 0, rows, size)
    for t in range(steps):
        low, high = t * lanes, (t + 1) * lanes
        for i in range(lanes):
            keep = _ZERO if first[max(table[t, i], 0)] else _ONE
            for j in range(size):
                state = states[i, j] if t == 0 else features[low - lanes + i, j]
                before[low + i, j] = keep * state
        if cell.kind == GRU:
            from_state = matrix(scratch.step, 0, lanes, wide)
            if steps > 1:
                np.dot(before[low:high], matrix(scratch.turned, 0, size, wide), from_state)
            else:
                np.dot(before[low:high], matrix(weights, cell.state_weights, wide, size).T, from_state)
            recalled = matrix(scratch.recalled, low * size, lanes, size)
            _gru(weights, cell, gates[low:high], from_state, before[low:high], recalled, features[low:high])
        else:
            _mingru(weights, cell, gates[low:high], before[low:high], features[low:high])
    found: NDArray[np.float32] = features
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def recall(
    weights: NDArray[np.float32],
    cell: MemoryCell,
    obs: NDArray[np.float32],
    slots: NDArray[np.int64],
    first: NDArray[np.uint8],
    states: NDArray[np.float32],
    scratch: MemoryScratch,
) -> NDArray[np.float32]:
    """Return the states of the listed slots after one step [N, size], a view of the scratch; `states` do not change."""
    table = np.empty((1, slots.shape[0]), np.int64)
    for i in range(slots.shape[0]):
        table[0, i] = i
    found: NDArray[np.float32] = unroll(weights, cell, obs, first, table, states[slots], scratch)
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _begin_gru(
    weights: NDArray[np.float32], cell: MemoryCell, gates: NDArray[np.float32], steps: int, scratch: MemoryScratch
) -> None:
    """Add the biases that do not depend on time, and transpose the state's weights if there are several steps."""
    rows, wide = gates.shape
    bias = scratch.step[:wide]
    bias[:] = weights[cell.input_bias : cell.input_bias + wide]
    state_bias = weights[cell.state_bias : cell.state_bias + 2 * cell.size]
    for j in range(2 * cell.size):  # the candidate's is within the reset gate
        bias[j] += state_bias[j]
    for i in range(rows):
        for j in range(wide):
            gates[i, j] += bias[j]
    if steps > 1:
        upright, turned = (
            matrix(weights, cell.state_weights, wide, cell.size),
            matrix(scratch.turned, 0, cell.size, wide),
        )
        for j in range(cell.size):
            for k in range(wide):
                turned[j, k] = upright[k, j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _gru(
    weights: NDArray[np.float32],
    cell: MemoryCell,
    gates: NDArray[np.float32],
    from_state: NDArray[np.float32],
    before: NDArray[np.float32],
    recalled: NDArray[np.float32],
    after: NDArray[np.float32],
) -> None:
    lanes, size = before.shape
    gate, part = gates.reshape(lanes, 3, size), from_state.reshape(lanes, 3, size)  # reset, update, candidate
    bias = weights[cell.state_bias + 2 * size : cell.state_bias + 3 * size]
    for i in range(lanes):
        for j in range(2 * size):
            gates[i, j] = fast_sigmoid(gates[i, j] + from_state[i, j])
        for j in range(size):
            recalled[i, j] = part[i, 2, j] + bias[j]
        for j in range(size):
            gate[i, 2, j] = fast_tanh(gate[i, 2, j] + gate[i, 0, j] * recalled[i, j])
        for j in range(size):
            after[i, j] = gate[i, 2, j] + gate[i, 1, j] * (before[i, j] - gate[i, 2, j])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _mingru(
    weights: NDArray[np.float32],
    cell: MemoryCell,
    gates: NDArray[np.float32],
    before: NDArray[np.float32],
    after: NDArray[np.float32],
) -> None:
    lanes, size = before.shape
    bias = weights[cell.input_bias : cell.input_bias + 2 * size]
    for i in range(lanes):
        for j in range(size):
            update, candidate = fast_sigmoid(gates[i, j] + bias[j]), gates[i, size + j] + bias[size + j]
            gates[i, j], gates[i, size + j] = update, candidate
            after[i, j] = before[i, j] + update * (candidate - before[i, j])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def unroll_back(
    weights: NDArray[np.float32],
    gradient: NDArray[np.float32],
    cell: MemoryCell,
    first: NDArray[np.uint8],
    table: NDArray[np.int64],
    scratch: MemoryScratch,
) -> None:
    """Write the gradient of the memory's weights from `scratch.deltas`, after `unroll` with the same table.

    What flows into the states before the first step is dropped: back-propagation is truncated there.
    """
    steps, lanes = table.shape
    rows, size = steps * lanes, cell.size
    wide = cell.gates * size
    deltas, carried = matrix(scratch.deltas, 0, rows, size), matrix(scratch.carried, 0, lanes, size)
    input_deltas = matrix(scratch.input_deltas, 0, rows, wide)
    state_deltas = matrix(scratch.state_deltas, 0, rows, wide)
    carried[:] = _ZERO
    for t in range(steps - 1, -1, -1):
        low, high = t * lanes, (t + 1) * lanes
        for i in range(lanes):
            for j in range(size):
                carried[i, j] += deltas[low + i, j]
        if cell.kind == GRU:
            _gru_back(cell, low, lanes, scratch, carried)
            if t == 0:
                break
            through = matrix(scratch.step, 0, lanes, size)
            np.dot(state_deltas[low:high], matrix(weights, cell.state_weights, wide, size), through)
            for i in range(lanes):
                for j in range(size):
                    carried[i, j] += through[i, j]
        else:
            _mingru_back(cell, low, lanes, scratch, carried)
        for i in range(lanes):
            if first[max(table[t, i], 0)]:
                for j in range(size):
                    carried[i, j] = _ZERO
    np.dot(
        input_deltas.T,
        matrix(scratch.inputs, 0, rows, cell.inputs),
        matrix(gradient, cell.input_weights, wide, cell.inputs),
    )
    sum_rows(input_deltas, gradient[cell.input_bias : cell.input_bias + wide])
    if cell.kind == GRU:
        before = matrix(scratch.before, 0, rows, size)
        np.dot(state_deltas.T, before, matrix(gradient, cell.state_weights, wide, size))
        sum_rows(state_deltas, gradient[cell.state_bias : cell.state_bias + wide])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _gru_back(cell: MemoryCell, low: int, lanes: int, scratch: MemoryScratch, carried: NDArray[np.float32]) -> None:
    """Write the deltas of one step's gates; `carried` keeps what does not pass through them."""
    size = cell.size
    start, end = low * 3 * size, (low + lanes) * 3 * size
    gate = scratch.gates[start:end].reshape(lanes, 3, size)  # reset, update, candidate
    from_input = scratch.input_deltas[start:end].reshape(lanes, 3, size)
    from_state = scratch.state_deltas[start:end].reshape(lanes, 3, size)
    before = matrix(scratch.before, low * size, lanes, size)
    recalled = matrix(scratch.recalled, low * size, lanes, size)
    for i in range(lanes):
        for j in range(size):
            candidate = gate[i, 2, j]
            from_input[i, 2, j] = carried[i, j] * (_ONE - gate[i, 1, j]) * (_ONE - candidate * candidate)
        for j in range(size):
            update = gate[i, 1, j]
            from_input[i, 1, j] = carried[i, j] * (before[i, j] - gate[i, 2, j]) * update * (_ONE - update)
        for j in range(size):
            reset = gate[i, 0, j]
            from_input[i, 0, j] = from_input[i, 2, j] * recalled[i, j] * reset * (_ONE - reset)
        for j in range(size):
            from_state[i, 0, j] = from_input[i, 0, j]
        for j in range(size):
            from_state[i, 1, j] = from_input[i, 1, j]
        for j in range(size):
            from_state[i, 2, j] = from_input[i, 2, j] * gate[i, 0, j]
        for j in range(size):
            carried[i, j] *= gate[i, 1, j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _mingru_back(cell: MemoryCell, low: int, lanes: int, scratch: MemoryScratch, carried: NDArray[np.float32]) -> None:
    size = cell.size
    gates = matrix(scratch.gates, low * 2 * size, lanes, 2 * size)
    before = matrix(scratch.before, low * size, lanes, size)
    input_deltas = matrix(scratch.input_deltas, low * 2 * size, lanes, 2 * size)
    for i in range(lanes):
        for j in range(size):
            update, candidate, delta = gates[i, j], gates[i, size + j], carried[i, j]
            input_deltas[i, j] = delta * (candidate - before[i, j]) * update * (_ONE - update)
            input_deltas[i, size + j] = delta * update
            carried[i, j] = delta * (_ONE - update)
