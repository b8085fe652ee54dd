"""Options of RLlib's algorithms: its own names and defaults, without those that its new stack ignores."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from mosaic.config.field_types import SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.learners.league import Sampling

Activation = Literal["tanh", "relu", "swish", "silu", "linear"]
Schedule: TypeAlias = float | tuple[tuple[Annotated[int, Field(ge=0)], float], ...]
"""One number, or points [[env steps, value], …] with linear interpolation between them."""


class ModelOptions(Section):
    """RLlib's default networks (`DefaultModelConfig`)."""

    fcnet_hiddens: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS] = Field(
        (256, 256), max_length=16, description="Widths of the encoder's layers."
    )
    fcnet_activation: Activation = Field("tanh", description="Between the encoder's layers.")
    head_fcnet_hiddens: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS] = Field(
        (), max_length=16, description="Widths of layers in each head."
    )
    head_fcnet_activation: Activation = Field("relu", description="Between the heads' layers.")
    conv_filters: Annotated[tuple[tuple[int, int, int], ...] | None, SHAPES_CHECKPOINTS] = Field(
        None, description="Layers for pictures: [[filters, kernel, stride], …]; None: RLlib's own for the size."
    )
    conv_activation: Activation = Field("relu", description="Between the layers for pictures.")
    vf_share_layers: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="One encoder for policy and value, or two."
    )
    free_log_std: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Deviation of continuous actions as numbers beside the network."
    )
    use_lstm: Annotated[bool, SHAPES_CHECKPOINTS] = Field(False, description="An LSTM behind the encoder.")
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
        None, ge=0, le=10_000, description="Processes that step envs, 0: in the learner's; None: resources.num_workers."
    )
    num_envs_per_env_runner: int = Field(
        1, ge=1, le=100_000, description="Envs side by side in each runner; environment.num_envs goes before it."
    )
    num_gpus_per_env_runner: float = Field(0.0, ge=0, le=64, description="For policies that are slow to ask.")
    rollout_fragment_length: int | Literal["auto"] = Field(
        "auto", description="Steps of each env in one piece of experience."
    )
    batch_mode: Literal["truncate_episodes", "complete_episodes"] = Field(
        "truncate_episodes", description="Whether a piece may end within an episode."
    )
    sample_timeout_s: float | None = Field(
        None, gt=0, le=1e6, description="How long the learner waits for its runners, whose samples then are lost."
    )
    max_requests_in_flight_per_env_runner: int = Field(1, ge=1, le=1000, description="Pieces asked for ahead.")
    explore: bool = Field(True, description="Whether actions are drawn while training, or the best is taken.")
    normalize_actions: bool = Field(
        True, description="Networks answer -1 … 1, scaled to the bounds of the action space."
    )
    clip_actions: bool = Field(False, description="Actions outside the bounds are cut.")
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = Field(
        "NoFilter", description="Observations normalised by running mean and deviation; saved with the policy."
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


class RllibExtraOptions(Section):
    """Options of Mosaic, not of RLlib."""

    picture_size: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        64, ge=8, le=1024, description="Pictures are scaled to this width and height."
    )
    balanced: bool = Field(
        True, description="Policies with fewer samples are not trained more often than num_epochs says."
    )
    shared_encoder: Annotated[bool, SHAPES_CHECKPOINTS] = Field(False, description="All policies share one encoder.")
    league_size: int = Field(10, ge=2, le=1000, description="Self-play: snapshots that are kept.")
    league_sampling: Sampling = Field(
        "uniform", description="Self-play: which snapshots play: uniform, latest, or prioritised (those who win more)."
    )
    snapshot_every_steps: int | None = Field(
        None, ge=1, description="Self-play: env steps between two snapshots; None: a twentieth of the run."
    )
    snapshot_win_rate: float | None = Field(
        None, gt=0, le=1, description="Self-play: a snapshot is also taken when the learner wins so often."
    )
    selfplay_share: float = Field(
        0.5, ge=0, le=1, description="Self-play: share of the episodes in which the learner plays its present self."
    )
    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between two metric events; None: about two hundred events in all."
    )


class RllibOptions(ModelOptions, RunnerOptions, LearnerOptions, RllibExtraOptions):
    """Options of all algorithms."""

    gamma: float = Field(0.99, ge=0, le=1, description="What a reward one step later is worth.")
    grad_clip: float | None = Field(None, gt=0, description="Longest gradient; None: any.")
    grad_clip_by: Literal["value", "norm", "global_norm"] = Field(
        "global_norm", description="Whether values, each tensor or all of them together are cut."
    )
    train_batch_size_per_learner: int = Field(4000, ge=1, le=100_000_000, description="Env steps of one update.")
    min_sample_timesteps_per_iteration: int = Field(
        0, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )


class MinibatchOptions(RllibOptions):
    """Options for several passes over a batch."""

    num_epochs: int = Field(1, ge=1, le=10_000, description="How often a batch is gone through.")
    minibatch_size: int | None = Field(None, ge=1, description="Rows of one gradient; None: the whole batch.")
    shuffle_batch_per_epoch: bool = Field(False, description="Other minibatches each time.")

    @model_validator(mode="after")
    def _minibatch(self) -> Self:
        batch = self.train_batch_size_per_learner
        if self.minibatch_size is not None and self.minibatch_size > batch:
            raise ValueError(f"'minibatch_size' should be at most 'train_batch_size_per_learner', which is {batch}")
        return self


