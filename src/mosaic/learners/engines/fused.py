"""Policy that acts and learns in compiled code: dense networks on the CPU, without torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.learners.engines.adam import load_optimiser_state, make_optimiser, optimiser_state
from mosaic.learners.engines.fused_anchor import anchor_rows, anchor_width
from mosaic.learners.engines.fused_ppo_update import (
    ANCHOR_KL,
    CLIPPED,
    ENTROPY,
    GRADIENT_NORM,
    KL,
    MINIBATCHES,
    POLICY_LOSS,
    ROWS,
    STATS,
    VALUE_LOSS,
    Batch,
    gradient,
    make_hyper,
    update,
)
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES, Bytes, Experience, Floats, Ints, LearnSettings, StateArrays, check_size
from mosaic.models.fused import RowBuffers, act_rows, build_model, greedy_rows, value_rows
from mosaic.models.layout import critic_place, initial_weights
from mosaic.models.random import random_streams

_SUMS = (POLICY_LOSS, VALUE_LOSS, ENTROPY, CLIPPED, KL)  # in the order of LOSSES


class FusedEngine:
    """One policy's flat weights, with scratch memory and the optimiser."""

    def __init__(self, architecture: Architecture, seed: int, log_std: float = 0.0) -> None:
        self.architecture = architecture
        self._model = build_model(architecture)
        self._weights = initial_weights(architecture, seed, log_std)
        self._optimiser = make_optimiser(self._weights)
        self._buffers = RowBuffers(self._model, seed)
        self._anchor: Floats | None = None
        self.seed_shuffles(child_seed(seed, "shuffle"))

    def weights(self) -> Floats:
        return self._weights.copy()

    def load(self, flat: Floats) -> None:
        check_size(flat, len(self._weights))
        self._weights[:] = flat

    def training_state(self) -> StateArrays:
        return optimiser_state(self._optimiser)

    def load_training_state(self, state: StateArrays) -> None:
        load_optimiser_state(self._optimiser, state)

    def acting_state(self) -> StateArrays:
        return {"streams": self._buffers.streams.copy(), "shuffle": self._shuffle.copy()}

    def load_acting_state(self, state: StateArrays) -> None:
        self._buffers.reserve(len(state["streams"]))
        self._buffers.streams[: len(state["streams"])] = state["streams"]
        self._shuffle[:] = state["shuffle"]

    def critic_place(self) -> slice:
        return critic_place(self.architecture)

    def set_anchor(self, flat: Floats) -> None:
        check_size(flat, len(self._weights))
        self._anchor = flat.copy()

    def seed_shuffles(self, seed: int) -> None:
        self._shuffle = random_streams(seed, 1)

    def act(
        self,
        obs: Floats,
        critic_obs: Floats,
        mask: Bytes,
        slots: Ints,
        first: Bytes,
        act: Floats,
        logp: Floats,
        val: Floats,
    ) -> None:
        self._buffers.reserve(len(obs))
        act_rows(
            self._weights,
            self._model,
            obs,
            critic_obs,
            mask,
            self._buffers.scratch,
            self._buffers.streams,
            act,
            logp,
            val,
        )

    def greedy(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes, act: Floats) -> None:
        self._buffers.reserve(len(obs))
        greedy_rows(self._weights, self._model, obs, mask, self._buffers.scratch, act)

    def values(self, obs: Floats, critic_obs: Floats, slots: Ints) -> Floats:
        self._buffers.reserve(len(obs))
        val = np.empty(len(obs), np.float32)
        value_rows(self._weights, self._model, obs, critic_obs, self._buffers.scratch, val)
        return val

    def begin_rollout(self) -> None:
        """Do nothing: dense networks have no memory."""

    def learn(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings, lr: float
    ) -> dict[str, float]:
        rows, stats = self._rows(batch, idx, settings), np.zeros(STATS, np.float64)
        order, scratch = idx.copy(), self._buffers.scratch  # the update shuffles the order
        update(self._optimiser, self._model, make_hyper(settings), lr, rows, order, scratch, self._shuffle, stats)
        found = report_of(stats)
        if self._anchor is not None:
            found["anchor_kl"] = float(stats[ANCHOR_KL] / max(stats[ROWS], 1))
        return found

    def measure(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings
    ) -> dict[str, float]:
        rows, stats = self._rows(batch, idx, settings), np.zeros(STATS, np.float64)
        slope, hyper, scratch = np.empty_like(self._weights), make_hyper(settings), self._buffers.scratch
        for chosen in np.split(idx, range(settings.batch_size, len(idx), settings.batch_size)):
            gradient(self._weights, slope, self._model, hyper, rows, chosen, scratch, stats)
        return losses_of(stats)

    def _rows(self, batch: Experience, idx: Ints, settings: LearnSettings) -> Batch:
        """Return the batch as the compiled functions take it, with the anchor's outputs for the rows in `idx`."""
        self._buffers.reserve(min(settings.batch_size, len(idx)))
        assert isinstance(batch.obs, np.ndarray), "pictures need the torch engine"
        assert isinstance(batch.critic_obs, np.ndarray)
        shape = (0, 0) if self._anchor is None else (len(batch.obs), anchor_width(self.architecture.head))
        anchor = np.empty(shape, np.float32)
        if self._anchor is not None:
            scratch, size = self._buffers.scratch, settings.batch_size
            anchor_rows(self._anchor, self._model, batch.obs, batch.mask, idx, size, scratch, anchor)
        return Batch(
            batch.obs, batch.critic_obs, batch.mask, batch.act, batch.logp, batch.val, batch.adv, batch.ret, anchor
        )


def losses_of(stats: NDArray[np.float64]) -> dict[str, float]:
    """Return the LOSSES, averaged over rows."""
    return {name: float(stats[place] / max(stats[ROWS], 1)) for name, place in zip(LOSSES, _SUMS, strict=True)}


def report_of(stats: NDArray[np.float64]) -> dict[str, float]:
    return {
        **losses_of(stats),
        "gradient_norm": float(stats[GRADIENT_NORM] / max(stats[MINIBATCHES], 1)),
        "minibatches": float(stats[MINIBATCHES]),
    }
