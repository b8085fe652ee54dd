"""Source of the weights that training starts from: `training.init`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.reference import Options, parse_options, split_reference
from mosaic.store.checkpoints import Checkpoint, Which, find_checkpoint
from mosaic.store.policies.checkpoint_policy import find_saved
from mosaic.store.policies.run_policy import parse_run_reference
from mosaic.store.store import Store


class InitOptions(Options):
    """Options of `training.init` with a run."""

    run: str = Field(description="RUN[@best|@latest|@STEP][/POLICY]")
    optimizer: bool = Field(False, description="Also take the state of its optimizer, not only the weights.")


class InitFolderOptions(Options):
    """Options of `training.init` with a checkpoint: a folder, or a zip of SB3."""

    path: str = Field(min_length=1, description="Folder of a checkpoint, or zip of SB3.")
    policy: str | None = Field(None, min_length=1, description="One of its policies, for all policies of the run.")
    optimizer: bool = Field(False, description="Also take the state of its optimizer, not only the weights.")


class InitZipOptions(Options):
    """Options of `training.init` with a zip of SB3."""

    path: str = Field(min_length=1, description="Zip that SB3's model.save() wrote.")
    optimizer: bool = Field(False, description="Also take the state of its optimizer, not only the weights.")


@dataclass(frozen=True, slots=True)
class InitSource:
    """Checkpoint that `training.init` names, and what to take of it."""

    reference: str
    path: Path  # of the checkpoint
    checkpoint: Checkpoint | None  # None: another program wrote the folder or file
    policy: str | None
    optimizer: bool


def parse_init(reference: str) -> tuple[str, Which, str | None, bool] | InitFolderOptions:
    """Parse `run:nightly@best/red,optimizer=true` → ("nightly", "best", "red", True); `checkpoint:…`, `sb3:…`."""
    kind, text = split_reference(reference)
    if kind == "checkpoint":
        return parse_options(reference, text, InitFolderOptions, first="path")
    if kind == "sb3":
        zipped = parse_options(reference, text, InitZipOptions, first="path")
        return InitFolderOptions(path=zipped.path, policy=None, optimizer=zipped.optimizer)
    if kind == "run":
        options = parse_options(reference, text, InitOptions, first="run")
        return *parse_run_reference(options.run), options.optimizer
    raise InputError(
        f"training.init '{reference}' is none of run:RUN[@best|@latest|@STEP][/POLICY], "
        "checkpoint:PATH[,policy=NAME] and sb3:FILE.zip, each with [,optimizer=true]; for example run:latest@best."
    )


@overload
def find_init(reference: str, store: Store | None = ..., *, missing_ok: Literal[False] = ...) -> InitSource: ...
@overload
def find_init(reference: str, store: Store | None = ..., *, missing_ok: bool) -> InitSource | None: ...
def find_init(reference: str, store: Store | None = None, *, missing_ok: bool = False) -> InitSource | None:
    """Find the checkpoint that `run:…`, `checkpoint:…` or `sb3:…` names, a run in this store (default: the user's).

    `missing_ok`: return None for a run that has saved nothing yet.
    """
    parsed = parse_init(reference)
    if isinstance(parsed, InitFolderOptions):
        path = Path(parsed.path).expanduser().absolute()
        found = find_saved(path)
        return InitSource(reference, found.path if found else path, found, parsed.policy, parsed.optimizer)
    run, which, policy, optimizer = parsed
    folder = (store or Store()).resolve(run)
    if missing_ok and find_checkpoint(folder, missing_ok=True) is None:
        return None
    checkpoint = find_checkpoint(folder, which)
    return InitSource(reference, checkpoint.path, checkpoint, policy, optimizer)
