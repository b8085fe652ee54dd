"""Bundle on disk: read, and every byte compared with its manifest before anything is loaded."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from mosaic.core.errors import FormatError, InputError
from mosaic.store.bundles.manifest import MANIFEST, WEIGHTS, BundleManifest, parse_manifest
from mosaic.store.checkpoint_record import Checkpoint, file_entry, files_in
from mosaic.store.errors import DamagedError


@dataclass(frozen=True, slots=True)
class Bundle:
    """A folder with a manifest that was read."""

    path: Path
    manifest: BundleManifest

    @property
    def size(self) -> int:
        """Return the bytes of all files but the manifest."""
        return sum(entry.size for entry in self.manifest.files.values())

    def checkpoint(self) -> Checkpoint:
        """Return the folder of weights as a checkpoint that belongs to no run of this store."""
        manifest = self.manifest.checkpoint()
        return Checkpoint(
            self.path / WEIGHTS, manifest.env_steps, manifest, digest="", mark="", verified=True, outside=True
        )


def is_bundle(path: Path) -> bool:
    """Return whether a folder has the manifest of a bundle; a run and a checkpoint have other ones."""
    try:
        read_bundle(path)
    except (FormatError, InputError):
        return False
    return True


def read_bundle(path: Path) -> Bundle:
    """Read the manifest in a folder; `open_bundle` also checks the files."""
    if not path.is_dir():
        raise InputError(f"There is no bundle '{path}': it is not a folder.")
    name = path / MANIFEST
    if not name.is_file():
        raise InputError(f"'{path}' is not a bundle: it has no {MANIFEST}. Bundles are made by: mosaic bundle RUN")
    with name.open("rb") as file:
        data = file.read((1 << 24) + 1)
    return Bundle(path, parse_manifest(data, f"'{name}'"))


def open_bundle(path: Path) -> Bundle:
    """Read a bundle and compare every file with its hash; raise InputError where one differs."""
    bundle = read_bundle(path)
    for name in bundle.manifest.files:
        _check_file(bundle, name)
    _refuse_strangers(bundle)
    return bundle


def _check_file(bundle: Bundle, name: str) -> None:
    path, wanted = bundle.path, bundle.manifest.files[name]
    for folder in (path / part for part in list(Path(name).parents)[-2::-1]):
        if folder.is_symlink():
            raise DamagedError(f"The bundle '{path}' is damaged: '{folder.relative_to(path)}' is a link.")
    try:
        found = (path / name).lstat()
    except OSError as error:
        raise DamagedError(f"The bundle '{path}' is damaged: its file '{name}' is missing.") from error
    if not stat.S_ISREG(found.st_mode):
        raise DamagedError(f"The bundle '{path}' is damaged: '{name}' is not a plain file.")
    if found.st_size != wanted.size:
        raise DamagedError(
            f"The bundle '{path}' is damaged: its file '{name}' has {found.st_size:,} bytes instead of {wanted.size:,}."
        )
    if file_entry(path / name) != wanted:
        raise DamagedError(f"The bundle '{path}' is damaged: its file '{name}' has changed since it was written.")


def _refuse_strangers(bundle: Bundle) -> None:
    """Raise for a file among the weights that the manifest does not list: workers look into this folder."""
    folder = bundle.path / WEIGHTS
    try:
        found = {f"{WEIGHTS}/{name}" for name in files_in(folder)} if folder.is_dir() else set()
    except DamagedError as error:
        raise DamagedError(f"The bundle '{bundle.path}' is damaged: {error}.") from error
    strangers = sorted(found - bundle.manifest.files.keys())
    if strangers:
        raise DamagedError(f"The bundle '{bundle.path}' is damaged: '{strangers[0]}' does not belong to it.")
