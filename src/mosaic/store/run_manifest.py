"""Manifest of a run's files and results, written when it ends."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from mosaic.store.atomic import write_atomic
from mosaic.store.checkpoint_folder import is_followed
from mosaic.store.checkpoint_record import file_entry
from mosaic.store.index.summary import last_metrics
from mosaic.store.origin import MachineRecord, Origin, all_versions, machine_here, read_origin
from mosaic.store.run_folder import STATE, RunFolder
from mosaic.store.state import Attempt, RunState, State

_KINDS = {
    "config.json": "config",
    "origin.json": "origin",
    "metrics.jsonl": "metrics",
    "checkpoints": "checkpoint",
    "episodes": "episode",
}
_LOG = re.compile(r"worker(\.err)?\.log(\.\d+)?")
_CHANGING = frozenset({STATE, "manifest.json", "lock", "control", "cache", "imported.json"})


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Artefact(_Record):
    kind: str  # config, metrics, log, checkpoint, episode; else the name of its folder
    path: str  # relative to the run's folder
    size: int
    sha256: str


class RunManifest(_Record):
    format: Literal["mosaic.run"] = "mosaic.run"
    version: Literal[1] = 1
    run_id: str
    state: State
    artefacts: tuple[Artefact, ...]
    final_metrics: dict[str, object]
    versions: dict[str, str]
    attempts: tuple[Attempt, ...]
    origin: Origin | None = None  # the request and its source; None in runs of older versions
    machine: MachineRecord | None = None  # that executed the last attempt


def write_run_manifest(folder: RunFolder, state: RunState, versions: Mapping[str, str] | None = None) -> RunManifest:
    """Write the manifest of a run that ended in `state`, which is usually written right after."""
    metrics, origin = last_metrics(folder.metrics), read_origin(folder)
    summary = {"env_steps": metrics.env_steps, "episode_reward_mean": metrics.episode_reward_mean}
    manifest = RunManifest(
        run_id=folder.run_id,
        state=state.state,
        artefacts=tuple(_artefact(folder, path) for path in _files(folder)),
        final_metrics={**metrics.event, **summary},
        versions=dict(all_versions(origin.versions if origin else ()) if versions is None else versions),
        attempts=state.attempts,
        origin=origin,
        machine=machine_here(),
    )
    write_atomic(folder.manifest, manifest.model_dump_json(indent=1) + "\n")
    return manifest


def _artefact(folder: RunFolder, path: Path) -> Artefact:
    relative = path.relative_to(folder.path)
    top = relative.parts[0]
    entry = file_entry(path)
    return Artefact(
        kind="log" if _LOG.fullmatch(top) else _KINDS.get(top, top),
        path=relative.as_posix(),
        size=entry.size,
        sha256=entry.sha256,
    )


def _files(folder: RunFolder) -> Iterator[Path]:
    linked = os.walk(folder.checkpoints) if is_followed(folder) else ()
    for path, folders, files in chain(os.walk(folder.path), linked):
        hidden = _CHANGING if Path(path) == folder.path else frozenset[str]()
        folders[:] = sorted(name for name in folders if name not in hidden and not name.startswith("."))
        for name in sorted(files):
            file = Path(path, name)
            if name not in hidden and not name.startswith(".") and file.is_file() and not file.is_symlink():
                yield file
