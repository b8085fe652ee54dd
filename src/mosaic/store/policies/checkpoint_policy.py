"""Policy of a checkpoint folder, of Mosaic or of a library that a worker reads: `checkpoint:PATH[,policy=NAME]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.ids import AgentID
from mosaic.core.plugins import load_plugin, plugins
from mosaic.policies.controller import (
    PolicyController,
    PolicyKind,
    PolicyRequest,
    Sampling,
    TrainedPolicyOptions,
)
from mosaic.store.archives.trust import require_trust_in_foreign, trust_given
from mosaic.store.checkpoint_folder import owner_of
from mosaic.store.checkpoint_record import MANIFEST, Checkpoint, damage, read_checkpoint
from mosaic.store.errors import DamagedError
from mosaic.store.policies.run_policy import (
    PolicyGroup,
    code_folder,
    make_trained,
    trained_notes,
)
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store


class CheckpointPolicyOptions(TrainedPolicyOptions):
    path: str = Field(min_length=1, description="Folder of a checkpoint: of a run, or one that RLlib wrote by itself.")
    policy: str | None = Field(None, min_length=1, description="One of its policies; default: each agent's own.")


def find_saved(path: Path) -> Checkpoint | None:
    """Return Mosaic's checkpoint in this folder, every byte of it checked; None if another program wrote the folder.

    A folder to which a run links is found where the run has it, since the run decides whether it is trusted.
    """
    if not path.is_dir():
        raise InputError(f"There is no checkpoint folder '{path}'.")
    if not (path / MANIFEST).is_file() or RunFolder(path).exists():  # a run has a manifest, too
        return None
    path = path.resolve()
    owner = owner_of(path.parent)
    if owner is not None and (owner / "checkpoints" / path.name).exists():
        path = owner.resolve() / "checkpoints" / path.name
    try:
        checkpoint = read_checkpoint(path)
    except DamagedError as error:
        raise InputError(f"'{path}' is not a usable checkpoint: {error}.") from error
    problem = damage(checkpoint)
    if problem is not None:
        raise InputError(f"The checkpoint '{path}' is damaged: {problem}.")
    run = checkpoint.run
    ours = run.exists() and run.path.parent == Store().runs.resolve()  # another store's seal is worth nothing here
    return replace(checkpoint, verified=True, outside=not ours)


def trusts(checkpoint: Checkpoint) -> bool:
    """Return whether its code may be loaded: the user said so, or this store sealed what was copied elsewhere."""
    return trust_given() or (checkpoint.outside and checkpoint.sealed_by(Store()))


def reader_of(path: Path) -> tuple[Any, tuple[str, ...]]:
    """Return the worker that reads a folder which Mosaic did not write, and the names of the policies in it."""
    for name in plugins("mosaic.workers"):
        try:
            worker = load_plugin("mosaic.workers", name)
        except MissingExtraError:
            continue
        find = getattr(worker, "foreign_policies", None)
        if callable(find) and (names := find(path)):
            return worker, names
    raise InputError(f"'{path}' is not a checkpoint that Mosaic or one of its workers can play. {_hint(path)}".rstrip())


def _hint(path: Path) -> str:
    """Name the checkpoints in or below a folder that is not one."""
    if RunFolder(path).exists():
        return f"It is the folder of a run: type run:{path.name}"
    if (path / "policies").is_dir() and (path / "algorithm_state.pkl").is_file():
        return "RLlib wrote it with its old API stack; Mosaic plays those of the new one."
    below = [each for pattern in ("*", "*/*") for each in sorted(path.glob(pattern)) if _is_checkpoint(each)]
    return f"Did you mean one of those in it: {', '.join(map(str, below[-3:]))}?" if below else ""


def _is_checkpoint(path: Path) -> bool:
    return (path / MANIFEST).is_file() or (path / "learner_group").is_dir()


def _path(options: CheckpointPolicyOptions) -> Path:
    return Path(options.path).expanduser().absolute()


def _make(options: CheckpointPolicyOptions, request: PolicyRequest) -> PolicyController:
    path = _path(options)
    checkpoint = find_saved(path)
    if checkpoint is not None:
        return make_trained(checkpoint, options.policy, options, request, trust=trusts(checkpoint))
    worker, _ = reader_of(path)
    require_trust_in_foreign(path)
    asked = options.sample or options.temperature is not None
    wanted = replace(request, sampling=Sampling(options.temperature) if asked else None)
    made: Mapping[AgentID, PolicyController] = worker.foreign_controllers(path, options.policy, wanted)
    if len(set(made.values())) == 1:
        return next(iter(made.values()))
    numbers = {controller: str(number) for number, controller in enumerate(dict.fromkeys(made.values()))}
    controllers = {number: controller for controller, number in numbers.items()}
    return PolicyGroup(lambda agent: numbers[made[agent]], controllers.__getitem__, controllers)


def _notes(options: CheckpointPolicyOptions, request: PolicyRequest) -> tuple[str, ...]:
    checkpoint = find_saved(_path(options))
    if checkpoint is not None:
        return trained_notes(checkpoint, options.policy, options, request)
    _make(options, request).close()  # only the loaded networks know what they see and do
    return ()


def _code_folder(options: CheckpointPolicyOptions) -> str:
    checkpoint = find_saved(_path(options))
    return "" if checkpoint is None or checkpoint.outside else code_folder(checkpoint.run)


kind = PolicyKind(
    usage="checkpoint:PATH[,policy=NAME][,sample=true][,temperature=T]",
    help="Policy of a checkpoint folder: of any run, or one that RLlib wrote by itself (with --trust).",
    make=_make,
    notes=_notes,
    code_folder=_code_folder,
    options=CheckpointPolicyOptions,
    first="path",
)
