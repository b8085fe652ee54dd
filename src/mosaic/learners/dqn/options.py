"""Options of DQN, whose names and defaults are SB3's, and of its conservative form."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.learners.ppo.options import Schedule
from mosaic.learners.recorded import DatasetOptions, DemonstrationOptions
from mosaic.models.architecture import Activation


class QOptions(Section):
    learning_rate: Annotated[float, BASIC] = Field(1e-4, gt=0, le=1, description="Step size of Adam.")
    batch_size: Annotated[int, BASIC] = Field(32, ge=1, le=1_000_000, description="Decisions sampled per update.")
    tau: float = Field(1.0, gt=0, le=1, description="Interpolation factor of target updates; 1: copy the net.")
    gamma: Annotated[float, BASIC] = Field(0.99, ge=0, le=1, description="Discount factor per decision.")
    max_grad_norm: float = Field(10.0, ge=0, description="Clip gradients to this norm; 0: no clipping.")
    double_q: bool = Field(False, description="Double DQN: the net chooses the next action, the target net values it.")
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS, BASIC] = Field(
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

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if min(self.hidden) < 1:
            raise ValueError("every hidden layer should be at least 1 wide")
        return self


class _Stepping(Section):
    learning_rate_schedule: Schedule = Field(
        "constant",
        description="'linear': falls towards 0 at the last step, but not below 2 % (needs a known number of steps), so "
        "that the last policy hardly depends on the last updates.",
    )
    buffer_size: Annotated[int, BASIC] = Field(
        1_000_000, ge=1, le=1_000_000_000, description="Capacity of the replay buffer, in decisions."
    )
    learning_starts: Annotated[int, BASIC] = Field(
        100, ge=0, description="Env steps of random play before learning starts; a resumed run collects as many."
    )
    train_freq: Annotated[int, BASIC] = Field(
        4, ge=1, le=1_000_000, description="Steps of every env between two rounds of updates."
    )
    gradient_steps: int = Field(
        1, ge=-1, le=1_000_000, description="Updates per round; -1: one per env step since the last round."
    )
    target_update_interval: Annotated[int, BASIC] = Field(
        10_000, ge=1, description="Env steps between two updates of the target net."
    )
    exploration_fraction: Annotated[float, BASIC] = Field(
        0.1, gt=0, le=1, description="Share of the run (of a million steps if it has no limit) until eps is final."
    )
    exploration_initial_eps: float = Field(1.0, ge=0, le=1, description="Share of random actions at the start.")
    exploration_final_eps: Annotated[float, BASIC] = Field(
        0.05, ge=0, le=1, description="Share of random actions after exploration."
    )
    test_every_steps: int | None = Field(
        None,
        ge=0,
        description="Env steps between two tests of the greedy policy, in envs of their own. The best policy tested is "
        "the one that is saved, played and exported. None: a twentieth of the run where the env is compiled and one "
        "agent learns; 0: no tests, and the policy is the newest net.",
    )
    test_episodes: int = Field(20, ge=1, le=10_000, description="Episodes of a test.")
    env_processes: int = Field(
        0, ge=0, le=1024, description="Processes that step envs without a compiled twin; 0: use this process."
    )


class _Demonstrations(DemonstrationOptions):
    demo_share: float = Field(0.25, ge=0, le=1, description="Share of recorded decisions in each batch.")
    demo_coef: float = Field(
        1.0, ge=0, le=1000, description="Weight of the loss by which recorded actions are valued above all others."
    )
    demo_margin: float = Field(0.8, gt=0, le=1000, description="Distance of that loss, in action values.")
    demo_pretrain: int = Field(
        0, ge=0, le=10_000_000, description="Updates with recorded decisions alone, before the first env step."
    )


class DqnOptions(_Demonstrations, _Stepping, QOptions):
    """Deep Q-learning from a replay buffer, and from recorded decisions: one policy, one discrete action at a time."""

    @model_validator(mode="after")
    def _recorded(self) -> Self:
        names = ("controller_weights", *_Demonstrations.__annotations__)
        for name in names if self.dataset is None else ():
            if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                raise ValueError(f"'{name}' needs recorded decisions: set 'dataset', or leave it out")
        return self


class CqlOptions(QOptions, DatasetOptions):
    """Conservative Q-learning from recorded decisions alone: DQN that values unrecorded actions low."""

    alpha: Annotated[float, BASIC] = Field(1.0, ge=0, le=1000, description="Weight of the conservative loss.")
    target_update_interval: Annotated[int, BASIC] = Field(
        500, ge=1, description="Updates between two updates of the target net."
    )
