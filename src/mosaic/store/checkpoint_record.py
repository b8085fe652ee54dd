"""Checkpoint records: manifests, integrity checks and seals."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError
from mosaic.core.reference import explain
from mosaic.core.version import versions
from mosaic.store.archives.signature import is_sealed, seal
from mosaic.store.errors import DamagedError
from mosaic.store.origin import GitState
from mosaic.store.run_folder import RunFolder

if TYPE_CHECKING:
    from mosaic.store.store import Store

MANIFEST = "manifest.json"
LARGEST_DOCUMENT = 1 << 26  # bytes of a JSON file in a checkpoint

BestBy: TypeAlias = Literal["reward", "rating", "env_steps"]
"""Criterion of the best checkpoint.

In self-play the reward says nothing, as both sides learn: the rating in the league counts, and without a league the
newest is the best.
"""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyEntry(_Record):
    """One policy inside a checkpoint."""

    files: tuple[str, ...] = Field((), description="Its files, relative to the checkpoint's folder.")
    agents: tuple[str, ...] = Field((), description="Patterns of the agents that the run gave it, such as red_*.")
    worker: str | None = Field(None, description="Plug-in that can load it; None: the checkpoint's.")
    stochastic: bool = Field(False, description="It gives probabilities of actions; else values, or one action.")
    normalized: bool | None = Field(
        None, description="It shifts and scales observations by numbers in its files; None: its worker does not say."
    )


class FileEntry(_Record):
    size: int
    sha256: str


class CheckpointManifest(_Record):
    format: Literal["mosaic.checkpoint"] = "mosaic.checkpoint"
    version: Literal[1] = 1
    origin: str  # id of the run that wrote it
    worker: str
    env_steps: int = Field(ge=0)
    seq: int  # the last metric event before it
    seed: int | None
    reward: float | None
    rating: float | None = None  # of the learner in its league, on Elo's scale
    best_by: BestBy = "reward"
    policies: dict[str, PolicyEntry]
    environment: dict[str, object]
    spaces: dict[str, Any]
    versions: dict[str, str]
    git: GitState | None = None  # of the attempt that wrote it; None: not a repository, or an older version
    pickles: bool  # its files may run code when loaded
    files: dict[str, FileEntry]


@dataclass(frozen=True, slots=True)
class CheckpointScore:
    """Scores of the policies, and the score by which the best checkpoint is chosen."""

    reward: float | None = None
    rating: float | None = None
    best_by: BestBy = "reward"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a checkpoint: the worker that can load it, the env and its spaces, seed, versions and commit."""

    worker: str = ""
    environment: Mapping[str, object] = field(default_factory=dict)
    spaces: Mapping[str, object] = field(default_factory=dict)
    seed: int | None = None
    versions: Mapping[str, str] | None = None  # None: those of this process
    git: GitState | None = None


