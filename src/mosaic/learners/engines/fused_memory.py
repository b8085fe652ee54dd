"""Policy with a GRU or minGRU that acts and learns in compiled code, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.numba_cache import njit
from mosaic.learners.engines.fused import FusedEngine, losses_of, report_of
from mosaic.learners.engines.fused_memory_update import (
    RolloutSequences,
    chosen_sequences,
    memory_gradient,
    memory_update,
)
from mosaic.learners.engines.fused_ppo_update import STATS, make_hyper
from mosaic.learners.engines.sequences import (
    cut_at_episodes,
    largest_minibatch,
    line_up,
    minibatches,
    sequences_per_minibatch,
)
from mosaic.models.architecture import Architecture
from mosaic.models.engine import Bytes, Experience, Floats, Ints, LearnSettings, StateArrays
from mosaic.models.fused import Model, Scratch, act_rows, policy_outputs, probabilities, sample, value_rows
from mosaic.models.layout import apply_temperature
from mosaic.models.random import generator_state, load_generator, random_streams
from mosaic.models.recurrent import MemoryCell, MemoryScratch, build_cell, make_memory_scratch, recall


class ActingMemory(NamedTuple):
    """Arrays with which a recurrent policy acts; its states and random streams advance in place."""

    weights: NDArray[np.float32]
    model: Model
    cell: MemoryCell
    states: NDArray[np.float32]  # [slots, size]
    scratch: Scratch
    remembered: MemoryScratch
    rng: NDArray[np.uint64]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def act_with_memory(
    acting: ActingMemory,
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    mask: NDArray[np.uint8],
    slots: NDArray[np.int64],
    first: NDArray[np.uint8],
    act: NDArray[np.float32],
    logp: NDArray[np.float32],
    val: NDArray[np.float32],
) -> None:
    """Advance the memories of the slots, and do as `act_rows` with their new states."""
    weights, states = acting.weights, acting.states
    features = recall(weights, acting.cell, obs, slots, first, states, acting.remembered)
    for i in range(slots.shape[0]):
        slot = slots[i]
        for j in range(states.shape[1]):
            states[slot, j] = features[i, j]
    act_rows(weights, acting.model, features, critic_obs, mask, acting.scratch, acting.rng, act, logp, val)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def value_with_memory(
    acting: ActingMemory,
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    slots: NDArray[np.int64],
    val: NDArray[np.float32],
) -> None:
    """Write the values of observations that come next; the memories do not advance."""
    first = np.zeros(slots.shape[0], np.uint8)
    features = recall(acting.weights, acting.cell, obs, slots, first, acting.states, acting.remembered)
    value_rows(acting.weights, acting.model, features, critic_obs, acting.scratch, val)


class FusedMemoryEngine(FusedEngine):
    """One policy's flat weights, its memory states and the optimiser."""

    def __init__(self, architecture: Architecture, seed: int, log_std: float = 0.0) -> None:
        super().__init__(architecture, seed, log_std)
        self._cell = build_cell(architecture)
        self._remembered, self._room = make_memory_scratch(self._cell, 0), 0
        self._states = np.zeros((0, architecture.memory_size), np.float32)
        self._start_states = self._states
        self._tempered: tuple[float, Floats] | None = None  # a temperature, and weights that sample with it

    def load(self, flat: Floats) -> None:
        super().load(flat)
        self._tempered = None

    def acting_state(self) -> StateArrays:
        return super().acting_state() | {"order": generator_state(self._order), "states": self._states.copy()}

    def load_acting_state(self, state: StateArrays) -> None:
        super().load_acting_state(state)
        load_generator(self._order, state["order"])
        self._states = state["states"].copy()

    def set_anchor(self, flat: Floats) -> None:
        raise InputError("kl_anchor needs a network without memory: leave one of them out.")

    def seed_shuffles(self, seed: int) -> None:
        super().seed_shuffles(seed)
        self._order = np.random.default_rng(seed)

    # -- acting

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
        self._make_slots(int(slots.max(initial=-1)) + 1)
        acting = self._acting(len(obs))
        act_with_memory(acting, obs, critic_obs, mask, slots, first, act, logp, val)

    def acting_memory(self, slots: int) -> ActingMemory:
        """Return what it acts with, for slots below this number."""
        self._make_slots(slots)
        return self._acting(slots)

    def _acting(self, rows: int) -> ActingMemory:
        self._reserve(rows)
        self._buffers.reserve(rows)
        scratch, streams = self._buffers.scratch, self._buffers.streams
        return ActingMemory(self._weights, self._model, self._cell, self._states, scratch, self._remembered, streams)

    def greedy(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes, act: Floats) -> None:
        super().greedy(self._step(obs, slots, first), mask, slots, first, act)

    def stream(self, seed: int) -> NDArray[np.uint64]:
        return random_streams(seed, 1)

    def sample(
        self,
        obs: Floats,
        mask: Bytes,
        slots: Ints,
        first: Bytes,
        act: Floats,
        temperature: float,
        streams: Sequence[tuple[NDArray[np.uint64], int]],
    ) -> None:
        if self._tempered is None or self._tempered[0] != temperature:
            weights = self._weights.copy()
            apply_temperature(self.architecture, weights, temperature)
            self._tempered = temperature, weights
        features, weights = self._step(obs, slots, first), self._tempered[1]
        self._buffers.reserve(len(obs))
        out, logp = policy_outputs(weights, self._model, features, self._buffers.scratch), np.empty(1, np.float32)
        drawing = [stream for stream, count in streams for _ in range(count)]
        for row, stream in enumerate(drawing):  # rows of one stream draw from it in turn
            one = slice(row, row + 1)
            sample(weights, self._model.head, out[one], mask[one], stream, act[one], logp)

    def values(self, obs: Floats, critic_obs: Floats, slots: Ints) -> Floats:
        self._make_slots(int(slots.max(initial=-1)) + 1)
        val = np.empty(len(obs), np.float32)
        value_with_memory(self._acting(len(obs)), obs, critic_obs, slots, val)
        return val

    def explain(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes) -> tuple[Floats, Floats]:
        self._make_slots(int(slots.max(initial=-1)) + 1)
        features, head, count = self._features(obs, slots, first), self.architecture.head, len(obs)
        self._buffers.reserve(count)
        shares, values = np.zeros((count, head.width), np.float32), np.zeros(count, np.float32)
        if head.kind == "categorical":
            probabilities(self._weights, self._model, features, mask, self._buffers.scratch, shares)
        if not self.architecture.critic_observation:
            blind = np.zeros((count, 0), np.float32)
            value_rows(self._weights, self._model, features, blind, self._buffers.scratch, values)
        return shares, values

    def begin_rollout(self) -> None:
        self._start_states = self._states.copy()

    def _step(self, obs: Floats, slots: Ints, first: Bytes) -> Floats:
        """Return the memory's output for each row, and advance the memory states."""
        self._make_slots(int(slots.max(initial=-1)) + 1)
        features = self._features(obs, slots, first)
        self._states[slots] = features
        return features

    def _features(self, obs: Floats, slots: Ints, first: Bytes) -> Floats:
        self._reserve(len(obs))
        found: Floats = recall(self._weights, self._cell, obs, slots, first, self._states, self._remembered)
        return found

    def _make_slots(self, count: int) -> None:
        """Make states for new slots; they start with zeros."""
        missing = count - len(self._states)
        if missing > 0:
            self._states = np.concatenate([self._states, np.zeros((missing, self._states.shape[1]), np.float32)])

    def _reserve(self, rows: int) -> None:
        if rows > self._room:
            self._remembered, self._room = make_memory_scratch(self._cell, rows), rows

    # -- learning

    def learn(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings, lr: float
    ) -> dict[str, float]:
        rows, stats = self._rows(batch, idx, settings), np.zeros(STATS, np.float64)
        replay, size = self._replay(sequence, first, idx, settings.batch_size)
        orders = np.stack([self._order.permutation(len(replay.rows)) for _ in range(settings.n_epochs)])
        memory_update(
            self._optimiser, self._model, self._cell, make_hyper(settings), lr, rows, replay, orders, size,
            self._buffers.scratch, self._remembered, stats,
        )  # fmt: skip
        return report_of(stats)

    def measure(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings
    ) -> dict[str, float]:
        rows, stats, slope = self._rows(batch, idx, settings), np.zeros(STATS, np.float64), np.empty_like(self._weights)
        replay, size = self._replay(sequence, first, idx, settings.batch_size)
        for chosen in minibatches(self._order.permutation(len(replay.rows)), size):
            memory_gradient(
                self._weights, slope, self._model, self._cell, make_hyper(settings), rows, first,
                chosen_sequences(replay, chosen), self._buffers.scratch, self._remembered, stats,
            )  # fmt: skip
        return losses_of(stats)

    def _replay(self, sequence: Ints, first: Bytes, idx: Ints, batch_size: int) -> tuple[RolloutSequences, int]:
        """Return the sequences, each with the state with which its rollout began, and how many are in a minibatch.

        Makes room for the largest minibatch.
        """
        episodes = cut_at_episodes(sequence, first)
        sequences = line_up(episodes.sequence, idx)
        size, slots = sequences_per_minibatch(sequences, batch_size), episodes.slots[sequences.slots]
        known = (slots >= 0) & (slots < len(self._start_states))
        states = np.zeros((len(slots), self._states.shape[1]), np.float32)
        states[known] = self._start_states[slots[known]]
        lengths = (sequences.rows >= 0).sum(1)
        self._reserve(size * int(lengths.max(initial=0)))
        self._buffers.reserve(largest_minibatch(sequences, size))
        return RolloutSequences(sequences.rows, sequences.learned, lengths, first, states), size
