"""Options of PPO; names are SB3's where the meaning is the same."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import SHAPES_CHECKPOINTS, Reference
from mosaic.config.sections import Section
from mosaic.learners.league import Sampling
from mosaic.models.architecture import Activation, Memory

Schedule = Literal["constant", "linear"]


class PpoOptions(Section):
    """Proximal policy optimisation for any number of agents."""

    learning_rate: float = Field(3e-4, gt=0, le=1, description="Step size of Adam at the start.")
    learning_rate_schedule: Schedule = Field(
        "constant", description="'linear': decays to 0 at the last step (needs a known number of steps)."
    )
    n_steps: int = Field(128, ge=1, le=100_000, description="Steps of each env in one rollout.")
    batch_size: int = Field(256, ge=2, le=10_000_000, description="Rows per minibatch, over all threads.")
    n_epochs: int = Field(10, ge=1, le=1000, description="Passes over each rollout.")
    gamma: float = Field(0.99, ge=0, le=1, description="Discount factor.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="Bias-variance trade-off of the advantage.")
    clip_range: float = Field(
        0.2, gt=0, le=1e6, description="Largest change of the action probabilities in one update, as a ratio."
    )
    clip_range_schedule: Schedule = Field("constant", description="'linear': decays to 0 at the last step.")
    clip_range_vf: float | None = Field(
        None, gt=0, description="Largest change of the value in one update; None: no clipping."
    )
    ent_coef: float = Field(0.0, ge=0, le=100, description="Weight of the entropy bonus at the start.")
    ent_coef_final: float | None = Field(
        None, ge=0, le=100, description="Weight of the entropy bonus at the last step; None: constant."
    )
    vf_coef: float = Field(0.5, ge=0, le=100, description="Weight of the value loss.")
    max_grad_norm: float = Field(0.5, ge=0, description="Clip gradients to this norm; 0: no clipping.")
    target_kl: float | None = Field(None, gt=0, description="End an update early at this KL divergence.")
    normalize_advantage: bool = Field(True, description="Advantages of a minibatch get mean 0 and deviation 1.")
    normalize_observations: bool = Field(
        False, description="Scale by running mean and deviation, saved with the policy."
    )
    normalize_rewards: bool = Field(False, description="Scale by the running deviation of the discounted return.")
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS] = Field(
        (64, 64), min_length=1, max_length=8, description="Widths of the hidden layers."
    )
    critic_hidden: Annotated[tuple[int, ...] | None, SHAPES_CHECKPOINTS] = Field(
        None, description="Widths of the value net's hidden layers; None: the same."
    )
    activation: Activation = Field("tanh", description="Activation function between the layers.")
    share_layers: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Use one net for policy and value (faster), not two."
    )
    shared_actor: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="shared_value_function: one actor for all agents with equal spaces, not one each."
    )
    log_std_init: float = Field(0.0, ge=-20, le=2, description="Initial log deviation of continuous actions.")
    engine: Annotated[Literal["auto", "fused", "torch"], SHAPES_CHECKPOINTS] = Field(
        "auto", description="fused: compiled, plain nets, fastest on a CPU; torch: pictures, memory, CUDA."
    )
    threads: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        1,
        ge=1,
        le=256,
        description="Learner threads, each with a share of the envs, that average their weights, on the "
        "available cores.",
    )
    torch_threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Threads of torch's operations on a CPU; they affect the last bits of a sum. None: 1, 4 for "
        "pictures.",
    )
    memory: Annotated[Memory | None, SHAPES_CHECKPOINTS] = Field(None, description="Recurrent layer (torch engine).")
    memory_size: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        64, ge=1, le=4096, description="Width of the recurrent layer."
    )
    network: Annotated[Reference | None, SHAPES_CHECKPOINTS] = Field(
        None, description="python:MODULE:FACTORY of a custom torch network."
    )
    extra_loss: Reference | None = Field(None, description="python:MODULE:FUNCTION added to the loss (torch engine).")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device of the torch engine.")
    compile: bool = Field(
        False, description="Compile the network with torch.compile (torch engine; slow at the start)."
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
    def _widths(self) -> Self:
        if min((*self.hidden, *(self.critic_hidden or ()))) < 1:
            raise ValueError("every hidden layer should be at least 1 wide")
        if self.share_layers and self.critic_hidden is not None:
            raise ValueError("'critic_hidden' needs a value net of its own: leave it out or set share_layers to false")
        return self

    @model_validator(mode="after")
    def _compilable(self) -> Self:
        if self.compile and self.memory is not None:
            raise ValueError("a network with memory cannot be compiled: leave out 'compile' or 'memory'")
        return self


class A2cOptions(PpoOptions):
    """A2C: PPO with one epoch over each rollout and no clipping."""

    learning_rate: float = Field(7e-4, gt=0, le=1, description="Step size of Adam at the start.")
    n_steps: int = Field(5, ge=1, le=100_000, description="Steps of each env in one rollout.")
    batch_size: int = Field(
        10_000_000, ge=2, le=10_000_000, description="Rows per minibatch; default: the whole rollout."
    )
    n_epochs: int = Field(1, ge=1, le=1, description="Passes over each rollout; always 1.")
    gae_lambda: float = Field(1.0, ge=0, le=1, description="Bias-variance trade-off of the advantage.")
    clip_range: float = Field(1e6, gt=0, le=1e6, description="Effectively unlimited: nothing is clipped.")
    normalize_advantage: bool = Field(False, description="Advantages of a minibatch get mean 0 and deviation 1.")
