"""Protocols of the engines that hold a policy's network, as learning algorithms use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.models.architecture import Architecture
from mosaic.models.packed_rows import Rows

RandomStream: TypeAlias = Any  # of the engine that made it
Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]
StateArrays: TypeAlias = dict[str, NDArray[Any]]  # training state besides weights, as a checkpoint holds it


LOSSES = ("policy_loss", "value_loss", "entropy", "clip_fraction", "approx_kl")  # keys of every engine's report


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """Hyperparameters for learning from one collected batch; the names and the early stop are SB3's."""

    n_epochs: int = 10
    batch_size: int = 256
    gamma: float = 0.99  # of the advantages, which are estimated before an engine gets the batch; so is gae_lambda
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    clip_range_vf: float | None = None  # None or 0: values are not clipped
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5  # 0: gradients are not clipped
    target_kl: float | None = None  # learning stops at a minibatch whose KL divergence exceeds 1.5 times this
    normalize_advantage: bool = True
    kl_anchor: float = 0.0  # weight of the KL divergence from the anchor, a frozen policy
    imitate: bool = False  # minimise -log-probability of the actions, weighted by `adv`, instead of the PPO loss


class Experience(Protocol):
    """Rows of decisions, flattened over time and slots; `mask` has no rows where everything is legal.

    Observations that contain images are packed; only engines that support images get such rows.
    """

    @property
    def obs(self) -> Rows: ...
    @property
    def critic_obs(self) -> Rows: ...
    @property
    def mask(self) -> Bytes: ...
    @property
    def act(self) -> Floats: ...
    @property
    def logp(self) -> Floats: ...
    @property
    def val(self) -> Floats: ...
    @property
    def adv(self) -> Floats: ...
    @property
    def ret(self) -> Floats: ...


class Acts(Protocol):
    """Policy that decides for rows of observations.

    `slots` holds the memory slot of each row, `first` marks the first step of an episode.
    """

    @property
    def architecture(self) -> Architecture: ...

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
        """Sample one decision for each row and write it, its log-probability and the row's value."""
        ...

    def greedy(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes, act: Floats) -> None:
        """Write the most probable decision for each row."""
        ...

    def values(self, obs: Floats, critic_obs: Floats, slots: Ints) -> Floats:
        """Return the value of each row; memories are not changed."""
        ...


class Samples(Acts, Protocol):
    """Policy that samples decisions from random streams, at any temperature."""

    def stream(self, seed: int) -> RandomStream: ...

    def sample(
        self,
        obs: Floats,
        mask: Bytes,
        slots: Ints,
        first: Bytes,
        act: Floats,
        temperature: float,
        streams: Sequence[tuple[RandomStream, int]],
    ) -> None:
        """Sample one decision for each row; like `act`, without a critic. Each stream serves its number of rows."""
        ...

    def explain(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes) -> tuple[Floats, Floats]:
        """Return the probabilities of discrete actions and the value of each row; memories are not changed.

        Probabilities of other actions, and values of a centralised critic, mean nothing.
        """
        ...


class Engine(Acts, Protocol):
    """Engine that acts and learns with one policy's weights."""

    def weights(self) -> Floats:
        """Return a flat copy: in the layout of `models.layout`, or the network's own tensors in their order."""
        ...

    def load(self, flat: Floats) -> None: ...

    def set_anchor(self, flat: Floats) -> None:
        """Set the weights of the frozen policy that `kl_anchor` pulls towards."""
        ...

    def begin_rollout(self) -> None:
        """Store the memory states with which the next batch begins."""
        ...

    def seed_shuffles(self, seed: int) -> None:
        """Seed the order of the rows that `learn` goes through."""
        ...

    def measure(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings
    ) -> dict[str, float]:
        """Return the LOSSES of the rows listed in `idx` without learning from them."""
        ...

    def learn(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings, lr: float
    ) -> dict[str, float]:
        """Learn from the rows listed in `idx` and return the report: LOSSES, gradient_norm and minibatches.

        Networks with memory replay whole sequences: `sequence[r]` is the memory slot that row r owned (−1: none), the
        rows of one slot are in time order, and `first[r]` marks the start of an episode. Other networks ignore both.
        """
        ...


class Resumes(Protocol):
    """Engine that can resume training: the state besides weights that a checkpoint must hold."""

    def training_state(self) -> StateArrays: ...

    def load_training_state(self, state: StateArrays) -> None: ...

    def acting_state(self) -> StateArrays:
        """Return the random streams and memories with which the next rollout starts."""
        ...

    def load_acting_state(self, state: StateArrays) -> None: ...


def check_size(flat: Floats, needed: int) -> None:
    """Raise if flat weights belong to another network."""
    if flat.shape != (needed,):
        raise InputError(
            f"These weights hold {flat.size} numbers, the network needs {needed}: they belong to another architecture."
        )
