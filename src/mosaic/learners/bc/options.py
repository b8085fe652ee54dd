"""Options of behaviour cloning and of DAgger."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS, Reference
from mosaic.config.sections import Section
from mosaic.core.reference import split_reference
from mosaic.learners.network_options import NetworkOptions
from mosaic.learners.ppo.options import Schedule
from mosaic.learners.recorded import DemonstrationOptions


class _Cloning(Section):
    learning_rate: Annotated[float, BASIC] = Field(1e-3, gt=0, le=1, description="Step size of Adam at the start.")
    learning_rate_schedule: Schedule = Field(
        "constant", description="'linear': falls towards 0 at the last step, but not below 2 %."
    )
    batch_size: Annotated[int, BASIC] = Field(256, ge=2, le=10_000_000, description="Recorded steps per minibatch.")
    held_out: Annotated[float, SHAPES_CHECKPOINTS, BASIC] = Field(
        0.1, ge=0, le=0.9, description="Share of the episodes that is not learned from, on which accuracy is measured."
    )
    ent_coef: float = Field(0.0, ge=0, le=100, description="Weight of the entropy bonus.")
    vf_coef: float = Field(
        0.5, ge=0, le=100, description="Weight of the value loss: values learn the recorded returns; 0: they do not."
    )
    gamma: float = Field(0.99, ge=0, le=1, description="Discount factor of the recorded returns.")
    max_grad_norm: float = Field(0.5, ge=0, description="Clip gradients to this norm; 0: no clipping.")


class _Passes(DemonstrationOptions):
    n_epochs: Annotated[int | None, BASIC] = Field(
        None, ge=1, le=1_000_000, description="End after this many passes over the dataset; None: at --steps."
    )
    patience: Annotated[int | None, BASIC] = Field(
        None,
        ge=1,
        le=1_000_000,
        description="End after this many passes without a lower held-out loss, with the best weights; None: never.",
    )
    normalize_observations: bool = Field(
        False, description="Scale by the dataset's mean and deviation, saved with the policy."
    )


class BcOptions(NetworkOptions, _Cloning, _Passes):
    """Behaviour cloning: learn to act as the recorded steps do."""

    @model_validator(mode="after")
    def _patient(self) -> Self:
        if self.patience is not None and not self.held_out:
            raise ValueError("'patience' watches the held-out loss: set 'held_out' above 0")
        return self


class _Expert(DemonstrationOptions):
    expert: Annotated[Reference | None, BASIC] = Field(
        None,
        description="Policy that says what it would do in every state that the learner visits: minimax, run:…; human: "
        "a person, who plays and records the dataset meanwhile.",
    )
    rollout_steps: Annotated[int, BASIC] = Field(
        1000, ge=1, le=10_000_000, description="Env steps of each round, rounded up to whole episodes."
    )
    n_epochs: Annotated[int, BASIC] = Field(
        4, ge=1, le=1000, description="Passes over all labelled steps after each round."
    )
    beta: Annotated[float, BASIC] = Field(
        1.0, ge=0, le=1, description="Share of the first round's steps in which the expert acts itself."
    )
    beta_rounds: int = Field(
        5, ge=0, le=1_000_000, description="Rounds in which that share decays to 0; 0: it stays as it is."
    )


class DaggerOptions(NetworkOptions, _Cloning, _Expert):
    """DAgger: play, ask an expert what it would have done, and clone all of its answers so far."""

    @property
    def asks_person(self) -> bool:
        """Return whether the expert is a person, whose recorded play is followed."""
        return self.expert is not None and split_reference(self.expert)[0] == "human"

    @model_validator(mode="after")
    def _recorded(self) -> Self:
        if self.controller_weights and self.dataset is None:
            raise ValueError("'controller_weights' needs recorded steps: set 'dataset', or leave it out")
        return self
