"""Options of SAC and TD3, whose names and defaults are SB3's."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.models.architecture import Activation


class ActorCriticOptions(Section):
    """Options that SAC and TD3 have in common."""

    learning_rate: Annotated[float, BASIC] = Field(3e-4, gt=0, le=1, description="Step size of Adam, for all networks.")
    buffer_size: Annotated[int, BASIC] = Field(
        1_000_000, ge=1, le=1_000_000_000, description="Capacity of the replay buffer, in decisions."
    )
    learning_starts: Annotated[int, BASIC] = Field(
        100, ge=0, description="Env steps of random play before learning starts."
    )
    batch_size: Annotated[int, BASIC] = Field(256, ge=1, le=1_000_000, description="Decisions sampled per update.")
    tau: float = Field(0.005, gt=0, le=1, description="Interpolation factor of target updates; 1: copy the networks.")
    gamma: Annotated[float, BASIC] = Field(0.99, ge=0, le=1, description="Discount factor per decision.")
    train_freq: Annotated[int, BASIC] = Field(
        1, ge=1, le=1_000_000, description="Steps of every env between two rounds of updates."
    )
    gradient_steps: Annotated[int, BASIC] = Field(
        1, ge=-1, le=1_000_000, description="Updates per round; -1: one per env step since the last round."
    )
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS, BASIC] = Field(
        (256, 256), min_length=1, max_length=8, description="Widths of the hidden layers of actor and critics."
    )
    activation: Activation = Field("relu", description="Activation function between the layers.")
    save_replay: bool = Field(
        True,
        description="Keep the replay buffer in checkpoints, so that a resumed run continues exactly; false: it plays "
        "learning_starts steps before it learns again.",
    )
    env_processes: int = Field(
        0, ge=0, le=1024, description="Processes that step envs without a compiled twin; 0: use this process."
    )

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if min(self.hidden) < 1:
            raise ValueError("every hidden layer should be at least 1 wide")
        return self


class SacOptions(ActorCriticOptions):
    """Soft actor-critic: a stochastic policy whose entropy is part of the reward; Box actions with bounds."""

    ent_coef: Annotated[float | None, BASIC] = Field(
        None, ge=0, description="Weight of the entropy; None: learned, so that the entropy meets its target."
    )
    initial_ent_coef: float = Field(1.0, gt=0, le=1000, description="First weight of the entropy where it is learned.")
    target_entropy: float | None = Field(
        None,
        description="Entropy that the learned weight aims at, in nats; None: minus the number of action dimensions.",
    )
    target_update_interval: int = Field(1, ge=1, description="Updates between two updates of the target networks.")


class Td3Options(ActorCriticOptions):
    """Twin delayed DDPG: a deterministic policy that explores with noise; Box actions with bounds."""

    learning_rate: Annotated[float, BASIC] = Field(1e-3, gt=0, le=1, description="Step size of Adam, for all networks.")
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS, BASIC] = Field(
        (400, 300), min_length=1, max_length=8, description="Widths of the hidden layers of actor and critics."
    )
    exploration_noise: Annotated[float, BASIC] = Field(
        0.1, gt=0, le=2, description="Deviation of the noise on actions while training; actions range from -1 to 1."
    )
    policy_delay: int = Field(2, ge=1, le=1000, description="Updates of the critics per update of actor and targets.")
    target_policy_noise: float = Field(0.2, ge=0, le=2, description="Deviation of the noise on the target's actions.")
    target_noise_clip: float = Field(0.5, ge=0, le=2, description="Bound of that noise.")
