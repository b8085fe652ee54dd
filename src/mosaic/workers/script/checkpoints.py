"""Checkpoints of a user's program: announced with `@CHECKPOINT {json}`, kept like those of any other worker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mosaic.core.errors import FormatError, InputError
from mosaic.core.reference import explain
from mosaic.store.checkpoints import PolicyEntry

MARK = "@CHECKPOINT"
CHECKPOINT_DIR = "MOSAIC_CHECKPOINT_DIR"  # environment variable of a program: where its files belong
PLAYABLE = (".onnx", ".safetensors", ".zip")  # file formats of a policy; .zip: saved by Stable-Baselines3


class UnusableCheckpointError(FormatError):
    """Announcement that cannot become a checkpoint."""


class PolicyFile(BaseModel):
    """Policy among the files of a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(description="File, relative to $MOSAIC_CHECKPOINT_DIR.")
    agents: tuple[str, ...] = Field(("*",), description="Patterns of the agents that it acts for.")
    stochastic: bool = Field(
        False, description="It gives probabilities: where moves are simultaneous or hidden, actions are drawn."
    )


class Announcement(BaseModel):
    """Announcement of a checkpoint that a program has written into $MOSAIC_CHECKPOINT_DIR."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env_steps: int = Field(ge=0, description="Env steps at which it was written.")
    reward: float | None = Field(
        None, allow_inf_nan=False, description="Reward by which the best checkpoint is chosen."
    )
    policy: str | None = Field(None, description="File of the one policy, acting for every agent.")
    stochastic: bool = Field(False, description="The one policy gives probabilities; see `policies`.")
    policies: dict[str, PolicyFile] = Field(default_factory=dict, description="Policies by name, where there are more.")
    files: tuple[str, ...] = Field((), description="Further files or folders that the program needs to resume.")

    @property
    def entries(self) -> dict[str, PolicyFile]:
        one = {"policy": PolicyFile(file=self.policy, stochastic=self.stochastic)} if self.policy else {}
        return {**one, **self.policies}


def read_announcement(text: str) -> Announcement | None:
    """Parse a line `@CHECKPOINT {json}`; return None for any other line."""
    mark, _, body = text.strip().partition(" ")
    if mark != MARK:
        return None
    try:
        return Announcement.model_validate_json(body)
    except ValidationError as error:
        raise UnusableCheckpointError(f"{MARK}: {explain(error, Announcement)}") from error


def emit_checkpoint(
    *,
    env_steps: int,
    reward: float | None = None,
    policy: str | None = None,
    stochastic: bool = False,
    policies: Mapping[str, Mapping[str, object]] | None = None,
    files: Sequence[str] = (),
) -> bool:
    """Announce files in $MOSAIC_CHECKPOINT_DIR as a checkpoint; return False where no Mosaic listens.

    ```python
    emit_checkpoint(env_steps=4096, reward=21.5, policy="policy.zip", files=["state.npz"])
    ```
    """
    if not os.environ.get(CHECKPOINT_DIR):
        return False
    fields = {
        "env_steps": env_steps,
        "reward": reward,
        "policy": policy,
        "stochastic": stochastic,
        "files": tuple(files),
    }
    try:
        announced = Announcement.model_validate({**fields, "policies": dict(policies or {})})
    except ValidationError as error:
        raise UnusableCheckpointError(f"{MARK}: {explain(error, Announcement)}") from error
    sys.stdout.write(f"{MARK} {announced.model_dump_json(exclude_defaults=True)}\n")
    sys.stdout.flush()
    return True


class ProgramFiles:
    """Announced files below $MOSAIC_CHECKPOINT_DIR, checked before anything is copied."""

    def __init__(self, folder: Path, announced: Announcement) -> None:
        self._folder = folder
        entries = announced.entries
        self._names = list(dict.fromkeys([*(each.file for each in entries.values()), *announced.files]))
        if not self._names:
            raise UnusableCheckpointError(f'{MARK} names no file. Give "policy": FILE, or "files": [FILE, ...].')
        for name in self._names:
            self._check(name)
        for name, each in entries.items():
            if PurePosixPath(each.file).suffix not in PLAYABLE or not (folder / each.file).is_file():
                raise UnusableCheckpointError(
                    f"The policy '{name}' is in '{each.file}'. A policy is a file that ends in {', '.join(PLAYABLE)}; "
                    'what only the program itself can read belongs into "files".'
                )
        self.policies = {name: self._entry(each) for name, each in entries.items()}
        self.warnings = tuple(dict.fromkeys(filter(None, (self._normalised(each.file) for each in entries.values()))))

    def _entry(self, each: PolicyFile) -> PolicyEntry:
        """Return a policy's entry, with its VecNormalize statistics.

        They belong to the policy even if not announced: `run:` must see that there are some.
        """
        from mosaic.workers.sb3.checkpoint.statistics import statistics_beside

        beside = statistics_beside(self._folder / each.file)
        statistics = () if beside is None else (str(PurePosixPath(each.file).with_name(beside)),)
        self._names += [name for name in statistics if name not in self._names]
        files = (each.file, *statistics)
        return PolicyEntry(
            files=files, agents=each.agents, stochastic=each.stochastic, normalized=bool(statistics) or None
        )

    def _normalised(self, file: str) -> str:
        """Return why the policy in a file cannot play: its VecNormalize statistics cannot be read."""
        from mosaic.workers.sb3.checkpoint.statistics import read_statistics, statistics_beside

        try:
            beside = statistics_beside(self._folder / file)
            if beside is not None:
                read_statistics((self._folder / file).parent / beside)
        except InputError as error:
            return f"'{file}' was saved beside statistics of VecNormalize, and run: refuses it: {error}"
        return ""

    def copy(self, target: Path) -> None:
        for name in self._names:
            for path in _plain_files(self._folder / name):
                copied = target / path.relative_to(self._folder)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copied)

    def _check(self, name: str) -> None:
        path, parts = self._folder / name, PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise UnusableCheckpointError(f"'{name}' is not a name below $MOSAIC_CHECKPOINT_DIR ({self._folder}).")
        if not path.exists():
            raise UnusableCheckpointError(f"There is no '{name}' in $MOSAIC_CHECKPOINT_DIR ({self._folder}).")


def _plain_files(path: Path) -> Iterator[Path]:
    for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if each.is_symlink() or not (each.is_file() or each.is_dir()):
            raise UnusableCheckpointError(f"'{each}' is a link or a device; a checkpoint holds plain files.")
        if each.is_file():
            yield each
