"""Options of DQN; names and defaults are SB3's."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.models.architecture import Activation


class DqnOptions(Section):
    """Deep Q-learning from a replay buffer: one policy, one discrete action at a time."""

    learning_rate: float = Field(1e-4, gt=0, le=1, description="Step size of Adam.")
    buffer_size: int = Field(
        1_000_000, ge=1, le=1_000_000_000, description="Capacity of the replay buffer, in decisions."
    )
    learning_starts: int = Field(
        100, ge=0, description="Env steps of random play before learning starts; a resumed run collects as many."
    )
    batch_size: int = Field(32, ge=1, le=1_000_000, description="Decisions sampled per update.")
    tau: float = Field(1.0, gt=0, le=1, description="Interpolation factor of target updates; 1: copy the net.")
    gamma: float = Field(0.99, ge=0, le=1, description="Discount factor per decision.")
    train_freq: int = Field(4, ge=1, le=1_000_000, description="Steps of every env between two rounds of updates.")
    gradient_steps: int = Field(
        1, ge=-1, le=1_000_000, description="Updates per round; -1: one per env step since the last round."
    )
    target_update_interval: int = Field(10_000, ge=1, description="Env steps between two updates of the target net.")
    exploration_fraction: float = Field(
        0.1, gt=0, le=1, description="Share of the run (of a million steps if it has no limit) until eps is final."
    )
    exploration_initial_eps: float = Field(1.0, ge=0, le=1, description="Share of random actions at the start.")
    exploration_final_eps: float = Field(0.05, ge=0, le=1, description="Share of random actions after exploration.")
    max_grad_norm: float = Field(10.0, ge=0, description="Clip gradients to this norm; 0: no clipping.")
    double_q: bool = Field(False, description="Double DQN: the net chooses the next action, the target net values it.")
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS] = Field(
        (64, 64), min_length=1, max_length=8, description="Widths of the hidden layers."
    )
    activation: Activation = Field("relu", description="Activation function between the layers.")
    torch_threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Threads of torch's operations, used for pictures; they affect the last bits of a sum. None: 1, 4 "
        "for large pictures.",
    )
    env_processes: int = Field(
        0, ge=0, le=1024, description="Processes that step envs without a compiled twin; 0: use this process."
    )

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if min(self.hidden) < 1:
            raise ValueError("every hidden layer should be at least 1 wide")
        return self
