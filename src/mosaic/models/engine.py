"""What a learning algorithm asks of the thing that holds a policy's network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.models.architecture import Architecture
from mosaic.models.packed_rows import Rows

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]


LOSSES = ("policy_loss", "value_loss", "entropy", "clip_fraction", "approx_kl")  # what every engine's report holds


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """How one collected batch is learned from; the names and the early stop are SB3's."""

    n_epochs: int = 10
    batch_size: int = 256
    clip_range: float = 0.2
    clip_range_vf: float | None = None  # None or 0: values are not clipped
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5  # 0: gradients are not clipped
    target_kl: float | None = None  # a minibatch that has moved 1.5 times this far ends the learning
    normalize_advantage: bool = True


class Experience(Protocol):
    """Rows of decisions, flat over time and slots; `mask` has no rows where everything is legal.

    Observations are packed where they hold pictures; only engines that can see pictures get such rows.
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
    """Decides for rows of observations. `slots` names the memory that a row owns, `first` marks a new episode."""

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
        """Draws one decision for each row and writes it, its log-probability and the row's value."""
        ...

    def greedy(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes, act: Floats) -> None:
        """Writes the likeliest decision for each row."""
        ...

    def values(self, obs: Floats, critic_obs: Floats, slots: Ints) -> Floats:
        """What each row is worth; memories stay as they are."""
        ...


class Samples(Acts, Protocol):
    """Draws decisions from a stream that can be restarted, at any temperature."""

    def seed_samples(self, seed: int) -> None: ...

    def sample(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes, act: Floats, temperature: float) -> None:
        """Draw one decision for each row; as `act`, without a critic."""
        ...


class Engine(Acts, Protocol):
    """Acts and learns with one policy's weights."""

    def weights(self) -> Floats:
        """A flat copy: the layout of `models.layout`, or the network's own tensors in their order."""
        ...

    def load(self, flat: Floats) -> None: ...

    def begin_rollout(self) -> None:
        """Remembers the memories with which the next batch begins."""
        ...

    def learn(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings, lr: float
    ) -> dict[str, float]:
        """Learns from the rows listed in `idx` and says how it went: LOSSES, gradient_norm and minibatches.

        Networks with memory replay whole sequences: `sequence[r]` is the memory slot that row r owned (−1: none), the
        rows of one slot stand in time order, and `first[r]` says that an episode began there. Others look at neither.
        """
        ...


class Resumes(Protocol):
    """Goes on where it was left: what else than weights a checkpoint must hold."""

    def training_state(self) -> dict[str, Floats]: ...

    def load_training_state(self, state: dict[str, Floats]) -> None: ...


def check_size(flat: Floats, needed: int) -> None:
    """Complains about flat weights that belong to another network."""
    if flat.shape != (needed,):
        raise InputError(
            f"These weights hold {flat.size} numbers, the network needs {needed}: they belong to another architecture."
        )
