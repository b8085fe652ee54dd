"""With which other resources a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import InputError
from mosaic.runs.start import RunAliveError
from mosaic.store.layout import RunFolder
from mosaic.store.lock import RunLock
from mosaic.store.state import RunState, read_written_state

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig


def with_resources(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The configuration with these settings of `resources` instead of its own."""
    from mosaic.config.loading import dump_run_config, parse_run_config

    document = dump_run_config(config)
    return parse_run_config({**document, "resources": {**document["resources"], **changes}})


def change_resources(folder: RunFolder, record: RunState, changes: Mapping[str, Any]) -> None:
    """Of a run that has ended as `record` says, for its next attempt."""
    from mosaic.workers.registry import load_worker, resolve
    from mosaic.workers.submission import check_resources

    config = with_resources(folder.read_config(), changes)
    if config.training.worker is not None:
        check_resources(load_worker(config.training.worker), config)
    if record.working_folder in ("", str(Path.cwd())):  # from elsewhere the code that a run names cannot be loaded
        _refuse_other_shapes(config, resolve(config))
    with RunLock(folder) as lock:
        if not lock.try_acquire():
            raise RunAliveError(f"The run {folder.run_id} is alive already: somebody else holds its lock.")
        if len(read_written_state(folder).attempts) != len(record.attempts):
            raise RunAliveError(f"The run {folder.run_id} was started by somebody else meanwhile.")
        folder.write_config(config)


def _refuse_other_shapes(stored: RunConfig, resolved: RunConfig) -> None:
    """Raise InputError where resources change an option that the run's checkpoints depend on."""
    from mosaic.config.values import SHAPES_CHECKPOINTS
    from mosaic.workers.registry import load_worker, options_model

    training = resolved.training
    fields = options_model(load_worker(training.worker or ""), training.algorithm or "").model_fields
    for name, value in training.params.items():
        before = stored.training.params.get(name, value)
        if value != before and SHAPES_CHECKPOINTS in fields[name].metadata:
            raise InputError(
                f"With these resources training.params.{name} would be {value}, and the checkpoints were made "
                f"with {before}. Leave them out, or start a new run."
            )
