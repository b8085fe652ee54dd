"""Policy with a GRU or minGRU that acts and learns in compiled code, without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.numba_cache import njit
from mosaic.learners.engines.adam import adam
from mosaic.learners.engines.fused import FusedEngine, losses_of, report_of
from mosaic.learners.engines.fused_ppo_update import (
    ADAM_EPSILON,
    GRADIENT_NORM,
    KL,
    KL_PATIENCE,
    MINIBATCHES,
    STATS,
    Batch,
    Hyper,
    gathered,
    gradient_of_inputs,
    make_hyper,
)
from mosaic.learners.engines.sequences import (
    EpisodeParts,
    Sequences,
    cut_at_episodes,
    line_up,
    minibatches,
    sequences_per_minibatch,
)
from mosaic.models.architecture import Architecture
from mosaic.models.dense import input_slopes, matrix
from mosaic.models.engine import Bytes, Experience, Floats, Ints, LearnSettings, StateArrays
from mosaic.models.fused import Model, Scratch, policy_outputs, probabilities, sample, value_rows
from mosaic.models.layout import apply_temperature
from mosaic.models.random import generator_state, load_generator, random_streams
from mosaic.models.recurrent import MemoryCell, MemoryScratch, build_cell, make_memory_scratch, unroll, unroll_back

_ZERO = np.float32(0)


class SequenceBatch(NamedTuple):
    """Sequences of one minibatch; `rows` are learned from, and are at `places` of the flattened table."""

    table: NDArray[np.int64]  # [L, N]
    first: NDArray[np.uint8]
    states: NDArray[np.float32]  # [N, size], with which the sequences begin
    rows: NDArray[np.int64]
    places: NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def memory_gradient(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    model: Model,
    cell: MemoryCell,
    hyper: Hyper,
    batch: Batch,
    replay: SequenceBatch,
    scratch: Scratch,
    remembered: MemoryScratch,
    stats: NDArray[np.float64],
) -> None:
    """Overwrite `slope` with the gradient of the PPO loss, averaged over `replay.rows`; add sums to stats."""
    count, size = replay.rows.shape[0], cell.size
    features = unroll(weights, cell, batch.obs, replay.first, replay.table, replay.states, remembered)
    inputs = gathered(features, replay.places, size, scratch.inputs)
    gradient_of_inputs(weights, slope, model, hyper, batch, replay.rows, inputs, scratch, stats)
    deltas = matrix(remembered.deltas, 0, features.shape[0], size)
    deltas[:] = _ZERO
    input_slopes(weights, model.policy, 0, count, scratch.policy, inputs)  # the inputs are not needed any more
    _add(inputs, replay.places, deltas)
    if not model.shared and batch.critic_obs.shape[1] == 0:
        input_slopes(weights, model.value, 0, count, scratch.value, inputs)
        _add(inputs, replay.places, deltas)
    unroll_back(weights, slope, cell, replay.first, replay.table, remembered)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _add(rows: NDArray[np.float32], places: NDArray[np.int64], out: NDArray[np.float32]) -> None:
    for k in range(rows.shape[0]):
        place = places[k]
        for j in range(rows.shape[1]):
            out[place, j] += rows[k, j]


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
        features = self._step(obs, slots, first)
        super().act(features, critic_obs, mask, slots, first, act, logp, val)

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
        self._make_slots(slots)
        return super().values(self._features(obs, slots, np.zeros(len(obs), np.uint8)), critic_obs, slots)

    def explain(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes) -> tuple[Floats, Floats]:
        self._make_slots(slots)
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
        self._make_slots(slots)
        features = self._features(obs, slots, first)
        self._states[slots] = features
        return features

    def _features(self, obs: Floats, slots: Ints, first: Bytes) -> Floats:
        self._reserve(len(obs))
        table, states = np.arange(len(obs))[None], self._states[slots]
        found: Floats = unroll(self._weights, self._cell, obs, first, table, states, self._remembered)
        return found

    def _make_slots(self, slots: Ints) -> None:
        """Make states for new slots; they start with zeros."""
        missing = int(slots.max(initial=-1)) + 1 - len(self._states)
        if missing > 0:
            self._states = np.concatenate([self._states, np.zeros((missing, self._states.shape[1]), np.float32)])

    def _reserve(self, rows: int) -> None:
        if rows > self._room:
            self._remembered, self._room = make_memory_scratch(self._cell, rows), rows

    # -- learning

    def learn(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings, lr: float
    ) -> dict[str, float]:
        rows, stats, hyper = self._rows(batch, idx, settings), np.zeros(STATS, np.float64), make_hyper(settings)
        episodes, optimiser = cut_at_episodes(sequence, first), self._optimiser
        sequences = line_up(episodes.sequence, idx)
        for _ in range(settings.n_epochs):
            for replay in self._replays(episodes, sequences, first, settings.batch_size):
                moved = stats[KL]
                self._add_gradient(optimiser.gradient, hyper, rows, replay, stats)
                moved = (stats[KL] - moved) / len(replay.rows)
                if hyper.target_kl > 0 and moved > KL_PATIENCE * hyper.target_kl:
                    return report_of(stats)
                stats[GRADIENT_NORM] += adam(optimiser, lr, hyper.max_grad_norm, ADAM_EPSILON)
                stats[MINIBATCHES] += 1
        return report_of(stats)

    def measure(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings
    ) -> dict[str, float]:
        rows, stats, slope = self._rows(batch, idx, settings), np.zeros(STATS, np.float64), np.empty_like(self._weights)
        episodes = cut_at_episodes(sequence, first)
        for replay in self._replays(episodes, line_up(episodes.sequence, idx), first, settings.batch_size):
            self._add_gradient(slope, make_hyper(settings), rows, replay, stats)
        return losses_of(stats)

    def _replays(
        self, episodes: EpisodeParts, sequences: Sequences, first: Bytes, batch_size: int
    ) -> Iterator[SequenceBatch]:
        """Yield minibatches of whole sequences in a random order, each from the state with which its rollout began."""
        size, slots = sequences_per_minibatch(sequences, batch_size), episodes.slots[sequences.slots]
        known = (slots >= 0) & (slots < len(self._start_states))
        states = np.zeros((len(slots), self._states.shape[1]), np.float32)
        states[known] = self._start_states[slots[known]]
        lengths = (sequences.rows >= 0).sum(1)
        for chosen in minibatches(self._order.permutation(len(slots)), size):
            longest = int(lengths[chosen].max())
            table = np.ascontiguousarray(sequences.rows[chosen, :longest].T)
            places = np.flatnonzero(sequences.learned[chosen, :longest].T)
            yield SequenceBatch(table, first, states[chosen], table.ravel()[places], places)

    def _add_gradient(
        self, slope: Floats, hyper: Hyper, rows: Batch, replay: SequenceBatch, stats: NDArray[np.float64]
    ) -> None:
        self._reserve(replay.table.size)
        self._buffers.reserve(len(replay.rows))
        memory_gradient(
            self._weights, slope, self._model, self._cell, hyper, rows, replay, self._buffers.scratch,
            self._remembered, stats,
        )  # fmt: skip
