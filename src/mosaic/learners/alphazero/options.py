"""Options of AlphaZero."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.models.architecture import Activation


class _Learning(Section):
    learning_rate: Annotated[float, BASIC] = Field(2e-3, gt=0, le=1, description="Step size of Adam at the start.")
    learning_rate_final: float = Field(
        1e-4, gt=0, le=1, description="Step size at the last step; in between it follows a cosine."
    )
    batch_size: Annotated[int, BASIC] = Field(512, ge=1, le=1_000_000, description="Positions per update.")
    buffer_size: Annotated[int, SHAPES_CHECKPOINTS, BASIC] = Field(
        300_000, ge=1, le=100_000_000, description="Positions of past games in the replay buffer, saved for a resume."
    )
    learning_starts: int = Field(5000, ge=1, description="Positions in the buffer before the first update.")
    reuse: Annotated[float, BASIC] = Field(
        4.0, gt=0, le=1000, description="Times that a position is learned from, on average."
    )
    vf_coef: float = Field(0.5, ge=0, le=100, description="Weight of the value loss.")
    max_grad_norm: float = Field(1.0, ge=0, description="Clip gradients to this norm; 0: no clipping.")
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS, BASIC] = Field(
        (256, 128), min_length=1, max_length=8, description="Widths of the hidden layers."
    )
    activation: Activation = Field("relu", description="Activation function between the layers.")
    features: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        True, description="Read the features that the game declares, computed by a fixed first layer of the network."
    )


class AlphaZeroOptions(_Learning):
    """Self-play in which tree search improves the moves, and the network learns them and the results."""

    simulations: Annotated[int, SHAPES_CHECKPOINTS, BASIC] = Field(
        16, ge=2, le=10_000, description="Simulations of the search for each move of self-play."
    )
    c: float = Field(1.5, gt=0, le=100, description="Exploration constant of PUCT below the root.")
    opening_share: float = Field(
        0.5, ge=0, le=1, description="Share of the self-play games that begin with random moves."
    )
    opening_plies: Annotated[int, BASIC] = Field(
        8, ge=1, le=1000, description="Most random moves at the start of a game that begins with random moves."
    )
    random_moves: float = Field(
        0.0, ge=0, le=1, description="Share of random moves during a game; results after one do not count before it."
    )
    play_out: float = Field(
        0.1, ge=0, le=1, description="Share of the games that are played to the end though their result is proven."
    )
    result_weight: float = Field(
        0.5, ge=0, le=1, description="Weight of the game's result in value targets; the rest is the search's value."
    )
    threads: Annotated[int, BASIC] = Field(
        1, ge=1, le=256, description="Threads that play; with several, one of them learns meanwhile."
    )

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if min(self.hidden) < 1:
            raise ValueError("every hidden layer should be at least 1 wide")
        return self
