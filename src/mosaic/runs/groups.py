"""Runs that differ in nothing but the seed, so that their curves can be put together."""

from __future__ import annotations

import secrets
import time
from typing import Any

from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.store.run_ids import new_run_id


def group_members(config: RunConfig, seeds: int) -> tuple[str, list[RunConfig]]:
    """The group's id and its runs' configurations."""
    if seeds < 1:
        raise InputError(f"A group has at least one run, not {seeds}.")
    group = config.run_id or new_run_id(config.environment.id, time.time(), secrets.randbelow)
    return group, [_member(config, number) for number in range(1, seeds + 1)]


def _member(config: RunConfig, number: int) -> RunConfig:
    """The seeds come from the configuration's own, each by its number: a larger group holds the smaller one's runs."""
    changes: dict[str, Any] = {"seed": child_seed(config.seed, "group", number)}
    for key, text in (("run_id", config.run_id), ("name", config.name)):
        if text:
            changes[key] = f"{text}-{number}"
    return parse_run_config({**config.model_dump(mode="json"), **changes})
