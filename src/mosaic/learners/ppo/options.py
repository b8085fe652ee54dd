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
        "constant", description="'linear': falls to nothing at the last step (needs a known number of steps)."
    )
    n_steps: int = Field(128, ge=1, le=100_000, description="Steps of each env in one rollout.")
    batch_size: int = Field(256, ge=2, le=10_000_000, description="Rows of one minibatch, of all threads together.")
    n_epochs: int = Field(10, ge=1, le=1000, description="How often a rollout is gone through.")
    gamma: float = Field(0.99, ge=0, le=1, description="What a reward one step later is worth.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="Trade-off of bias and variance of the advantage.")
    clip_range: float = Field(0.2, gt=0, le=1e6, description="How far the policy may move away within one update.")
    clip_range_schedule: Schedule = Field("constant", description="'linear': falls to nothing at the last step.")
    clip_range_vf: float | None = Field(None, gt=0, description="The same for the value; None: free.")
    ent_coef: float = Field(0.0, ge=0, le=100, description="Weight of the entropy bonus, at the start.")
    ent_coef_final: float | None = Field(None, ge=0, le=100, description="And at the last step; None: the same.")
    vf_coef: float = Field(0.5, ge=0, le=100, description="Weight of the value loss.")
    max_grad_norm: float = Field(0.5, ge=0, description="Longest gradient; 0: any.")
    target_kl: float | None = Field(None, gt=0, description="An update ends early where the policy moved so far.")
    normalize_advantage: bool = Field(True, description="Advantages of a minibatch get mean 0 and deviation 1.")
    normalize_observations: bool = Field(False, description="By running mean and deviation; saved with the policy.")
    normalize_rewards: bool = Field(False, description="By the running deviation of the discounted return.")
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS] = Field(
        (64, 64), min_length=1, max_length=8, description="Widths of the hidden layers."
    )
    critic_hidden: Annotated[tuple[int, ...] | None, SHAPES_CHECKPOINTS] = Field(
        None, description="Of the value net; None: the same."
    )
    activation: Activation = Field("tanh", description="Between the layers.")
    share_layers: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="One net for policy and value (faster), or two."
    )
    log_std_init: float = Field(0.0, ge=-20, le=2, description="Log of the deviation of continuous actions at first.")
    engine: Annotated[Literal["auto", "fused", "torch"], SHAPES_CHECKPOINTS] = Field(
        "auto", description="fused: compiled, plain nets, fastest on a CPU; torch: pictures, memory, CUDA."
    )
    threads: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        1,
        ge=1,
        le=256,
        description="Learners with a share of the envs each that average their weights, on as many cores as there are.",
    )
    torch_threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Threads of torch's operations on a CPU; they decide the last bits of a sum. None: 1, 4 for "
        "pictures.",
    )
    memory: Annotated[Memory | None, SHAPES_CHECKPOINTS] = Field(None, description="Recurrent layer (torch engine).")
    memory_size: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        64, ge=1, le=4096, description="Width of the recurrent layer."
    )
    network: Annotated[Reference | None, SHAPES_CHECKPOINTS] = Field(
        None, description="python:MODULE:FACTORY of an own torch network."
    )
    extra_loss: Reference | None = Field(None, description="python:MODULE:FUNCTION added to the loss (torch engine).")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Of the torch engine.")
    compile: bool = Field(False, description="torch.compile the network (torch engine; takes a while at the start).")
    env_processes: int = Field(
        0, ge=0, le=1024, description="Processes that step envs without a compiled twin; 0: in this process."
    )
    league_size: int = Field(20, ge=2, le=1000, description="Self-play: snapshots that are kept.")
    league_places: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        4, ge=1, le=64, description="Self-play: opponents that play at the same time."
    )
    league_sampling: Sampling = Field(
        "uniform", description="Self-play: which snapshots play: uniform, latest, or prioritised (those who win more)."
    )
    snapshot_every_steps: int | None = Field(
        None, ge=1, description="Self-play: env steps between two snapshots; None: a twentieth of the run."
    )
    selfplay_share: float = Field(
        0.5, ge=0, le=1, description="Self-play: share of the envs in which the learner plays its present self."
    )
    opponent_slip: float = Field(
        0.0, ge=0, le=1, description="Self-play: how often a frozen opponent moves at random, for variety."
    )
    opponents: tuple[Reference, ...] = Field(
        (), description="Self-play: opponents instead of drawn snapshots: self@-10000, random, minimax:depth=2, run:…"
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
            raise ValueError("a network with memory is not compiled: leave 'compile' out, or 'memory'")
        return self


class A2cOptions(PpoOptions):
    """A2C: PPO with one epoch over each rollout and no clipping."""

    learning_rate: float = Field(7e-4, gt=0, le=1, description="Step size of Adam at the start.")
    n_steps: int = Field(5, ge=1, le=100_000, description="Steps of each env in one rollout.")
    batch_size: int = Field(10_000_000, ge=2, le=10_000_000, description="Rows of one minibatch; all, unless fewer.")
    n_epochs: int = Field(1, ge=1, le=1, description="Always once.")
    gae_lambda: float = Field(1.0, ge=0, le=1, description="Trade-off of bias and variance of the advantage.")
    clip_range: float = Field(1e6, gt=0, le=1e6, description="Nothing is clipped.")
    normalize_advantage: bool = Field(False, description="Advantages of a minibatch get mean 0 and deviation 1.")
