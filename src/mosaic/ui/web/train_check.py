"""Whether a draft can be started, and what Mosaic would make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import MissingExtraError, MosaicError
from mosaic.core.plugins import plugins
from mosaic.runs.trainer import group_members
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.registry import load_worker, resolve

_HIDDEN = ("toy", "script")  # one is for tests, the other needs a program of its own


@dataclass(frozen=True, slots=True)
class Checked:
    config: RunConfig | None  # worker, algorithm, policy configuration and preset filled in
    error: str = ""


def check(document: Mapping[str, Any]) -> Checked:
    """Makes the env to look at it, so this belongs into a thread."""
    try:
        return Checked(resolve(parse_run_config(document)))
    except MosaicError as error:
        return Checked(None, str(error))


def group_documents(document: Mapping[str, Any], seeds: int) -> tuple[str, list[dict[str, Any]]]:
    """The configurations of a group of seeds, and the group's name; "" for a single run."""
    if seeds == 1:
        return "", [dict(document)]
    group, members = group_members(resolve(parse_run_config(document)), seeds)
    return group, [dump_run_config(member) for member in members]


def workers() -> dict[str, WorkerCapabilities]:
    """Those that are installed and of use in a form."""
    found: dict[str, WorkerCapabilities] = {}
    for name in plugins("mosaic.workers"):
        if name in _HIDDEN:
            continue
        try:
            found[name] = load_worker(name).info
        except MissingExtraError:
            continue  # the doctor on the home page says what to type
    return found