class RllibPpoOptions(MinibatchOptions):
    """Proximal policy optimisation."""

    lr: Schedule = Field(5e-5, description="Step size of Adam; [[env steps, value], …] for a schedule.")
    num_epochs: int = Field(30, ge=1, le=10_000, description="How often a batch is gone through.")
    minibatch_size: int | None = Field(128, ge=1, description="Rows of one gradient; None: the whole batch.")
    shuffle_batch_per_epoch: bool = Field(True, description="Other minibatches each time.")
    lambda_: float = Field(1.0, ge=0, le=1, description="Trade-off of bias and variance of the advantage.")
    use_critic: bool = Field(True, description="Whether a value function is trained.")
    use_kl_loss: bool = Field(True, description="Moving away from the old policy costs.")
    kl_coeff: float = Field(0.2, ge=0, description="How much, at first.")
    kl_target: float = Field(0.01, ge=0, description="And how far it should move.")
    vf_loss_coeff: float = Field(1.0, ge=0, description="Weight of the value loss.")
    entropy_coeff: Schedule = Field(0.0, description="Weight of the entropy bonus, or a schedule.")
    clip_param: float = Field(0.3, gt=0, description="How far the policy may move away within one update.")
    vf_clip_param: float = Field(10.0, gt=0, description="Largest squared error of a value that counts.")


class RllibA2cOptions(RllibOptions):
    """A2C, which RLlib dropped: its PPO with a single pass, without clipping, and with RMSprop."""

    lr: Schedule = Field(7e-4, description="Step size of RMSprop, or a schedule.")
    lambda_: float = Field(1.0, ge=0, le=1, description="Trade-off of bias and variance of the advantage.")
    vf_loss_coeff: float = Field(0.5, ge=0, description="Weight of the value loss.")
    entropy_coeff: Schedule = Field(0.0, description="Weight of the entropy bonus, or a schedule.")
    grad_clip: float | None = Field(0.5, gt=0, description="Longest gradient; None: any.")
    num_envs_per_env_runner: int = Field(
        8, ge=1, le=100_000, description="Envs side by side in each runner; environment.num_envs goes before it."
    )
    train_batch_size_per_learner: int = Field(160, ge=1, le=100_000_000, description="Env steps of one update.")
    min_sample_timesteps_per_iteration: int = Field(
        1600, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )


class AsynchronousOptions(MinibatchOptions):
    """Common options of IMPALA and APPO: runners sample while the learner learns."""

    lr: Schedule = Field(0.0005, description="Step size of Adam, or a schedule.")
    vtrace_clip_rho_threshold: float = Field(1.0, gt=0, description="Largest importance weight of a value.")
    vtrace_clip_pg_rho_threshold: float = Field(1.0, gt=0, description="Largest importance weight of a gradient.")
    vf_loss_coeff: float = Field(0.5, ge=0, description="Weight of the value loss.")
    entropy_coeff: Schedule = Field(0.01, description="Weight of the entropy bonus, or a schedule.")
    timeout_s_sampler_manager: float = Field(
        0.01, ge=0, description="Seconds to wait for experience at a time; 0, as RLlib has it, keeps a core busy."
    )
    broadcast_interval: int = Field(1, ge=1, description="Updates between two broadcasts of weights.")
    num_aggregator_actors_per_learner: int = Field(
        0, ge=0, le=64, description="Processes that make batches for a learner; each takes a CPU."
    )
    max_requests_in_flight_per_aggregator_actor: int = Field(3, ge=1, le=1000, description="Batches asked for ahead.")
    num_gpu_loader_threads: int = Field(8, ge=1, le=256, description="Threads that load batches onto a GPU.")
    grad_clip: float | None = Field(40.0, gt=0, description="Longest gradient; None: any.")
    rollout_fragment_length: int | Literal["auto"] = Field(
        50, description="Steps of each env in one piece of experience."
    )
    train_batch_size_per_learner: int = Field(500, ge=1, le=100_000_000, description="Env steps of one update.")
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

    clip_param: float = Field(0.4, gt=0, description="How far the policy may move away within one update.")
    use_kl_loss: bool = Field(False, description="Moving away from the old policy costs.")
    kl_coeff: float = Field(1.0, ge=0, description="How much, at first.")
    kl_target: float = Field(0.01, ge=0, description="And how far it should move.")
    target_network_update_freq: int = Field(2, ge=1, description="Updates between two copies into the target network.")
    tau: float = Field(1.0, gt=0, le=1, description="Share of the new weights in such a copy.")
    target_worker_clipping: float = Field(2.0, gt=0, description="Largest ratio of target and runner's policy.")
    use_circular_buffer: bool = Field(True, description="Batches are used several times; else they wait in a queue.")
    circular_buffer_num_batches: int = Field(8, ge=1, le=10_000, description="Batches that are kept.")
    circular_buffer_iterations_per_batch: int = Field(2, ge=1, le=10_000, description="How often each is used.")
    simple_queue_size: int = Field(32, ge=1, le=100_000, description="Length of the queue, where it is used.")


