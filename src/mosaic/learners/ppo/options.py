"""Options of PPO; names are SB3's where the meaning is the same."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS, Reference
from mosaic.config.sections import Section
from mosaic.learners.league import Sampling
from mosaic.learners.network_options import NetworkOptions

Schedule = Literal["constant", "linear"]


class _Learning(Section):
    learning_rate: Annotated[float, BASIC] = Field(3e-4, gt=0, le=1, description="Step size of Adam at the start.")
    learning_rate_schedule: Schedule = Field(
        "constant",
        description="'linear': falls towards 0 at the last step, but not below 2 % (needs a known number of steps).",
    )
    n_steps: Annotated[int, BASIC] = Field(128, ge=1, le=100_000, description="Steps of each env in one rollout.")
    batch_size: Annotated[int, BASIC] = Field(
        256, ge=2, le=10_000_000, description="Rows per minibatch, over all threads."
    )
    n_epochs: Annotated[int, BASIC] = Field(10, ge=1, le=1000, description="Passes over each rollout.")
    gamma: Annotated[float, BASIC] = Field(0.99, ge=0, le=1, description="Discount factor.")
    gae_lambda: Annotated[float, BASIC] = Field(
        0.95, ge=0, le=1, description="Bias-variance trade-off of the advantage."
    )
    clip_range: Annotated[float, BASIC] = Field(
        0.2, gt=0, le=1e6, description="Largest change of the action probabilities in one update, as a ratio."
    )
    clip_range_schedule: Schedule = Field(
        "constant", description="'linear': falls towards 0 at the last step, but not below 2 %."
    )
    clip_range_vf: float | None = Field(
        None, gt=0, description="Largest change of the value in one update; None: no clipping."
    )
    ent_coef: Annotated[float, BASIC] = Field(
        0.0, ge=0, le=100, description="Weight of the entropy bonus at the start."
    )
    ent_coef_final: float | None = Field(
        None, ge=0, le=100, description="Weight of the entropy bonus at the last step; None: constant."
    )
    vf_coef: float = Field(0.5, ge=0, le=100, description="Weight of the value loss.")
    kl_anchor: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="Weight, at the start, of the KL divergence from the policy that training starts from (--init).",
    )
    kl_anchor_final: float | None = Field(
        None, ge=0, le=1000, description="Weight of that divergence at the last step; None: constant."
    )
    max_grad_norm: float = Field(0.5, ge=0, description="Clip gradients to this norm; 0: no clipping.")
    target_kl: float | None = Field(None, gt=0, description="End an update early at this KL divergence.")
    normalize_advantage: bool = Field(True, description="Advantages of a minibatch get mean 0 and deviation 1.")
    normalize_observations: bool = Field(
        False, description="Scale by running mean and deviation, saved with the policy."
    )
    normalize_rewards: bool = Field(False, description="Scale by the running deviation of the discounted return.")


class PpoOptions(NetworkOptions, _Learning):
    """Proximal policy optimisation for any number of agents."""

    shared_actor: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="shared_value_function: one actor for all agents with equal spaces, not one each."
    )
    threads: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        1,
        ge=1,
        le=256,
        description="Learner threads, each with a share of the envs, that average their weights, on the "
        "available cores.",
    )
    extra_loss: Reference | None = Field(None, description="python:MODULE:FUNCTION added to the loss (torch engine).")
    env_device: Literal["auto", "cpu", "learner"] = Field(
        "auto",
        description="Where envs are stepped: on the CPU, or as tensors on the learner's device (torch engine). "
        "auto: there if it is a GPU and the env has such a form.",
    )
    env_processes: int = Field(
        0, ge=0, le=1024, description="Processes that step envs without a compiled twin; 0: use this process."
    )
    league_size: int = Field(20, ge=2, le=1000, description="Self-play: number of snapshots to keep.")
    league_places: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        4, ge=1, le=64, description="Self-play: number of simultaneous opponents."
    )
    league_sampling: Sampling = Field(
        "uniform", description="Self-play: which snapshots play: uniform, latest, or prioritised (those that win more)."
    )
    snapshot_every_steps: int | None = Field(
        None, ge=1, description="Self-play: env steps between two snapshots; None: a twentieth of the run."
    )
    selfplay_share: float = Field(
        0.5, ge=0, le=1, description="Self-play: share of the envs in which the learner plays its current self."
    )
    opponent_slip: float = Field(
        0.0, ge=0, le=1, description="Self-play: share of random moves of a frozen opponent, for variety."
    )
    opponents: tuple[Reference, ...] = Field(
        (),
        description="Self-play: opponents to play instead of sampled snapshots: self@-10000, random, "
        "minimax:depth=2, run:…",
    )

    @model_validator(mode="after")
    def _anchored(self) -> Self:
        if self.kl_anchor_final is not None and not self.kl_anchor:
            raise ValueError("'kl_anchor_final' is the end of a schedule that 'kl_anchor' begins: set it above 0")
        return self


class A2cOptions(PpoOptions):
    """A2C: PPO with one epoch over each rollout and no clipping."""

    learning_rate: Annotated[float, BASIC] = Field(7e-4, gt=0, le=1, description="Step size of Adam at the start.")
    n_steps: Annotated[int, BASIC] = Field(5, ge=1, le=100_000, description="Steps of each env in one rollout.")
    batch_size: int = Field(
        10_000_000, ge=2, le=10_000_000, description="Rows per minibatch; default: the whole rollout."
    )
    n_epochs: int = Field(1, ge=1, le=1, description="Passes over each rollout; always 1.")
    gae_lambda: Annotated[float, BASIC] = Field(
        1.0, ge=0, le=1, description="Bias-variance trade-off of the advantage."
    )
    clip_range: float = Field(1e6, gt=0, le=1e6, description="Effectively unlimited: nothing is clipped.")
    normalize_advantage: bool = Field(False, description="Advantages of a minibatch get mean 0 and deviation 1.")
