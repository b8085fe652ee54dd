"""Options of networks and of the engine that computes them, common to the algorithms that learn policies."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS, Reference
from mosaic.config.sections import Section
from mosaic.models.architecture import Activation, Memory


class NetworkOptions(Section):
    hidden: Annotated[tuple[int, ...], SHAPES_CHECKPOINTS, BASIC] = Field(
        (64, 64), min_length=1, max_length=8, description="Widths of the hidden layers."
    )
    critic_hidden: Annotated[tuple[int, ...] | None, SHAPES_CHECKPOINTS] = Field(
        None, description="Widths of the value net's hidden layers; None: the same."
    )
    activation: Activation = Field("tanh", description="Activation function between the layers.")
    share_layers: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Use one net for policy and value (faster), not two."
    )
    log_std_init: float = Field(0.0, ge=-20, le=2, description="Initial log deviation of continuous actions.")
    engine: Annotated[Literal["auto", "fused", "torch"], SHAPES_CHECKPOINTS] = Field(
        "auto", description="fused: compiled, dense nets and GRUs, fastest on a CPU; torch: pictures, LSTMs, CUDA."
    )
    torch_threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Threads of torch's operations on a CPU; they affect the last bits of a sum. None: 1, 4 for "
        "pictures.",
    )
    memory: Annotated[Memory | None, SHAPES_CHECKPOINTS] = Field(
        None, description="Recurrent layer: gru and mingru in either engine, lstm in torch."
    )
    memory_size: Annotated[int, SHAPES_CHECKPOINTS] = Field(
        64, ge=1, le=4096, description="Width of the recurrent layer."
    )
    network: Annotated[Reference | None, SHAPES_CHECKPOINTS] = Field(
        None, description="python:MODULE:FACTORY of a custom torch network."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device of the torch engine.")
    compile: bool = Field(
        False, description="Compile the network with torch.compile (torch engine; slow at the start)."
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
