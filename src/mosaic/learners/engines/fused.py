"""Policy that acts and learns in compiled code: dense networks on the CPU, without torch."""

from __future__ import annotations

import numpy as np

from mosaic.core.seeding import child_seed
from mosaic.learners.engines.adam import load_optimiser_state, make_optimiser, optimiser_state
from mosaic.learners.engines.fused_ppo_update import (
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
        self._shuffle = random_streams(child_seed(seed, "shuffle"), 1)

    def weights(self) -> Floats:
        return self._weights.copy()

    def load(self, flat: Floats) -> None:
        check_size(flat, len(self._weights))
        self._weights[:] = flat

    def training_state(self) -> StateArrays:
        return optimiser_state(self._optimiser)

    def load_training_state(self, state: StateArrays) -> None:
        load_optimiser_state(self._optimiser, state)

    def critic_place(self) -> slice:
        return critic_place(self.architecture)

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
        self._buffers.reserve(min(settings.batch_size, len(idx)))
        hyper = make_hyper(settings)
        assert isinstance(batch.obs, np.ndarray), "pictures need the torch engine"
        assert isinstance(batch.critic_obs, np.ndarray)
        rows = Batch(batch.obs, batch.critic_obs, batch.mask, batch.act, batch.logp, batch.val, batch.adv, batch.ret)
        stats = np.zeros(STATS, np.float64)
        order = idx.copy()  # the update shuffles it
        update(self._optimiser, self._model, hyper, lr, rows, order, self._buffers.scratch, self._shuffle, stats)
        return {
            **{name: float(stats[place] / max(stats[ROWS], 1)) for name, place in zip(LOSSES, _SUMS, strict=True)},
            "gradient_norm": float(stats[GRADIENT_NORM] / max(stats[MINIBATCHES], 1)),
            "minibatches": float(stats[MINIBATCHES]),
        }
