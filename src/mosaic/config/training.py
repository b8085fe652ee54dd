"""Training section: worker, algorithm, limits and options."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mosaic.config.field_types import FreeOptions, MosaicPicks, Reference, Steps
from mosaic.config.section import Section

DEFAULT_TIMESTEPS = 1_000_000


class TrainingConfig(Section):
    """Training ends at the first limit that is reached; without any, after a million env steps."""

    worker: Annotated[Reference | None, MosaicPicks] = Field(
        None,
        description="Plug-in that trains: native, tabular, rllib, script, …; None lets Mosaic pick for the env.",
    )
    algorithm: Annotated[Reference | None, MosaicPicks] = Field(
        None, description="One of the worker's algorithms: ppo, dqn, q_learning, …; None takes the worker's default."
    )
    total_timesteps: Steps | None = Field(
        None, description="Env steps after which training ends; without any limit: the preset's, else 1,000,000."
    )
    episodes: Steps | None = Field(None, description="Episodes after which training ends.")
    stop_reward: float | None = Field(None, description="Mean episode reward at which training ends.")
    init: Reference | None = Field(
        None,
        description="Policy whose weights training starts from: run:latest@best, or with the state of its optimizer "
        "run:latest,optimizer=true.",
    )
    preset: bool = Field(True, description="Options that params leave open come from the tuned preset of the env.")
    params: FreeOptions = Field(
        default_factory=dict, description="The worker's own options: see `mosaic schema WORKER ALGORITHM`."
    )
