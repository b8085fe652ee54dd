"""Settings with which an ended run is resumed: resources, limits, and options that its checkpoints allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError
from mosaic.runs.launch import RunAliveError
from mosaic.store.lock import RunLock
from mosaic.store.origin import add_to_history, changed_settings
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import RunState, State, read_written_state, write_state

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig


CHANGEABLE = (
    "training.total_timesteps",
    "training.episodes",
    "training.stop_reward",
    "training.params",
    "resources",
    "checkpoint",
    "evaluation",
    "export",
    "telemetry",
    "name",
    "tags",
)


def with_changes(config: RunConfig, resources: Mapping[str, object], settings: Sequence[str] = ()) -> RunConfig:
    """Return the configuration with these settings of `resources` and these `SECTION.KEY=VALUE` replaced."""
    from mosaic.config.loading import dump_run_config, parse_run_config, with_current_names

    document = dump_run_config(config)
    other = {**document["resources"], **with_current_names("resources", resources)}
    changed = parse_run_config({**document, "resources": other}, settings)
    for name in changed_settings(document, dump_run_config(changed)):
        if name == "checkpoint.folder":
            raise InputError(
                "'checkpoint.folder' cannot change on resume: the run's checkpoints are where it was created. Start a "
                "new run: mosaic train --init run:RUN"
            )
        if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in CHANGEABLE):
            raise InputError(
                f"'{name}' cannot change on resume: what was learned belongs to it. It can change: "
                f"{', '.join(CHANGEABLE)}. For anything else start a new run: mosaic train --init run:RUN"
            )
    return changed


def change_settings(
    folder: RunFolder, record: RunState, resources: Mapping[str, object], settings: Sequence[str] = ()
) -> None:
    """Change the configuration of a run that has ended as `record` says, for its next attempt.

    A finished run must get a limit that it has not reached; it counts as stopped from then on.
    """
    from mosaic.config.loading import dump_run_config
    from mosaic.workers.registry import load_worker
    from mosaic.workers.resolution import resolve
    from mosaic.workers.submission import check_ahead

    stored = folder.read_config()
    config = with_changes(stored, resources, settings)
    if record.state is State.FINISHED:
        _check_extended(folder, config)
    if config.training.worker is not None:
        check_ahead(load_worker(config.training.worker), config)
    if record.working_folder in ("", str(Path.cwd())):  # from elsewhere the code that a run names cannot be loaded
        _refuse_other_shapes(stored, resolve(config).config)
    with RunLock(folder) as lock:
        if not lock.try_acquire():
            raise RunAliveError(f"The run {folder.run_id} is already alive: another process holds its lock.")
        if len(read_written_state(folder).attempts) != len(record.attempts):
            raise RunAliveError(f"The run {folder.run_id} was started by another process in the meantime.")
        changes = changed_settings(dump_run_config(stored), dump_run_config(config))
        if changes:
            add_to_history(folder, len(record.attempts) + 1, changes)
            folder.write_config(config)
        if record.state is State.FINISHED:
            write_state(folder, record.model_copy(update={"state": State.STOPPED}))


def _check_extended(folder: RunFolder, config: RunConfig) -> None:
    """Raise InputError if a finished run would end at once."""
    from mosaic.store.checkpoints import find_checkpoint
    from mosaic.store.index.summary import last_metrics
    from mosaic.telemetry.events.event import is_number

    saved = find_checkpoint(folder, "latest", missing_ok=True)
    if saved is None:
        raise InputError(
            f"The run {folder.run_id} is finished and has no checkpoint to continue from (checkpoint.at_end is off)."
        )
    training, last = config.training, last_metrics(folder.metrics)
    episodes, reward = last.event.get("episodes_total"), last.episode_reward_mean
    for name, limit, reached in (
        ("total_timesteps", training.total_timesteps, saved.env_steps),
        ("episodes", training.episodes, episodes),
        ("stop_reward", training.stop_reward, reward),
    ):
        if limit is not None and is_number(reached) and reached >= limit:
            option = {"total_timesteps": "--steps ", "episodes": "--episodes "}.get(name, "--set training.stop_reward=")
            raise InputError(
                f"The run {folder.run_id} is finished: its {name} is {_figure(limit)} and it has reached "
                f"{_figure(reached)}. Continue it with a higher one: {option}N"
            )


def _figure(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _refuse_other_shapes(stored: RunConfig, resolved: RunConfig) -> None:
    """Raise InputError if settings change an option that the run's checkpoints depend on."""
    from mosaic.config.field_types import SHAPES_CHECKPOINTS
    from mosaic.workers.registry import load_worker, options_model

    training = resolved.training
    fields = options_model(load_worker(training.worker or ""), training.algorithm or "").model_fields
    for name, value in training.params.items():
        before = stored.training.params.get(name, value)
        if value != before and SHAPES_CHECKPOINTS in fields[name].metadata:
            raise InputError(
                f"With these settings training.params.{name} would be {value}, and the checkpoints were made "
                f"with {before}. Leave them out, or start a new run."
            )