@dataclass(frozen=True, slots=True)
class CheckpointContents:
    """Description of a checkpoint that is about to be written; its files come from the worker."""

    env_steps: int
    seq: int  # the last metric event before it
    policies: Mapping[str, PolicyEntry]
    score: CheckpointScore = CheckpointScore()
    provenance: Provenance = field(default_factory=Provenance)
    pickles: bool = True  # False only if no file runs code when it is loaded

    @classmethod
    def of(cls, manifest: CheckpointManifest, *, seq: int) -> CheckpointContents:
        """Describe a copy of a written checkpoint, at another place in the events."""
        return cls(
            manifest.env_steps,
            seq,
            manifest.policies,
            CheckpointScore(manifest.reward, manifest.rating, manifest.best_by),
            Provenance(
                manifest.worker,
                manifest.environment,
                manifest.spaces,
                manifest.seed,
                manifest.versions,
                manifest.git,
            ),
            manifest.pickles,
        )

    def manifest(self, origin: str, files: Mapping[str, FileEntry]) -> CheckpointManifest:
        score, made = self.score, self.provenance
        return CheckpointManifest(
            origin=origin,
            worker=made.worker,
            env_steps=self.env_steps,
            seq=self.seq,
            seed=made.seed,
            reward=_finite_or_none(score.reward),
            rating=_finite_or_none(score.rating),
            best_by=score.best_by,
            policies=dict(self.policies),
            environment=dict(made.environment),
            spaces=dict(made.spaces),
            versions=dict(versions() if made.versions is None else made.versions),
            git=made.git,
            pickles=self.pickles,
            files=dict(files),
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint on disk, with its manifest."""

    path: Path
    env_steps: int
    manifest: CheckpointManifest
    digest: str  # of the manifest
    mark: str  # seal of the store that wrote it
    verified: bool = False  # every file was compared with its hash
    outside: bool = False  # named by its path, and not in a run of the user's store
    skipped: tuple[str, ...] = ()  # why others, which would have come first, were skipped

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.path.parent.parent)

    @property
    def origin(self) -> str:
        """Return the id of the run it belongs to; of a copy outside a run, that of the run that wrote it."""
        return self.manifest.origin if self.outside else self.run.run_id

    @property
    def rank(self) -> tuple[int, int]:
        """Return a sort key; later is greater.

        By seq first: after a resume from further back, fewer steps may be newer.
        """
        return self.manifest.seq, self.env_steps

    @property
    def reward(self) -> float | None:
        return self.manifest.reward

    @property
    def merit(self) -> float | None:
        """Return the value that the best checkpoint maximises; None where it was not measured."""
        match self.manifest.best_by:
            case "reward":
                return self.manifest.reward
            case "rating":
                return self.manifest.rating
            case "env_steps":
                return float(self.env_steps)
            case unreachable:
                assert_never(unreachable)

    def trusted(self, store: Store) -> bool:
        """Return whether a run of this very store wrote exactly these files."""
        here = not self.outside and self.run.path.parent.resolve() == store.runs.resolve()
        return here and not self.run.is_imported() and self.sealed_by(store)

    def sealed_by(self, store: Store) -> bool:
        """Return whether this store sealed exactly these files, wherever they have been copied since."""
        return is_sealed(store.home, self.digest, self.mark) and (self.verified or damage(self) is None)


def manifest_bytes(folder: RunFolder, manifest: CheckpointManifest) -> bytes:
    """Return the manifest with its own hash, so that every change is noticed, and the store's seal."""
    document = {name: _finite(value) for name, value in manifest.model_dump(mode="python").items()}
    digest = _digest(document)
    return json.dumps({**document, "digest": digest, "seal": seal(folder, digest)}, indent=1, allow_nan=False).encode()


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint's manifest; `damage` checks the files."""
    name = path / MANIFEST
    try:
        document = json.loads(_read_some(name))
        digest, mark = str(document.pop("digest")), str(document.pop("seal"))
        if _digest(document) != digest:
            raise DamagedError(f"its {MANIFEST} has changed since it was written")
        manifest = CheckpointManifest.model_validate(document)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedError(f"it has no {MANIFEST}") from error
    except ValidationError as error:
        raise DamagedError(f"its {MANIFEST} is invalid: {explain(error, CheckpointManifest)}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"its {MANIFEST} is damaged ({error})") from error
    for policy, entry in manifest.policies.items():
        strangers = [file for file in entry.files if file not in manifest.files]
        if strangers:
            raise DamagedError(f"its policy '{policy}' names the file '{strangers[0]}', which is not one of its files")
    return Checkpoint(path, manifest.env_steps, manifest, digest, mark)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file in a checkpoint, which anyone may have written; raise FormatError unless it holds an object."""
    try:
        document = json.loads(_read_some(path))
    except FileNotFoundError as error:
        raise FormatError(f"There is no file '{path}', which its checkpoint should have.") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"'{path}' is not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise FormatError(f"'{path}' is not a JSON object.")
    return document


def weights_file(checkpoint: Checkpoint, policy: str) -> str:
    """Return the name of the safetensors file of a policy, for workers that write one."""
    names = [name for name in checkpoint.manifest.policies[policy].files if name.endswith(".safetensors")]
    if not names:
        raise FormatError(f"The checkpoint '{checkpoint.path}' has no safetensors file for its policy '{policy}'.")
    return names[0]


def environment_of(checkpoint: Checkpoint) -> EnvironmentConfig:
    """Return the env that a checkpoint was trained in; raise FormatError where its manifest describes none."""
    try:
        return EnvironmentConfig.model_validate(checkpoint.manifest.environment)
    except ValidationError as error:
        raise FormatError(
            f"The checkpoint '{checkpoint.path}' does not describe its environment: {explain(error, EnvironmentConfig)}"
        ) from error


def _read_some(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        raise ValueError(f"it is larger than {LARGEST_DOCUMENT >> 20} MiB, the most that is read")
    return data


def damage(checkpoint: Checkpoint) -> str | None:
    """Describe what is wrong with its files; return None if every byte is as it was written."""
    wanted = checkpoint.manifest.files
    try:
        found = files_in(checkpoint.path)
        missing, extra = sorted(wanted.keys() - found), sorted(found - wanted.keys() - {MANIFEST})
        if missing:
            return f"its file '{missing[0]}' is missing"
        if extra:
            return f"'{extra[0]}' does not belong to it"
        for name, entry in wanted.items():
            if file_entry(checkpoint.path / name) != entry:
                return f"its file '{name}' has changed since it was written"
    except OSError as error:
        return f"it cannot be read ({error})"
    except DamagedError as error:
        return str(error)
    return None


def files_in(path: Path) -> set[str]:
    """Return the relative names of all files below; links and devices are not allowed in a checkpoint."""
    found: set[str] = set()
    for folder, folders, files in os.walk(path, onerror=_raise):
        for name in (*folders, *files):
            item = Path(folder, name)
            if item.is_symlink() or not (item.is_file() or item.is_dir()):
                raise DamagedError(f"'{item.relative_to(path)}' is not a plain file")
        found.update(Path(folder, name).relative_to(path).as_posix() for name in files)
    return found


def file_entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(size=file.tell(), sha256=digest)


def _raise(error: OSError) -> None:
    raise error


def _digest(document: Mapping[str, object]) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _finite(value: object) -> object:
    """Replace infinities, which occur in the bounds of spaces, by text: JSON does not support them."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
