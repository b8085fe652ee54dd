"""Policy of a checkpoint, of Mosaic or of a library that a worker reads: `checkpoint:PATH[,policy=NAME]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.files import file_stamp
from mosaic.core.ids import AgentID
from mosaic.policies.controller import (
    PolicyController,
    PolicyKind,
    PolicyRequest,
    Sampling,
    TrainedPolicyOptions,
)
from mosaic.store.archives.trust import require_trust_in_foreign, trust_given
from mosaic.store.checkpoint_folder import owner_of
from mosaic.store.checkpoint_record import MANIFEST, Checkpoint, damage, environment_of, read_checkpoint
from mosaic.store.errors import DamagedError
from mosaic.store.policies.foreign_checkpoint import ForeignCheckpoint, ForeignSource, find_foreign
from mosaic.store.policies.run_policy import (
    PolicyGroup,
    code_folder,
    make_trained,
    trained_notes,
)
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store


class CheckpointPolicyOptions(TrainedPolicyOptions):
    path: str = Field(
        min_length=1, description="Folder of a checkpoint of a run or of RLlib, zip of SB3, or a folder of experiments."
    )
    policy: str | None = Field(None, min_length=1, description="One of its policies; default: each agent's own.")
    algo: str | None = Field(
        None, min_length=1, description="Algorithm of a checkpoint of SB3 or RLlib; default: found in it."
    )


def find_saved(path: Path) -> Checkpoint | None:
    """Return Mosaic's checkpoint in this folder, every byte of it checked; None if another program wrote what is there.

    A folder to which a run links is found where the run has it, since the run decides whether it is trusted.
    """
    if not path.is_dir() and not path.is_file():
        raise InputError(f"There is no checkpoint '{path}': neither a folder nor a file.")
    if path.is_file() or not (path / MANIFEST).is_file() or RunFolder(path).exists():  # a run has a manifest, too
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


def _path(options: CheckpointPolicyOptions) -> Path:
    return Path(options.path).expanduser().absolute()


def _make(options: CheckpointPolicyOptions, request: PolicyRequest) -> PolicyController:
    path = _path(options)
    checkpoint = find_saved(path)
    if checkpoint is not None:
        if options.algo is not None:
            raise InputError(f"'{request.reference}': a checkpoint of Mosaic names its algorithm. Leave algo out.")
        return make_trained(checkpoint, options.policy, options, request, trust=trusts(checkpoint))
    return make_foreign(find_foreign(path), options, request)


def make_foreign(
    found: ForeignCheckpoint, options: CheckpointPolicyOptions, request: PolicyRequest
) -> PolicyController:
    """Return a controller for a checkpoint of another program; raise TrustError where it would have to be unpickled."""
    if getattr(found.worker, "unpickles_foreign", True):
        require_trust_in_foreign(found.path)
    asked = options.sample or options.temperature is not None
    drawn = Sampling(options.temperature) if asked else None
    source = ForeignSource(found.path, options.policy, options.algo, best=options.sample is False)
    made: Mapping[AgentID, PolicyController] = found.worker.foreign_controllers(
        source, replace(request, sampling=drawn)
    )
    if len(set(made.values())) == 1:
        return next(iter(made.values()))
    numbers = {controller: str(number) for number, controller in enumerate(dict.fromkeys(made.values()))}
    controllers = {number: controller for controller, number in numbers.items()}
    return PolicyGroup(lambda agent: numbers[made[agent]], controllers.__getitem__, controllers)


def _notes(options: CheckpointPolicyOptions, request: PolicyRequest) -> tuple[str, ...]:
    checkpoint = find_saved(_path(options))
    if checkpoint is not None:
        return trained_notes(checkpoint, options.policy, options, request)
    found = find_foreign(_path(options))
    make_foreign(found, options, request).close()  # only the loaded networks know what they see and do
    tell = getattr(found.worker, "foreign_notes", None)
    return (*filter(None, (found.note,)), *(tell(found.path) if callable(tell) else ()))


def _code_folder(options: CheckpointPolicyOptions) -> str:
    checkpoint = find_saved(_path(options))
    return "" if checkpoint is None or checkpoint.outside else code_folder(checkpoint.run)


def _environment(options: CheckpointPolicyOptions) -> EnvironmentConfig | None:
    checkpoint = find_saved(_path(options))
    return None if checkpoint is None else environment_of(checkpoint)


def _version(options: CheckpointPolicyOptions) -> str:
    checkpoint = find_saved(_path(options))
    return file_stamp(_path(options)) if checkpoint is None else checkpoint.digest


kind = PolicyKind(
    usage="checkpoint:PATH[,policy=NAME][,algo=NAME][,sample=true][,temperature=T]",
    help="Policy of a checkpoint: of any run, of SB3 (a zip), or of RLlib itself (with --trust).",
    make=_make,
    notes=_notes,
    code_folder=_code_folder,
    environment=_environment,
    options=CheckpointPolicyOptions,
    first="path",
    version=_version,
)
