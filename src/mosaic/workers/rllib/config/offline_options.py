"""Options of the algorithms that learn from a dataset instead of an env."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS, Reference
from mosaic.workers.rllib.config.base_options import RllibOptions, RunnerOptions

_KEPT = ("normalize_actions", "clip_actions")  # options of runners that also concern actions in a dataset


class OfflineOptions(RllibOptions):
    """Common options. Envs are only stepped to evaluate, so that options of env runners are refused."""

    dataset: Annotated[Reference | None, BASIC] = Field(
        None, description="Dataset to learn from: minari:NAME, or demo:NAME/AGENT."
    )
    dataset_num_iters_per_learner: Annotated[int, BASIC] = Field(
        100, ge=2, le=1_000_000, description="Updates in an iteration, each with one batch of the dataset."
    )

    @model_validator(mode="after")
    def _nothing_is_sampled(self) -> Self:
        for name in RunnerOptions.model_fields:
            value, usual = getattr(self, name), type(self).model_fields[name].default
            if name not in _KEPT and value != usual and not (name == "num_env_runners" and value == 0):
                raise ValueError(f"'{name}' has no effect, since nothing is sampled from the env: leave it out")
        for name in ("num_learners", "min_sample_timesteps_per_iteration"):
            if getattr(self, name):
                raise ValueError(f"'{name}' has no effect, since one process learns from the dataset: leave it out")
        if self.use_lstm:
            raise ValueError("'use_lstm' needs sequences, and batches of a dataset are single steps: leave it out")
        return self


class MarwilOptions(OfflineOptions):
    """Monotonic advantage re-weighted imitation learning."""

    lr: Annotated[float, BASIC] = Field(1e-4, gt=0, description="Learning rate of Adam.")
    beta: Annotated[float, BASIC] = Field(
        1.0, ge=0, le=1, description="Weight of advantages; 0 imitates every action alike."
    )
    bc_logstd_coeff: float = Field(0.0, ge=0, description="Weight of the deviations of continuous actions.")
    moving_average_sqd_adv_norm_update_rate: float = Field(
        1e-8, ge=0, le=1, description="Rate of the running mean by which advantages are scaled."
    )
    moving_average_sqd_adv_norm_start: float = Field(100.0, gt=0, description="Start of that running mean.")
    vf_coeff: float = Field(1.0, ge=0, description="Weight of the value loss.")
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        2000, ge=1, le=100_000_000, description="Steps of the dataset per update."
    )


class RllibBcOptions(OfflineOptions):
    """Behaviour cloning: MARWIL without advantages."""

    lr: Annotated[float, BASIC] = Field(1e-4, gt=0, description="Learning rate of Adam.")
    bc_logstd_coeff: float = Field(0.0, ge=0, description="Weight of the deviations of continuous actions.")
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        2000, ge=1, le=100_000_000, description="Steps of the dataset per update."
    )


class RllibCqlOptions(OfflineOptions):
    """Conservative Q-learning: SAC that gives actions outside of the dataset low values."""

    actor_lr: Annotated[float, BASIC] = Field(1e-4, gt=0, description="Learning rate of the policy.")
    critic_lr: Annotated[float, BASIC] = Field(1e-3, gt=0, description="Learning rate of the critics.")
    alpha_lr: Annotated[float, BASIC] = Field(1e-3, gt=0, description="Learning rate of the temperature.")
    tau: float = Field(5e-3, gt=0, le=1, description="Share of the new weights in each copy to the target networks.")
    target_network_update_freq: int = Field(
        0, ge=0, description="Steps between copies to the target networks; 0: every iteration."
    )
    initial_alpha: float = Field(1.0, gt=0, description="Initial weight of the entropy.")
    target_entropy: float | Literal["auto"] = Field("auto", description="Entropy that the temperature aims at.")
    twin_q: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        True, description="Whether to use two critics and take the lower value."
    )
    bc_iters: int = Field(20_000, ge=0, description="Updates at the start that imitate the dataset.")
    temperature: float = Field(1.0, gt=0, description="Temperature of the conservative loss.")
    num_actions: int = Field(10, ge=1, le=10_000, description="Actions drawn for the conservative loss.")
    min_q_weight: Annotated[float, BASIC] = Field(5.0, ge=0, description="Weight of the conservative loss.")
    deterministic_backup: bool = Field(True, description="Whether targets leave the entropy out.")
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        256, ge=1, le=100_000_000, description="Steps per update."
    )


class IqlOptions(OfflineOptions):
    """Implicit Q-learning: values of the dataset's own actions only."""

    beta: Annotated[float, BASIC] = Field(0.1, gt=0, le=1, description="Temperature of the advantages' weights.")
    expectile: Annotated[float, BASIC] = Field(
        0.8, gt=0, lt=1, description="Expectile of the action values that is the value."
    )
    actor_lr: Annotated[float, BASIC] = Field(3e-4, gt=0, description="Learning rate of the policy.")
    critic_lr: Annotated[float, BASIC] = Field(3e-4, gt=0, description="Learning rate of the critics.")
    value_lr: Annotated[float, BASIC] = Field(3e-4, gt=0, description="Learning rate of the value function.")
    tau: float = Field(1.0, gt=0, le=1, description="Share of the new weights in each copy to the target networks.")
    target_network_update_freq: int = Field(
        0, ge=0, description="Steps between copies to the target networks; 0: every iteration."
    )
    twin_q: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        True, description="Whether to use two critics and take the lower value."
    )
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        2000, ge=1, le=100_000_000, description="Steps of the dataset per update."
    )


def steps_of_dataset(options: RllibOptions) -> int:
    """Return the steps of a dataset that an iteration learns from; 0 where experience comes from the env."""
    if not isinstance(options, OfflineOptions):
        return 0
    return options.dataset_num_iters_per_learner * options.train_batch_size_per_learner
