"""Options that name a user's own classes for RLlib."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mosaic.config.field_types import SHAPES_CHECKPOINTS, Reference
from mosaic.config.sections import Section


class UserCodeOptions(Section):
    """`python:` references to classes and functions that RLlib uses beside or in place of its own."""

    rl_module: Annotated[Reference | None, SHAPES_CHECKPOINTS] = Field(
        None, description="python:MODULE:CLASS of an own TorchRLModule, for every policy that learns."
    )
    learner: Reference | None = Field(
        None, description="python:MODULE:CLASS of an own learner, derived from the algorithm's TorchLearner."
    )
    callbacks: tuple[Reference, ...] = Field(
        (), max_length=100, description="python:MODULE:CLASS of own RLlibCallback classes, called after Mosaic's."
    )
    env_to_module: Annotated[Reference | None, SHAPES_CHECKPOINTS] = Field(
        None, description="python:MODULE:NAME of a ConnectorV2 class, or a function of (env, spaces, device)."
    )
    module_to_env: Annotated[Reference | None, SHAPES_CHECKPOINTS] = Field(
        None, description="python:MODULE:NAME of a ConnectorV2 class, or a function of (env, spaces)."
    )
    learner_connector: Reference | None = Field(
        None,
        description="python:MODULE:NAME of a ConnectorV2 class, or a function of (observation_space, action_space).",
    )
    configure: Reference | None = Field(
        None, description="python:MODULE:FUNCTION that changes the AlgorithmConfig, except what Mosaic sets itself."
    )

    @property
    def acts_with_code(self) -> bool:
        """Return whether a policy needs the user's code to act."""
        return any((self.rl_module, self.env_to_module, self.module_to_env))

    @property
    def names_code(self) -> bool:
        return self.acts_with_code or any((self.learner, self.callbacks, self.learner_connector, self.configure))
