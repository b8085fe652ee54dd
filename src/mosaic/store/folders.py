"""Folders as a file browser shows them: names and sizes of what fits a purpose, inside the folders that are allowed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.store.views import ReadModel

FilePurpose: TypeAlias = Literal["config", "game", "checkpoint", "episode", "folder"]
SUFFIXES: dict[FilePurpose, tuple[str, ...]] = {
    "config": (".yaml", ".yml", ".toml", ".json"),
    "game": (".py", ".godot", ".x86_64", ".pck", ".exe", ".app"),
    "checkpoint": (".zip", ".onnx", ".mosaic"),
    "episode": (".json",),
    "folder": (),  # to write into
}
MOST_ENTRIES = 1000
MOST_CONFIG_BYTES = 256 << 10


class FolderEntry(ReadModel):
    name: str
    path: str
    folder: bool
    bytes: int = Field(description="Size of a file; 0 of a folder.")


class FolderRow(ReadModel):
    """A folder; "" is the list of the allowed ones."""

    path: str
    parent: str | None = Field(description='Folder above it; "": the list of the allowed ones; null: none.')
    entries: list[FolderEntry] = Field(description="Folders first, then files that fit the purpose, by name.")


class Folders:
    """Folders below the allowed ones, or all of this machine where `allowed` is None."""

    def __init__(self, allowed: Iterable[Path] | None) -> None:
        self._allowed = None if allowed is None else sorted({path.resolve() for path in allowed if path.is_dir()})

    def show(self, folder: str, purpose: FilePurpose) -> FolderRow:
        """List a folder; "" is the list of the allowed ones, or the working directory where all are."""
        if not folder and self._allowed is not None:
            return FolderRow(path="", parent=None, entries=[_entry(path, str(path)) for path in self._allowed])
        found = self._inside(folder or ".")
        if not found.is_dir():
            raise InputError(f"'{found}' is not a folder.")
        try:
            inside = [path for path in found.iterdir() if self._is_shown(path, purpose)]
        except PermissionError as error:
            raise InputError(f"'{found}' must not be read by this user.") from error
        inside.sort(key=lambda path: (not path.is_dir(), path.name.lower()))
        entries = [_entry(path, path.name) for path in inside[:MOST_ENTRIES]]
        return FolderRow(path=str(found), parent=self._parent(found), entries=entries)

    def read_config(self, file: str) -> str:
        """Return the text of a configuration file."""
        found = self._inside(file)
        if found.suffix.lower() not in SUFFIXES["config"] or not found.is_file():
            raise InputError(f"'{found}' is not a configuration file: {', '.join(SUFFIXES['config'])}.")
        if found.stat().st_size > MOST_CONFIG_BYTES:
            raise InputError(
                f"'{found}' has more than {MOST_CONFIG_BYTES >> 10} KiB, and no configuration is that long."
            )
        try:
            return found.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"'{found}' is not UTF-8 text (byte {error.start}).") from error
        except PermissionError as error:
            raise InputError(f"'{found}' must not be read by this user.") from error

    def _inside(self, name: str) -> Path:
        """Return the real path, with links followed; raise where it leaves the allowed folders."""
        try:
            found = Path(name).expanduser().resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            found = None
        if self._allowed is not None and (found is None or not self._is_allowed(found)):
            listed = ", ".join(map(str, self._allowed)) or "none"
            raise InputError(f"'{name}' is not in a folder that this server shows. Those are: {listed}.")
        if found is None:
            raise UnknownNameError(f"There is no file or folder '{name}'.")
        return found

    def _is_allowed(self, path: Path) -> bool:
        hidden = any(part.startswith(".") for root in self._roots(path) for part in path.relative_to(root).parts)
        return bool(self._roots(path)) and not hidden

    def _roots(self, path: Path) -> list[Path]:
        return [root for root in self._allowed or () if path.is_relative_to(root)]

    def _is_shown(self, path: Path, purpose: FilePurpose) -> bool:
        if path.name.startswith("."):
            return False
        try:
            real = path.resolve(strict=True)
            fits = real.is_dir() or (real.is_file() and path.suffix.lower() in SUFFIXES[purpose])
        except (OSError, RuntimeError):
            return False  # a link to nothing, or to itself
        return fits and (self._allowed is None or self._is_allowed(real))

    def _parent(self, folder: Path) -> str | None:
        if self._allowed is not None and folder in self._allowed:
            return ""
        return str(folder.parent) if folder.parent != folder else None


def _entry(path: Path, name: str) -> FolderEntry:
    folder = path.is_dir()
    return FolderEntry(name=name, path=str(path), folder=folder, bytes=0 if folder else path.stat().st_size)
