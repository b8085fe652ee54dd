"""Anchor of a dense network: outputs of a frozen policy, from which `kl_anchor` measures the KL divergence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.vector.encoding import ActionHead
from mosaic.learners.engines.fused_ppo_update import gathered
from mosaic.models.dense import forward
from mosaic.models.fused import CATEGORICAL, Model, OutputHead, Scratch

_ZERO, _LOWEST, _FORBIDDEN = np.float32(0), np.float32(-1e30), np.float32(-1e9)


def anchor_width(head: ActionHead) -> int:
    """Return the columns of an anchor's row: log-probabilities of choices, or means and log deviations of numbers."""
    return head.width if head.kind == "categorical" else 2 * head.width


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def anchor_rows(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    mask: NDArray[np.uint8],
    idx: NDArray[np.int64],
    batch_size: int,
    scratch: Scratch,
    rows: NDArray[np.float32],
) -> None:
    """Write the anchor's outputs for the listed rows; `batch_size` of them at a time, for which scratch has room."""
    head = model.head
    for start in range(0, idx.shape[0], batch_size):
        chosen = idx[start : min(start + batch_size, idx.shape[0])]
        inputs = gathered(obs, chosen, model.policy.dims[0], scratch.inputs)
        out = forward(weights, model.policy, inputs, scratch.policy)
        if head.kind == CATEGORICAL:
            _log_probabilities(head, out, mask, chosen, rows)
        else:
            for i in range(chosen.shape[0]):
                for part in range(head.parts):
                    rows[chosen[i], part] = out[i, part]
                    rows[chosen[i], head.parts + part] = weights[head.log_std + part]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _log_probabilities(
    head: OutputHead,
    out: NDArray[np.float32],
    mask: NDArray[np.uint8],
    chosen: NDArray[np.int64],
    rows: NDArray[np.float32],
) -> None:
    masked = mask.shape[0] > 0
    for i in range(chosen.shape[0]):
        row, first = chosen[i], 0
        for part in range(head.sizes.shape[0]):
            end = first + head.sizes[part]
            top, total = _LOWEST, _ZERO
            for a in range(first, end):
                rows[row, a] = out[i, a] if not masked or mask[row, a] != 0 else _FORBIDDEN
                top = max(top, rows[row, a])
            for a in range(first, end):
                total += np.exp(rows[row, a] - top)
            level = top + np.log(total)
            for a in range(first, end):
                rows[row, a] -= level
            first = end
