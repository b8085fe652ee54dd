"""Options of RLlib's algorithms: its own names and defaults, without those that its new stack ignores."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.workers.rllib.config.base_options import (
    LearnerOptions,
    ModelOptions,
    RllibExtraOptions,
    RllibOptions,
    RunnerOptions,
    Schedule,
)
from mosaic.workers.rllib.config.offline_options import (
    IqlOptions,
    MarwilOptions,
    OfflineOptions,
    RllibBcOptions,
    RllibCqlOptions,
)

__all__ = ["OPTIONS", "LearnerOptions", "ModelOptions", "RllibExtraOptions", "RllibOptions", "RunnerOptions"]


class MinibatchOptions(RllibOptions):
    """Options for several passes over a batch."""

    num_epochs: Annotated[int, BASIC] = Field(1, ge=1, le=10_000, description="Passes over each batch.")
    minibatch_size: Annotated[int | None, BASIC] = Field(
        None, ge=1, description="Rows per gradient step; None: the whole batch."
    )
    shuffle_batch_per_epoch: bool = Field(False, description="Shuffle the minibatches in each pass.")

    @model_validator(mode="after")
    def _minibatch(self) -> Self:
        batch = self.train_batch_size_per_learner
        if self.minibatch_size is not None and self.minibatch_size > batch:
            raise ValueError(f"'minibatch_size' should be at most 'train_batch_size_per_learner', which is {batch}")
        return self


class RllibPpoOptions(MinibatchOptions):
    """Proximal policy optimisation."""

    lr: Annotated[Schedule, BASIC] = Field(
        5e-5, description="Learning rate of Adam; [[env steps, value], …] for a schedule."
    )
    num_epochs: Annotated[int, BASIC] = Field(30, ge=1, le=10_000, description="Passes over each batch.")
    minibatch_size: Annotated[int | None, BASIC] = Field(
        128, ge=1, description="Rows per gradient step; None: the whole batch."
    )
    shuffle_batch_per_epoch: bool = Field(True, description="Shuffle the minibatches in each pass.")
    lambda_: Annotated[float, BASIC] = Field(
        1.0, ge=0, le=1, description="Trade-off of bias and variance of the advantage."
    )
    use_critic: bool = Field(True, description="Whether a value function is trained.")
    use_kl_loss: bool = Field(True, description="Penalise the KL divergence from the old policy.")
    kl_coeff: float = Field(0.2, ge=0, description="Initial coefficient of the KL penalty.")
    kl_target: float = Field(0.01, ge=0, description="Target KL divergence.")
    vf_loss_coeff: float = Field(1.0, ge=0, description="Weight of the value loss.")
    entropy_coeff: Annotated[Schedule, BASIC] = Field(0.0, description="Weight of the entropy bonus, or a schedule.")
    clip_param: Annotated[float, BASIC] = Field(0.3, gt=0, description="Clipping range of the policy ratio.")
    vf_clip_param: float = Field(10.0, gt=0, description="Largest squared error of a value; larger ones are clipped.")


class RllibA2cOptions(RllibOptions):
    """A2C, which RLlib dropped: its PPO with a single pass, without clipping, and with RMSprop."""

    lr: Annotated[Schedule, BASIC] = Field(7e-4, description="Learning rate of RMSprop, or a schedule.")
    lambda_: Annotated[float, BASIC] = Field(
        1.0, ge=0, le=1, description="Trade-off of bias and variance of the advantage."
    )
    vf_loss_coeff: float = Field(0.5, ge=0, description="Weight of the value loss.")
    entropy_coeff: Annotated[Schedule, BASIC] = Field(0.0, description="Weight of the entropy bonus, or a schedule.")
    grad_clip: float | None = Field(0.5, gt=0, description="Largest norm of the gradient; None: no limit.")
    num_envs_per_env_runner: int = Field(
        8, ge=1, le=100_000, description="Parallel envs in each runner; environment.num_envs overrides it."
    )
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        160, ge=1, le=100_000_000, description="Env steps per update."
    )
    min_sample_timesteps_per_iteration: int = Field(
        1600, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )


class AsynchronousOptions(MinibatchOptions):
    """Common options of IMPALA and APPO: runners sample while the learner learns."""

    lr: Annotated[Schedule, BASIC] = Field(0.0005, description="Learning rate of Adam, or a schedule.")
    vtrace_clip_rho_threshold: float = Field(1.0, gt=0, description="Largest importance weight of a value.")
    vtrace_clip_pg_rho_threshold: float = Field(1.0, gt=0, description="Largest importance weight of a gradient.")
    vf_loss_coeff: float = Field(0.5, ge=0, description="Weight of the value loss.")
    entropy_coeff: Annotated[Schedule, BASIC] = Field(0.01, description="Weight of the entropy bonus, or a schedule.")
    timeout_s_sampler_manager: float = Field(
        0.01, ge=0, description="Seconds to wait for experience at a time; 0, as RLlib has it, keeps a core busy."
    )
    broadcast_interval: int = Field(1, ge=1, description="Updates between broadcasts of weights.")
    num_aggregator_actors_per_learner: int = Field(
        0, ge=0, le=64, description="Processes that build batches for each learner; each needs a CPU."
    )
    max_requests_in_flight_per_aggregator_actor: int = Field(
        3, ge=1, le=1000, description="Batches requested in advance."
    )
    num_gpu_loader_threads: int = Field(8, ge=1, le=256, description="Threads that load batches onto a GPU.")
    grad_clip: float | None = Field(40.0, gt=0, description="Largest norm of the gradient; None: no limit.")
    rollout_fragment_length: int | Literal["auto"] = Field(50, description="Steps of each env in one fragment.")
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        500, ge=1, le=100_000_000, description="Env steps per update."
    )
    min_sample_timesteps_per_iteration: int = Field(
        2000, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )

    @model_validator(mode="after")
    def _fragments(self) -> Self:
        fragment = self.rollout_fragment_length
        if self.minibatch_size is not None and (fragment == "auto" or self.minibatch_size % fragment):
            raise ValueError(f"'minibatch_size' should be a multiple of 'rollout_fragment_length', which is {fragment}")
        return self


class ImpalaOptions(AsynchronousOptions):
    """Importance-weighted actor-learners."""

    learner_queue_size: int = Field(3, ge=1, le=10_000, description="Batches that may wait for the learner.")
    vf_share_layers: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        True, description="One encoder for policy and value, or two."
    )


class AppoOptions(AsynchronousOptions):
    """Asynchronous PPO: IMPALA with a clipped objective and a target network."""

    clip_param: Annotated[float, BASIC] = Field(0.4, gt=0, description="Clipping range of the policy ratio.")
    use_kl_loss: bool = Field(False, description="Penalise the KL divergence from the old policy.")
    kl_coeff: float = Field(1.0, ge=0, description="Initial coefficient of the KL penalty.")
    kl_target: float = Field(0.01, ge=0, description="Target KL divergence.")
    target_network_update_freq: int = Field(2, ge=1, description="Updates between copies to the target network.")
    tau: float = Field(1.0, gt=0, le=1, description="Share of the new weights in each copy to the target network.")
    target_worker_clipping: float = Field(2.0, gt=0, description="Largest ratio of target and runner's policy.")
    use_circular_buffer: bool = Field(
        True, description="Reuse batches from a circular buffer; otherwise they wait in a queue."
    )
    circular_buffer_num_batches: int = Field(
        8, ge=1, le=10_000, description="Number of batches in the circular buffer."
    )
    circular_buffer_iterations_per_batch: int = Field(2, ge=1, le=10_000, description="Uses of each batch.")
    simple_queue_size: int = Field(32, ge=1, le=100_000, description="Length of the queue.")


class ReplayOptions(RllibOptions):
    """Options for learning from a replay buffer (`replay_buffer_config`)."""

    replay_buffer_type: Literal["PrioritizedEpisodeReplayBuffer", "EpisodeReplayBuffer"] = Field(
        "PrioritizedEpisodeReplayBuffer", description="Whether to replay steps with large errors more often."
    )
    replay_buffer_capacity: Annotated[int, BASIC] = Field(
        50_000, ge=1, le=10**9, description="Capacity of the replay buffer, in steps."
    )
    replay_buffer_alpha: float = Field(0.6, ge=0, le=1, description="Exponent of the priorities.")
    replay_buffer_beta: float = Field(0.4, ge=0, le=1, description="Exponent of the importance-sampling correction.")
    store_buffer_in_checkpoints: bool = Field(
        False, description="Save the replay buffer in checkpoints, which become large."
    )
    num_steps_sampled_before_learning_starts: Annotated[int, BASIC] = Field(
        1000, ge=0, description="Env steps before the first update."
    )
    n_step: int = Field(1, ge=1, le=1000, description="Number of rewards before the value estimate.")
    training_intensity: float | None = Field(
        None, gt=0, description="Trained steps for one sampled step; None: what batch and fragment sizes give."
    )

    @model_validator(mode="after")
    def _steps(self) -> Self:
        if self.rollout_fragment_length != "auto" and self.rollout_fragment_length < self.n_step:
            raise ValueError(f"'rollout_fragment_length' should be at least 'n_step', which is {self.n_step}")
        return self


class RllibDqnOptions(ReplayOptions):
    """Deep Q-network: dueling, double and prioritised by default."""

    lr: Annotated[Schedule, BASIC] = Field(5e-4, description="Learning rate of Adam, or a schedule.")
    epsilon: Annotated[Schedule, BASIC] = Field(
        ((0, 1.0), (10_000, 0.05)), description="Probability of a random action, or a schedule."
    )
    target_network_update_freq: Annotated[int, BASIC] = Field(
        500, ge=1, description="Env steps between copies to the target network."
    )
    tau: float = Field(1.0, gt=0, le=1, description="Share of the new weights in each copy to the target network.")
    double_q: bool = Field(True, description="Whether to use double Q-learning.")
    dueling: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        True, description="Whether to estimate value and advantages separately."
    )
    num_atoms: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        1, ge=1, le=10_000, description="Above 1: a distribution of returns instead of a mean."
    )
    v_min: float = Field(-10.0, description="Smallest return of that distribution.")
    v_max: float = Field(10.0, description="Largest return of that distribution.")
    td_error_loss_fn: Literal["huber", "mse"] = Field("huber", description="Loss of the temporal-difference errors.")
    burn_in_len: int = Field(0, ge=0, le=100_000, description="Steps that only warm up the LSTM.")
    grad_clip: float | None = Field(40.0, gt=0, description="Largest norm of the gradient; None: no limit.")
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        32, ge=1, le=100_000_000, description="Rows per update."
    )
    min_sample_timesteps_per_iteration: int = Field(
        1000, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )

    @model_validator(mode="after")
    def _burn_in(self) -> Self:
        if self.burn_in_len >= self.max_seq_len:
            raise ValueError(f"'burn_in_len' should be below 'max_seq_len', which is {self.max_seq_len}")
        return self


class SacOptions(ReplayOptions):
    """Soft actor-critic."""

    actor_lr: Annotated[Schedule, BASIC] = Field(3e-5, description="Learning rate of the policy, or a schedule.")
    critic_lr: Annotated[Schedule, BASIC] = Field(3e-4, description="Learning rate of the critics, or a schedule.")
    alpha_lr: Annotated[Schedule, BASIC] = Field(3e-4, description="Learning rate of the temperature, or a schedule.")
    tau: Annotated[float, BASIC] = Field(
        5e-3, gt=0, le=1, description="Share of the new weights in each copy to the target networks."
    )
    target_network_update_freq: int = Field(
        0, ge=0, description="Env steps between copies to the target networks; 0: every update."
    )
    initial_alpha: float = Field(1.0, gt=0, description="Initial weight of the entropy.")
    target_entropy: float | Literal["auto"] = Field("auto", description="Entropy that the temperature aims at.")
    twin_q: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        True, description="Whether to use two critics and take the lower value."
    )
    replay_buffer_capacity: Annotated[int, BASIC] = Field(
        1_000_000, ge=1, le=10**9, description="Capacity of the replay buffer, in steps."
    )
    num_steps_sampled_before_learning_starts: Annotated[int, BASIC] = Field(
        1500, ge=0, description="Env steps before the first update."
    )
    train_batch_size_per_learner: Annotated[int, BASIC] = Field(
        256, ge=1, le=100_000_000, description="Rows per update."
    )
    min_sample_timesteps_per_iteration: int = Field(
        100, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )


class TqcOptions(SacOptions):
    """Truncated quantile critics: SAC whose critics estimate distributions, of which the highest part is left out."""

    n_quantiles: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        25, ge=1, le=10_000, description="Quantiles of each critic."
    )
    n_critics: Annotated[int, SHAPES_CHECKPOINTS] = Field(2, ge=1, le=100, description="Number of critics.")
    top_quantiles_to_drop_per_net: int = Field(
        2, ge=0, le=10_000, description="Highest quantiles of each critic that targets leave out."
    )

    @model_validator(mode="after")
    def _quantiles(self) -> Self:
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise ValueError(
                f"'top_quantiles_to_drop_per_net' should be below 'n_quantiles', which is {self.n_quantiles}"
            )
        return self


OPTIONS: dict[str, type[RllibOptions]] = {
    "ppo": RllibPpoOptions,
    "appo": AppoOptions,
    "impala": ImpalaOptions,
    "dqn": RllibDqnOptions,
    "sac": SacOptions,
    "a2c": RllibA2cOptions,
    "tqc": TqcOptions,
    "bc": RllibBcOptions,
    "marwil": MarwilOptions,
    "cql": RllibCqlOptions,
    "iql": IqlOptions,
}
ASYNCHRONOUS = ("appo", "impala")  # their learner has its own process if the machine has room

_REPLAY = {
    "type": "replay_buffer_type",
    "capacity": "replay_buffer_capacity",
    "alpha": "replay_buffer_alpha",
    "beta": "replay_buffer_beta",
}
_ITERATION = "min_sample_timesteps_per_iteration"


def snapshot_interval(options: RllibOptions, total_timesteps: int | None) -> int | None:
    """Return the env steps between two snapshots of self-play; None if only a win rate decides."""
    from mosaic.learners.ppo.hardware import usual_snapshot_steps

    asked = options.snapshot_every_steps is not None or options.snapshot_win_rate is not None
    return options.snapshot_every_steps if asked else usual_snapshot_steps(total_timesteps)


Settings: TypeAlias = dict[str, Any]  # keyword arguments of RLlib's own configuration


def model_settings(options: RllibOptions) -> Settings:
    """Return the network settings under the names of RLlib's `DefaultModelConfig`."""
    return options.model_dump(mode="json", include=set(ModelOptions.model_fields))


def training_settings(options: RllibOptions) -> Settings:
    """Return the settings that `AlgorithmConfig.training` takes unchanged."""
    elsewhere = (ModelOptions, RunnerOptions, LearnerOptions, RllibExtraOptions)
    apart = {name for part in elsewhere for name in part.model_fields} | set(_REPLAY.values()) | {_ITERATION}
    if isinstance(options, OfflineOptions):
        apart |= set(OfflineOptions.model_fields) - set(RllibOptions.model_fields)
    return options.model_dump(mode="json", exclude=apart)


def replay_settings(options: ReplayOptions) -> Settings:
    """Return the settings of `replay_buffer_config`, for one policy."""
    settings = {key: getattr(options, name) for key, name in _REPLAY.items()}
    if settings["type"] == "EpisodeReplayBuffer":
        del settings["alpha"], settings["beta"]
    return settings
