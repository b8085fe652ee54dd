"""Manifest of a bundle: what its policies see and do, how they were trained and measured, and a hash of every file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mosaic.config.sections import join_id
from mosaic.core.errors import FormatError
from mosaic.core.reference import explain
from mosaic.store.checkpoint_record import BestBy, CheckpointManifest, FileEntry, PolicyEntry
from mosaic.store.origin import GitState

MANIFEST, CARD = "manifest.json", "README.md"
WEIGHTS, GRAPHS = "weights", "onnx"  # folders
FORMAT = "mosaic.bundle"
LOADED = (".safetensors", ".json", ".onnx")  # formats of weights, none of which can hold code
SUFFIXES = (*LOADED, ".md", ".mp4", ".gif")
LARGEST_MANIFEST = 1 << 24  # bytes
LARGEST_FILE = 1 << 32
MOST_FILES = 500
_PART = re.compile(r"[\w%][\w%.+=@ -]*(?<![. ])")  # neither hidden nor `..`, and valid on every file system


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Preprocessing(_Record):
    """Preprocessing of a policy's inputs: the env's raw numbers, encoded and scaled alike by weights and graph."""

    inputs: dict[str, Any] = Field({}, description="Space of each input of the ONNX file, by its name.")
    masked: bool = Field(False, description="Whether an action mask is also an input.")
    memory: int = Field(0, description="Numbers of its memory that go in and out with each step; 0: none.")
    normalized: bool | None = Field(
        None, description="Observations are shifted and scaled by numbers in the weights; None: not known."
    )


class Decoding(_Record):
    """One part of an action, in the order of the action space."""

    kind: Literal["choice", "numbers"]
    sizes: tuple[int, ...] = Field(
        (), description="For choices: number of outputs of each; the largest legal output is the choice."
    )
    start: int = Field(0, description="For choices: number of the first.")
    width: int = Field(0, description="For numbers: their count; they are clipped to the bounds of the space.")


class GraphEntry(_Record):
    """ONNX file of a policy, compared with it."""

    file: str
    agents: tuple[str, ...]
    parity: dict[str, Any]


class BundledPolicy(_Record):
    agents: tuple[str, ...] = Field((), description="Patterns of the agents that the run gave it.")
    worker: str = Field(description="Plug-in that plays its weights.")
    stochastic: bool = False
    weights: tuple[str, ...] = Field(description="Its files, relative to the folder of weights.")
    onnx: tuple[GraphEntry, ...] = ()
    onnx_refused: str = Field("", description="Why there is no ONNX file.")
    preprocessing: Preprocessing = Preprocessing()
    decoding: tuple[Decoding, ...] = ()


class TrainingSummary(_Record):
    algorithm: str | None = None
    env_steps: int = Field(ge=0)
    agent_steps: int | None = None
    episodes: int | None = None
    reward_mean: float | None = None
    rating: float | None = None
    best_by: BestBy = "reward"
    seed: int | None = None
    policy_configuration: str | None = None
    params: dict[str, Any] = {}


class ReplayVideo(_Record):
    """Video of one episode, or why there is none."""

    file: str | None = None
    reason: str = ""


class BundleManifest(_Record):
    format: Literal["mosaic.bundle"] = "mosaic.bundle"
    version: Literal[1] = 1
    run: str
    name: str
    environment: dict[str, Any]
    spaces: dict[str, Any]
    policies: dict[str, BundledPolicy] = Field(min_length=1)
    training: TrainingSummary
    evaluation: tuple[dict[str, Any], ...] = ()
    replay: ReplayVideo = ReplayVideo()
    versions: dict[str, str]
    git: GitState | None = None  # of the attempt that wrote the weights
    files: dict[str, FileEntry]

    @property
    def env_id(self) -> str:
        """Return the name of the env as commands take it: family/name, or python:module:factory."""
        family, name = self.environment.get("family") or "", self.environment.get("env_id", "")
        return join_id(family, str(name))

    def checkpoint(self) -> CheckpointManifest:
        """Return the manifest of the folder of weights, as a worker reads it."""
        trained = self.training
        return CheckpointManifest(
            origin=self.run,
            worker=next(iter(self.policies.values())).worker,
            env_steps=trained.env_steps,
            seq=0,
            seed=trained.seed,
            reward=trained.reward_mean,
            rating=trained.rating,
            best_by=trained.best_by,
            policies={
                name: PolicyEntry(
                    files=each.weights,
                    agents=each.agents,
                    worker=each.worker,
                    stochastic=each.stochastic,
                    normalized=each.preprocessing.normalized,
                )
                for name, each in self.policies.items()
            },
            environment=self.environment,
            spaces=self.spaces,
            versions=self.versions,
            git=self.git,
            pickles=False,
            files={},
        )


def parse_manifest(data: bytes, where: str) -> BundleManifest:
    """Read a manifest that anyone may have written; raise FormatError for any other content."""
    if len(data) > LARGEST_MANIFEST:
        raise FormatError(f"{where} is larger than {LARGEST_MANIFEST >> 20} MiB, the most that is read.")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"{where} is not the manifest of a bundle. Bundles are made by: mosaic bundle RUN")
    if document.get("version") != 1:
        raise FormatError(
            f"{where} has version {document.get('version')!r}, and this version of Mosaic reads version 1. "
            "Type: pip install --upgrade mosaic-rl"
        )
    try:
        manifest = BundleManifest.model_validate(document)
    except ValidationError as error:
        raise FormatError(f"{where} is damaged: {explain(error, BundleManifest)}") from error
    _check_files(manifest, where)
    return manifest


def manifest_text(manifest: BundleManifest) -> str:
    return json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _check_files(manifest: BundleManifest, where: str) -> None:
    """Raise FormatError for names that could leave the folder, and for policies whose files are not listed."""
    files = manifest.files
    if len(files) > MOST_FILES:
        raise FormatError(f"{where} lists {len(files):,} files; a bundle has at most {MOST_FILES}.")
    for name, entry in files.items():
        check_name(name, where)
        if not 0 <= entry.size <= LARGEST_FILE:
            raise FormatError(f"{where}: '{name}' claims {entry.size:,} bytes; a file has at most {LARGEST_FILE:,}.")
    if len({name.casefold() for name in files}) < len(files):
        raise FormatError(f"{where} lists two files whose names differ only in upper and lower case.")
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    if both := sorted(folders & files.keys()):
        raise FormatError(f"{where} lists '{both[0]}' as a file and as a folder.")
    for name, policy in manifest.policies.items():
        wanted = [f"{WEIGHTS}/{each}" for each in policy.weights] + [each.file for each in policy.onnx]
        _require(wanted, manifest, f"{where}: the policy '{name}'")
    if manifest.replay.file is not None:
        _require([manifest.replay.file], manifest, f"{where}: the replay")


def check_name(name: str, where: str) -> None:
    """Raise FormatError unless this is a plain relative name of a format that bundles have."""
    parts = name.split("/")
    plain = len(parts) <= 4 and len(name) <= 240 and all(_PART.fullmatch(part) for part in parts)
    if not plain or PurePosixPath(name).suffix not in SUFFIXES or name == MANIFEST:
        raise FormatError(
            f"{where} lists {name!r}, which does not belong in a bundle: names are relative, and their formats are "
            f"{', '.join(SUFFIXES)}."
        )


def _require(wanted: Iterable[str], manifest: BundleManifest, who: str) -> None:
    missing = [name for name in wanted if name not in manifest.files]
    if missing:
        raise FormatError(f"{who} names the file {missing[0]!r}, which is not in the list of files.")
