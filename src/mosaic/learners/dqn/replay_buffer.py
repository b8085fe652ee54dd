"""Replay buffer of decisions: a ring of flat arrays that compiled loops fill.

A decision is complete when its agent decides again or ends. In turn-based games others move in between; rewards paid in
the meantime belong to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.vector.layout import VectorArrays, VectorShape
from mosaic.learners.recorded import RecordedSteps
from mosaic.models.packed_rows import PackedRows, RowPacking, Rows

_ZERO, _ONE = np.float32(0), np.float32(1)


class ReplayRing(NamedTuple):
    """The newest decisions; the oldest is overwritten."""

    obs: NDArray[np.float32]  # [N, D]; bytes of packed rows where observations hold images
    act: NDArray[Any]  # [N] int64 choices, or [N, parts] float32 numbers
    reward: NDArray[np.float32]  # [N]
    next_obs: NDArray[np.float32]  # [N, D] the agent's next observation; arbitrary where nothing follows
    next_mask: NDArray[np.uint8]  # [N or 0, W] legal actions then; all of them where an episode was truncated
    follows: NDArray[np.float32]  # [N] 0: the episode terminated, 1: it continued or was truncated
    written: NDArray[np.int64]  # [1] number of decisions ever stored, besides the recorded ones
    expert: NDArray[np.float32]  # [K] weights of the first rows, which are recorded and never overwritten, as examples
    mask: NDArray[np.uint8]  # [K or 0, W] legal actions of these rows


class Held(NamedTuple):
    """The last decision of every (env, agent) until it is complete."""

    obs: NDArray[np.float32]  # [E*A, D]
    act: NDArray[Any]  # [E*A], or [E*A, parts] as in the ring
    reward: NDArray[np.float32]  # [E*A] reward since then
    waits: NDArray[np.uint8]  # [E*A] 1: there is one


def make_ring(
    shape: VectorShape, size: int, packing: RowPacking | None = None, recorded: RecordedSteps | None = None
) -> ReplayRing:
    """Allocate the ring; pages that are never written take no memory.

    With `packing`, observations are kept as packed rows of bytes. `recorded` decisions are stored once and for all.
    """
    kept = 0 if recorded is None else len(recorded)
    ring = _empty_ring(shape, kept + size, kept, packing)
    if recorded is not None:
        _store_recorded(ring, recorded, packing)
    return ring


def _store_recorded(ring: ReplayRing, recorded: RecordedSteps, packing: RowPacking | None) -> None:
    kept, after = len(recorded), recorded.place + 1
    seen: NDArray[Any] = recorded.seen if packing is None else packing.pack(recorded.seen)
    ring.obs[:kept], ring.next_obs[:kept] = seen[recorded.place], seen[after]
    ring.act[:kept], ring.reward[:kept] = recorded.act[:, 0].astype(np.int64), recorded.reward
    ring.follows[:kept], ring.expert[:] = 1 - recorded.terminated, recorded.weight
    if len(ring.next_mask):
        ring.mask[:], ring.next_mask[:kept] = 1, 1
        if len(recorded.seen_mask):
            ring.mask[:], ring.next_mask[:kept] = recorded.mask, recorded.seen_mask[after]


def _empty_ring(shape: VectorShape, size: int, kept: int, packing: RowPacking | None) -> ReplayRing:
    return ReplayRing(
        obs=_observations(size, shape, packing),
        act=_actions(size, shape),
        reward=np.zeros(size, np.float32),
        next_obs=_observations(size, shape, packing),
        next_mask=np.zeros((size if shape.masked else 0, shape.mask_width), np.uint8),
        follows=np.zeros(size, np.float32),
        written=np.zeros(1, np.int64),
        expert=np.zeros(kept, np.float32),
        mask=np.zeros((kept if shape.masked else 0, shape.mask_width), np.uint8),
    )


def make_held(shape: VectorShape, packing: RowPacking | None = None) -> Held:
    rows = shape.rows
    return Held(
        _observations(rows, shape, packing),
        _actions(rows, shape),
        np.zeros(rows, np.float32),
        np.zeros(rows, np.uint8),
    )


def _actions(rows: int, shape: VectorShape) -> NDArray[Any]:
    if shape.heads[0].kind == "categorical":
        return np.zeros(rows, np.int64)
    return np.zeros((rows, shape.parts), np.float32)


def _observations(rows: int, shape: VectorShape, packing: RowPacking | None) -> NDArray[Any]:
    if packing is None:
        return np.zeros((rows, shape.width), np.float32)
    return np.zeros((rows, packing.size), np.uint8)


class ReplayBuffer:
    """Ring of decisions for engines in Python; observations with images are kept as packed rows of bytes."""

    def __init__(
        self,
        shape: VectorShape,
        size: int,
        packing: RowPacking | None = None,
        recorded: RecordedSteps | None = None,
    ) -> None:
        self.ring: ReplayRing = make_ring(shape, size, packing, recorded)
        self._held = make_held(shape, packing)
        self._packing, self._envs = packing, shape.envs
        self._no_final = None if packing is None else np.zeros((shape.rows, packing.size), np.uint8)

    @property
    def filled(self) -> int:
        """Number of decisions to sample from, besides the recorded ones."""
        return min(int(self.ring.written[0]), len(self.ring.act) - len(self.ring.expert))

    def draw(self, generator: np.random.Generator, count: int, demo_share: float) -> NDArray[np.int64]:
        """Draw decisions with replacement, this share of them from the recorded ones."""
        kept, filled = len(self.ring.expert), self.filled
        idx = kept + generator.integers(max(1, filled), size=count)
        if kept:
            from_kept = generator.random(count) < (demo_share if filled else 1.0)
            idx[from_kept] = generator.integers(kept, size=int(from_kept.sum()))
        return idx

    def hold(self, env: VectorArrays, act: NDArray[np.float32]) -> int:
        """Hold the decisions of all active slots before a step; return their number."""
        return int(hold(self._held, self._packed(env), self._envs, act))

    def settle(self, env: VectorArrays, reward: NDArray[np.float32]) -> None:
        """Add rewards after a step, and store the decisions that are now complete."""
        settle(self.ring, self._held, self._packed(env), self._envs, reward)

    def observations(self, idx: NDArray[np.int64]) -> Rows:
        return self._rows(self.ring.obs[idx])

    def next_observations(self, idx: NDArray[np.int64]) -> Rows:
        return self._rows(self.ring.next_obs[idx])

    def _rows(self, stored: NDArray[Any]) -> Rows:
        return stored if self._packing is None else PackedRows(self._packing, stored)

    def _packed(self, env: VectorArrays) -> VectorArrays:
        """Return the same arrays with observations packed as the ring keeps them."""
        if self._packing is None or self._no_final is None:
            return env
        final = self._packing.pack(env.fin) if env.trunc.any() else self._no_final
        return env._replace(obs=self._packing.pack(env.obs), fin=final)  # type: ignore[arg-type]


@njit(cache=True, nogil=True, error_model="numpy")
def hold(held: Held, env: VectorArrays, envs: int, act: NDArray[np.float32]) -> int:
    """Hold, before a step, the observation and action of every active slot; return the number of active slots."""
    slots, agents = env.active.shape[0], env.rew.shape[0] // envs
    per_env = slots // envs
    acting = 0
    for slot in range(slots):
        if env.active[slot]:
            row = slot // per_env * agents + env.who[slot]
            for column in range(env.obs.shape[1]):
                held.obs[row, column] = env.obs[slot, column]
            _hold_action(held.act, row, act, slot)
            held.reward[row] = _ZERO
            held.waits[row] = 1
            acting += 1
    return acting


@njit(cache=True, nogil=True, error_model="numpy")
def _hold_action(held: NDArray[Any], row: int, act: NDArray[np.float32], slot: int) -> None:
    if held.ndim == 1:  # numba leaves out the branch that does not fit the array
        held[row] = np.int64(act[slot, 0])
    else:
        for part in range(held.shape[1]):
            held[row, part] = act[slot, part]


@njit(cache=True, nogil=True, error_model="numpy")
def settle(ring: ReplayRing, held: Held, env: VectorArrays, envs: int, reward: NDArray[np.float32]) -> None:
    """Add rewards after a step, and store the decisions that are now complete."""
    slots, rows = env.active.shape[0], reward.shape[0]
    agents, per_env = rows // envs, slots // envs
    masked = ring.next_mask.shape[0] > 0
    for row in range(rows):
        if held.waits[row]:
            held.reward[row] += reward[row]
            if env.term[row] or env.trunc[row]:
                place = _store(ring, held, row, env.fin, row, _ZERO if env.term[row] else _ONE)
                if masked:
                    ring.next_mask[place, :] = 1
    for slot in range(slots):
        row = slot // per_env * agents + env.who[slot]
        if env.active[slot] and held.waits[row]:
            place = _store(ring, held, row, env.obs, slot, _ONE)
            if masked:
                for column in range(env.mask.shape[1]):
                    ring.next_mask[place, column] = env.mask[slot, column]


@njit(cache=True, nogil=True, error_model="numpy")
def _store(ring: ReplayRing, held: Held, row: int, seen: NDArray[np.float32], at: int, follows: np.float32) -> int:
    """Move a held decision into the ring, followed by row `at` of `seen`; return its index."""
    kept = ring.expert.shape[0]
    place: int = kept + ring.written[0] % (ring.act.shape[0] - kept)
    for column in range(seen.shape[1]):
        ring.obs[place, column] = held.obs[row, column]
        ring.next_obs[place, column] = seen[at, column]
    ring.act[place] = held.act[row]
    ring.reward[place] = held.reward[row]
    ring.follows[place] = follows
    ring.written[0] += 1
    held.waits[row] = 0
    return place


class Transitions(NamedTuple):
    """Complete decisions, as a ring keeps them."""

    obs: NDArray[np.float32]  # [n, D]
    act: NDArray[np.int64]
    reward: NDArray[np.float32]
    next_obs: NDArray[np.float32]  # [n, D]
    next_mask: NDArray[np.uint8]  # [n, W]
    follows: NDArray[np.float32]


def store(ring: ReplayRing, transitions: Transitions, packing: RowPacking | None) -> None:
    """Add decisions that were made elsewhere; of more than the ring holds, the last."""
    kept, written = len(ring.expert), int(ring.written[0])
    size = len(ring.act) - kept
    parts: Any = (each[-size:] for each in transitions)
    newest = Transitions(*parts)
    ring.written[0] += len(transitions.act)
    places = kept + np.arange(written + len(transitions.act) - len(newest.act), ring.written[0]) % size
    ring.obs[places] = newest.obs if packing is None else packing.pack(newest.obs)
    ring.next_obs[places] = newest.next_obs if packing is None else packing.pack(newest.next_obs)
    if len(ring.next_mask):
        ring.next_mask[places] = newest.next_mask
    ring.act[places], ring.reward[places], ring.follows[places] = newest.act, newest.reward, newest.follows