class ReplayOptions(RllibOptions):
    """Options for learning from a replay buffer (`replay_buffer_config`)."""

    replay_buffer_type: Literal["PrioritizedEpisodeReplayBuffer", "EpisodeReplayBuffer"] = Field(
        "PrioritizedEpisodeReplayBuffer", description="Whether surprising steps are seen more often."
    )
    replay_buffer_capacity: int = Field(50_000, ge=1, le=10**9, description="Steps that are kept.")
    replay_buffer_alpha: float = Field(0.6, ge=0, le=1, description="How much surprise counts.")
    replay_buffer_beta: float = Field(0.4, ge=0, le=1, description="How much that is corrected for.")
    store_buffer_in_checkpoints: bool = Field(False, description="Saves all of it; checkpoints become large.")
    num_steps_sampled_before_learning_starts: int = Field(1000, ge=0, description="Env steps before the first update.")
    n_step: int = Field(1, ge=1, le=1000, description="Rewards that are added before the value is asked.")
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

    lr: Schedule = Field(5e-4, description="Step size of Adam, or a schedule.")
    epsilon: Schedule = Field(
        ((0, 1.0), (10_000, 0.05)), description="How often an action is drawn at random, or a schedule."
    )
    target_network_update_freq: int = Field(500, ge=1, description="Env steps between two copies into the target.")
    tau: float = Field(1.0, gt=0, le=1, description="Share of the new weights in such a copy.")
    double_q: bool = Field(True, description="One network chooses the action, the other says its value.")
    dueling: Annotated[bool, SHAPES_CHECKPOINTS] = Field(True, description="Value and advantages apart.")
    num_atoms: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        1, ge=1, le=10_000, description="Above 1: a distribution of returns instead of a mean."
    )
    v_min: float = Field(-10.0, description="Smallest return of that distribution.")
    v_max: float = Field(10.0, description="Largest return of that distribution.")
    td_error_loss_fn: Literal["huber", "mse"] = Field("huber", description="How errors are weighed.")
    burn_in_len: int = Field(0, ge=0, le=100_000, description="Steps that only warm an LSTM up.")
    grad_clip: float | None = Field(40.0, gt=0, description="Longest gradient; None: any.")
    train_batch_size_per_learner: int = Field(32, ge=1, le=100_000_000, description="Rows of one update.")
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

    actor_lr: Schedule = Field(3e-5, description="Step size of the policy, or a schedule.")
    critic_lr: Schedule = Field(3e-4, description="Step size of the critics, or a schedule.")
    alpha_lr: Schedule = Field(3e-4, description="Step size of the temperature, or a schedule.")
    tau: float = Field(5e-3, gt=0, le=1, description="Share of the new weights in a copy into the target.")
    target_network_update_freq: int = Field(0, ge=0, description="Env steps between two such copies; 0: every update.")
    initial_alpha: float = Field(1.0, gt=0, description="Weight of the entropy at first.")
    target_entropy: float | Literal["auto"] = Field("auto", description="Entropy that the temperature aims at.")
    twin_q: Annotated[bool, SHAPES_CHECKPOINTS] = Field(True, description="Two critics, the lower one counts.")
    replay_buffer_capacity: int = Field(1_000_000, ge=1, le=10**9, description="Steps that are kept.")
    num_steps_sampled_before_learning_starts: int = Field(1500, ge=0, description="Env steps before the first update.")
    train_batch_size_per_learner: int = Field(256, ge=1, le=100_000_000, description="Rows of one update.")
    min_sample_timesteps_per_iteration: int = Field(
        100, ge=0, le=100_000_000, description="Least number of env steps per iteration."
    )


OPTIONS: dict[str, type[RllibOptions]] = {
    "ppo": RllibPpoOptions,
    "appo": AppoOptions,
    "impala": ImpalaOptions,
    "dqn": RllibDqnOptions,
    "sac": SacOptions,
    "a2c": RllibA2cOptions,
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


def model_settings(options: RllibOptions) -> dict[str, Any]:
    """Return the network settings under the names of RLlib's `DefaultModelConfig`."""
    return options.model_dump(mode="json", include=set(ModelOptions.model_fields))


def training_settings(options: RllibOptions) -> dict[str, Any]:
    """Return the settings that `AlgorithmConfig.training` takes unchanged."""
    elsewhere = (ModelOptions, RunnerOptions, LearnerOptions, RllibExtraOptions)
    apart = {name for part in elsewhere for name in part.model_fields} | set(_REPLAY.values()) | {_ITERATION}
    return options.model_dump(mode="json", exclude=apart)


def replay_settings(options: ReplayOptions) -> dict[str, Any]:
    """Return the settings of `replay_buffer_config`, for one policy."""
    settings = {key: getattr(options, name) for key, name in _REPLAY.items()}
    if settings["type"] == "EpisodeReplayBuffer":
        del settings["alpha"], settings["beta"]
    return settings
