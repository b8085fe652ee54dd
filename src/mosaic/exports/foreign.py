"""Export of checkpoints that another program wrote: converted into one of Mosaic's own in a temporary folder first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.reference import parse_options, split_reference
from mosaic.envs.catalog import make_env
from mosaic.envs.space_json import spec_spaces
from mosaic.policies.controller import PolicyRequest
from mosaic.store.archives.trust import require_trust_in_env, require_trust_in_foreign
from mosaic.store.checkpoint_record import (
    Checkpoint,
    CheckpointContents,
    PolicyEntry,
    Provenance,
    environment_of,
    read_checkpoint,
)
from mosaic.store.checkpoints import write_checkpoint
from mosaic.store.policies.checkpoint_policy import CheckpointPolicyOptions, find_saved
from mosaic.store.policies.foreign_checkpoint import ForeignCheckpoint, ForeignSource, find_foreign
from mosaic.store.run_folder import RunFolder

Convert = Callable[[ForeignSource, Path, PolicyRequest], dict[str, PolicyEntry]]


def is_path(reference: str) -> bool:
    """Return whether a reference names a checkpoint by its path."""
    return reference.startswith("checkpoint:")


@dataclass(frozen=True, slots=True)
class NamedCheckpoint:
    """Checkpoint that `checkpoint:PATH` names: nothing of it has been loaded, and loading it is allowed."""

    path: Path
    options: CheckpointPolicyOptions
    environment: str
    found: Checkpoint | ForeignCheckpoint

    @property
    def reference(self) -> str:
        """Reference that means the same in every folder."""
        parts = {"policy": self.options.policy, "algo": self.options.algo}
        return f"checkpoint:{self.path}" + "".join(f",{name}={text}" for name, text in parts.items() if text)


@contextmanager
def checkpoint_at(reference: str, environment: str | None) -> Iterator[Checkpoint]:
    """Open the checkpoint that `checkpoint:PATH` names; one of another program exists until the block ends."""
    named = find_named(reference, environment)
    if isinstance(named.found, Checkpoint):
        yield named.found
        return
    source = ForeignSource(named.found.path, named.options.policy, named.options.algo)
    convert = cast("Convert", named.found.worker.convert_foreign)
    with TemporaryDirectory(prefix="mosaic-export-") as temporary:
        yield _converted(named.found, source, convert, named.environment, Path(temporary))


def find_named(reference: str, environment: str | None) -> NamedCheckpoint:
    """Find the checkpoint that `checkpoint:PATH` names; raise what is known to fail before anything is loaded."""
    _, text = split_reference(reference)
    options = parse_options(reference, text, CheckpointPolicyOptions, first="path")
    path = Path(options.path).expanduser().absolute()
    own = find_saved(path)
    if own is not None:
        if environment is not None or options.algo is not None:
            raise InputError(f"'{path}' is a checkpoint of Mosaic and names its env and algorithm: leave them out.")
        require_trust_in_env(own)
        return NamedCheckpoint(path, options, environment_of(own).id, own)
    found = find_foreign(path)
    if not callable(getattr(found.worker, "convert_foreign", None)):
        raise InputError(
            f"'{found.path}' was written by {found.worker.info.name} without Mosaic, whose checkpoints can be played "
            "and not exported. Those of Stable-Baselines3 and RLlib can."
        )
    if environment is None:
        raise InputError(
            f"'{found.path}' does not name its env, in which observations are recorded to compare the file with the "
            "policy. Type: --env ENV, for example --env gym/CartPole-v1"
        )
    if getattr(found.worker, "unpickles_foreign", True):
        require_trust_in_foreign(found.path)
    return NamedCheckpoint(path, options, environment, found)


def _converted(
    found: ForeignCheckpoint, source: ForeignSource, convert: Convert, environment: str, home: Path
) -> Checkpoint:
    config = EnvironmentConfig.model_validate({"env_id": environment})
    with closing(make_env(config)) as env:
        request = PolicyRequest(f"checkpoint:{found.path}", env.spec, env.spec.possible_agents)
        spaces = spec_spaces(env.spec)  # with them the env, perhaps code, need not be made again
    folder = RunFolder(home / "runs" / found.path.stem)
    folder.path.mkdir(parents=True)
    entries: dict[str, PolicyEntry] = {}

    def save(target: Path) -> None:
        entries.update(convert(source, target, request))

    made = Provenance(found.worker.info.name, config.model_dump(mode="json"), spaces)
    contents = CheckpointContents(0, 0, entries, provenance=made, pickles=False)
    return replace(read_checkpoint(write_checkpoint(folder, contents, save)), verified=True, outside=True)
