"""Defaults for values that a run's configuration leaves open, filled in once before the run is created."""

from __future__ import annotations

from pydantic import BaseModel

from mosaic.config.run import RunConfig
from mosaic.config.sections import DEFAULT_TIMESTEPS


def with_limit(config: RunConfig) -> RunConfig:
    """Give a run without any limit the default number of env steps."""
    training = config.training
    if training.total_timesteps or training.episodes or training.stop_reward is not None:
        return config
    limited = training.model_copy(update={"total_timesteps": DEFAULT_TIMESTEPS})
    return config.model_copy(update={"training": limited})


def with_options(config: RunConfig, options: BaseModel) -> RunConfig:
    """Write every option of the worker into `training.params`, including those that were not set."""
    params = options.model_dump(mode="json", round_trip=True)
    return config.model_copy(update={"training": config.training.model_copy(update={"params": params})})
