"""Checkpoints that another program wrote: the worker that reads them, and the newest of a folder of experiments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.plugins import load_plugin, plugins
from mosaic.store.checkpoint_record import MANIFEST
from mosaic.store.run_folder import RunFolder

_DEPTH = 3  # folders below the named one: logs / ppo / CartPole-v1_3 / model.zip
_MOST = 2000  # entries of one folder that are looked at
_SHOWN = 5
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class ForeignCheckpoint:
    """File or folder that a worker can read, found by its files: nothing of it has been loaded."""

    path: Path
    worker: Any  # ReadsForeignCheckpoints
    policies: tuple[str, ...]
    note: str = ""  # how it was chosen, where a folder of several was named


@dataclass(frozen=True, slots=True)
class ForeignSource:
    """Selection of a policy from such a checkpoint, to play or export."""

    path: Path
    policy: str | None = None  # None: each agent's own
    algorithm: str | None = None  # None: found in the files
    best: bool = False  # the best action, also where policies draw by default


def find_foreign(path: Path) -> ForeignCheckpoint:
    """Return the checkpoint at a path, or the newest by number in or below a folder of experiments."""
    readers = _readers()
    found = _recognised(path, readers)
    if found is not None:
        return found
    if path.is_dir() and not RunFolder(path).exists():
        newest = _newest(path, readers, _DEPTH)
        if newest is not None:
            return newest
    raise InputError(f"'{path}' is not a checkpoint that Mosaic or one of its workers can play. {_hint(path)}".rstrip())


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers in names by their value: run_9 before run_10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def _readers() -> list[Any]:
    found = []
    for name in plugins("mosaic.workers"):
        try:
            worker = load_plugin("mosaic.workers", name)
        except MissingExtraError:
            continue
        if callable(getattr(worker, "foreign_policies", None)):
            found.append(worker)
    return found


def _recognised(path: Path, readers: Iterable[Any]) -> ForeignCheckpoint | None:
    for worker in readers:
        if names := worker.foreign_policies(path):
            return ForeignCheckpoint(path, worker, tuple(names))
    return None


def _newest(folder: Path, readers: list[Any], depth: int) -> ForeignCheckpoint | None:
    """Return the newest checkpoint in a folder, or in the newest of its folders that has one.

    Names that differ in their last number alone are one experiment; several experiments are refused by their names.
    """
    found = [each for path in _entries(folder) if (each := _recognised(path, readers)) is not None]
    if not found and depth:
        below = [path for path in _entries(folder) if path.is_dir() and _holds(path, readers, depth - 1)]
        newest = _newest(_last(folder, below), readers, depth - 1) if below else None
        return newest
    if not found:
        return None
    last = _last(folder, [each.path for each in found])
    chosen = next(each for each in found if each.path == last)
    several = f", the newest of {len(found)}" if len(found) > 1 else ""
    return ForeignCheckpoint(
        last, chosen.worker, chosen.policies, f"'{folder}' has the checkpoint {last.name}{several}"
    )


def _holds(folder: Path, readers: list[Any], depth: int) -> bool:
    entries = _entries(folder)
    if any(_recognised(path, readers) for path in entries):
        return True
    return depth > 0 and any(path.is_dir() and _holds(path, readers, depth - 1) for path in entries)


def _entries(folder: Path) -> list[Path]:
    """Return what a search looks at; links are not followed."""
    found: list[Path] = []
    for path in folder.iterdir():
        if len(found) == _MOST:
            raise InputError(f"'{folder}' has more than {_MOST:,} entries: name the checkpoint itself.")
        if not path.is_symlink() and (path.is_dir() or path.suffix == ".zip"):
            found.append(path)
    return sorted(found, key=lambda each: natural_key(each.name))


def _last(folder: Path, paths: list[Path]) -> Path:
    if len({_series(path.name) for path in paths}) > 1:
        names = [path.name for path in paths]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise InputError(
            f"'{folder}' has several checkpoints or experiments: {', '.join(names[-_SHOWN:])}{more}. Name one, for "
            f"example checkpoint:{paths[-1]}"
        )
    return max(paths, key=lambda path: natural_key(path.name))


def _series(name: str) -> str:
    """Return a name without its last number."""
    numbers = list(_NUMBER.finditer(name))
    return name if not numbers else f"{name[: numbers[-1].start()]}#{name[numbers[-1].end() :]}"


def _hint(path: Path) -> str:
    """Name the checkpoints in or below a folder that is not one."""
    if path.is_file():
        return "A zip of Stable-Baselines3 has the members data and policy.pth."
    if RunFolder(path).exists():
        return f"It is the folder of a run: type run:{path.name}"
    if _is_old(path):
        return (
            "RLlib wrote it with its old API stack, whose policies are other classes; Mosaic reads those of the new "
            "one. Train again with RLlib 2.40 or newer, or without "
            "api_stack(enable_rl_module_and_learner=False)."
        )
    below = [each for pattern in ("*", "*/*") for each in sorted(path.glob(pattern)) if _is_checkpoint(each)]
    return f"Did you mean one of those in it: {', '.join(map(str, below[-3:]))}?" if below else ""


def _is_old(path: Path) -> bool:
    """Return whether RLlib's old API stack wrote a folder: an algorithm, a policy, or that of a version before 2.0."""
    whole = (path / "policies").is_dir() and any(path.glob("algorithm_state.*"))
    return whole or any(path.glob("policy_state.*")) or any(path.glob("checkpoint-*.tune_metadata"))


def _is_checkpoint(path: Path) -> bool:
    return (path / MANIFEST).is_file() or (path / "learner_group").is_dir()
