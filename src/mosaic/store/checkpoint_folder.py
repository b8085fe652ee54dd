"""Checkpoint folder outside the store: FOLDER/RUN_ID, to which `checkpoints` in the run's folder is a link.

Everything that reads checkpoints follows the link. A file in the target names the run that owns it, so that a copy of
the run's folder neither writes there nor deletes it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from mosaic.core.errors import InputError
from mosaic.store.atomic import remove_folder, write_atomic
from mosaic.store.errors import StorageError, reason
from mosaic.store.run_folder import RunFolder

OWNER = ".run.json"


def place_elsewhere(staged: RunFolder, run_id: str, folder: str) -> None:
    """Create FOLDER/RUN_ID for a run that is about to be published under this id, and link to it."""
    target = Path(folder).expanduser().absolute() / run_id
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir()
        _writeowner_of(target, staged.path.parent / run_id)
        staged.checkpoints.unlink(missing_ok=True)
        staged.checkpoints.symlink_to(target)
    except FileExistsError as error:
        if not target.parent.is_dir():
            raise InputError(f"checkpoint.folder: '{target.parent}' is not a folder. Choose another.") from error
        raise InputError(
            f"checkpoint.folder: '{error.filename or target}' already exists, perhaps with the checkpoints of another "
            "run. Choose another folder, or another run_id."
        ) from error
    except OSError as error:
        raise InputError(f"checkpoint.folder: '{target}' could not be created: {reason(error)}.") from error


def undo_placement(staged: RunFolder) -> None:
    """Remove what `place_elsewhere` created, for a run that was not published."""
    target = linked_folder(staged)
    if target is not None and target.exists():
        remove_folder(target)


def linked_folder(folder: RunFolder) -> Path | None:
    """Return the folder outside the store; None for a run that keeps its checkpoints in its own."""
    return Path(os.readlink(folder.checkpoints)) if folder.checkpoints.is_symlink() else None


def require_folder(folder: RunFolder) -> None:
    """Raise StorageError where the linked folder is not there: the run must not seem to have no checkpoints."""
    target = linked_folder(folder)
    if target is not None and not target.exists():
        raise StorageError(
            f"The checkpoints of run '{folder.run_id}' are in '{target}', which is not there now. Mount its disk; or, "
            f"if you have moved it, type: ln -sfn NEW_PLACE '{folder.checkpoints}'"
        )


def claim_folder(folder: RunFolder) -> None:
    """Raise StorageError before a run writes into a linked folder that another run owns.

    The owner may have moved with its store: a run that does not exist any more owns nothing.
    """
    require_folder(folder)
    target = linked_folder(folder)
    if target is None or _owns(folder, target):
        return
    owner = owner_of(target)
    if owner is None or owner.exists():
        whose = "does not belong to a run" if owner is None else f"belongs to the run in '{owner}'"
        raise StorageError(f"The checkpoint folder '{target}' {whose}, and '{folder.path}' only links to it")
    _writeowner_of(target, folder.path)


def remove_linked(folder: RunFolder) -> None:
    """Remove the linked folder of a run that is being deleted, if it is there and the run owns it."""
    target = linked_folder(folder)
    if target is not None and target.exists() and _owns(folder, target):
        remove_folder(target)


def is_followed(folder: RunFolder) -> bool:
    """Return whether `checkpoints` is a link to a folder of a run with this id; others are not packed or listed."""
    target = linked_folder(folder)
    owner = None if target is None else owner_of(target)
    return owner is not None and owner.name == folder.run_id


def _owns(folder: RunFolder, target: Path) -> bool:
    owner = owner_of(target)
    return owner is not None and owner.resolve() == folder.path.resolve()


def owner_of(target: Path) -> Path | None:
    """Return the folder of the run that a folder outside the store belongs to; None if it belongs to none."""
    try:
        return Path(json.loads((target / OWNER).read_bytes())["run"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"'{target / OWNER}' does not name a run ({error})") from error


def _writeowner_of(target: Path, run: Path) -> None:
    write_atomic(target / OWNER, json.dumps({"run": str(run)}) + "\n")
