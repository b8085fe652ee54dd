"""Options that all of RLlib's algorithms share: networks, env runners, learners, and Mosaic's own."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.learners.league import Sampling
from mosaic.workers.rllib.config.user_options import UserCodeOptions

Activation = Literal["tanh", "relu", "swish", "silu", "linear"]
Schedule: TypeAlias = float | tuple[tuple[Annotated[int, Field(ge=0)], float], ...]
"""One number, or points [[env steps, value], …] with linear interpolation between them."""


class ModelOptions(Section):
    """RLlib's default networks (`DefaultModelConfig`)."""

    fcnet_hiddens: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS, BASIC] = Field(
        (256, 256), max_length=16, description="Widths of the encoder's layers."
    )
    fcnet_activation: Activation = Field("tanh", description="Activation between the encoder's layers.")
    head_fcnet_hiddens: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS] = Field(
        (), max_length=16, description="Widths of layers in each head."
    )
    head_fcnet_activation: Activation = Field("relu", description="Activation between the heads' layers.")
    conv_filters: Annotated[tuple[tuple[int, int, int], ...] | None, SHAPES_CHECKPOINTS] = Field(
        None, description="Layers for pictures: [[filters, kernel, stride], …]; None: RLlib's own for the size."
    )
    conv_activation: Activation = Field("relu", description="Activation between the layers for pictures.")
    vf_share_layers: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="One encoder for policy and value, or two."
    )
    free_log_std: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Whether the standard deviation of continuous actions is independent of the observation."
    )
    use_lstm: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Whether to add an LSTM after the encoder."
    )
    lstm_cell_size: Annotated[int, SHAPES_CHECKPOINTS] = Field(256, ge=1, le=65_536, description="Width of the LSTM.")
    max_seq_len: int = Field(20, ge=1, le=100_000, description="Steps through which the LSTM is trained.")

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if (
            min(
                (*self.fcnet_hiddens, *self.head_fcnet_hiddens, *(n for row in self.conv_filters or () for n in row), 1)
            )
            < 1
        ):
            raise ValueError("every layer should be at least 1 wide")
        return self


class RunnerOptions(Section):
    """Options for gathering experience (`AlgorithmConfig.env_runners` and `.environment`)."""

    num_env_runners: int | None = Field(
        None,
        ge=0,
        le=10_000,
        description="Processes that step envs, 0: in the learner's; None: resources.num_env_runners.",
    )
    num_envs_per_env_runner: int = Field(
        1, ge=1, le=100_000, description="Parallel envs in each runner; environment.num_envs overrides it."
    )
    num_gpus_per_env_runner: float = Field(0.0, ge=0, le=64, description="GPUs of each runner, for slow policies.")
    rollout_fragment_length: int | Literal["auto"] = Field("auto", description="Steps of each env in one fragment.")
    batch_mode: Literal["truncate_episodes", "complete_episodes"] = Field(
        "truncate_episodes", description="Whether a fragment may end within an episode."
    )
    sample_timeout_s: float | None = Field(
        None, gt=0, le=1e6, description="Seconds the learner waits for its runners; later samples are lost."
    )
    max_requests_in_flight_per_env_runner: int = Field(1, ge=1, le=1000, description="Fragments requested in advance.")
    explore: bool = Field(
        True, description="Whether actions are sampled during training; otherwise the best action is taken."
    )
    normalize_actions: bool = Field(
        True, description="Scale the networks' outputs, -1 to 1, to the bounds of the action space."
    )
    clip_actions: bool = Field(False, description="Clip actions to the bounds of the action space.")
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = Field(
        "NoFilter", description="Normalise observations by running mean and deviation, which are saved with the policy."
    )

    @model_validator(mode="after")
    def _fragment(self) -> Self:
        if self.rollout_fragment_length != "auto" and self.rollout_fragment_length < 1:
            raise ValueError("'rollout_fragment_length' should be at least 1, or auto")
        if self.normalize_actions and self.clip_actions:
            raise ValueError("'clip_actions' does nothing while 'normalize_actions' is true: set only one of them")
        return self


class LearnerOptions(Section):
    """Options of learner processes (`AlgorithmConfig.learners`); `resources.num_gpus` is divided among the learners."""

    num_learners: int | None = Field(
        None,
        ge=0,
        le=1024,
        description="Learner processes, 0: in the main one; None: as many as there are GPUs to use.",
    )
    num_cpus_per_learner: int | None = Field(
        None, ge=0, le=1024, description="CPU cores for each learner process; None: 1, with GPUs 0."
    )


class RllibExtraOptions(UserCodeOptions):
    """Options of Mosaic, not of RLlib."""

    picture_size: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        64, ge=8, le=1024, description="Pictures are scaled to this width and height."
    )
    balanced: bool = Field(True, description="Do not train policies with fewer samples more often than num_epochs.")
    shared_encoder: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Share one encoder between all policies."
    )
    shared_actor: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="shared_value_function: one actor for all agents with equal spaces, not one each."
    )
    league_size: int = Field(10, ge=2, le=1000, description="Self-play: number of snapshots to keep.")
    league_sampling: Sampling = Field(
        "uniform", description="Self-play: which snapshots play: uniform, latest, or prioritised (those that win more)."
    )
    snapshot_every_steps: int | None = Field(
        None, ge=1, description="Self-play: env steps between snapshots; None: a twentieth of the run."
    )
    snapshot_win_rate: float | None = Field(
        None, gt=0, le=1, description="Self-play: also take a snapshot when the learner's win rate reaches this."
    )
    selfplay_share: float = Field(
        0.5, ge=0, le=1, description="Self-play: share of the episodes in which the learner plays its current self."
    )
    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between metric events; None: one for each iteration, at most four a second."
    )


class RllibOptions(ModelOptions, RunnerOptions, LearnerOptions, RllibExtraOptions):
    """Options of all algorithms."""

    gamma: Annotated[float, BASIC] = Field(0.99, ge=0, le=1, description="Discount factor.")
    grad_clip: float | None = Field(None, gt=0, description="Largest norm of the gradient; None: no limit.")
    grad_clip_by: Literal["value", "norm", "global_norm"] = Field(
        "global_norm", description="Clip gradients by value, by the norm of each tensor or by their global norm."
    )
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        4000, ge=1, le=100_000_000, description="Env steps per update."
    )
    min_sample_timesteps_per_iteration: int = Field(
        0, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )
