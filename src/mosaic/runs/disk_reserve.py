"""Preallocated disk space for a run's final state."""

from __future__ import annotations

import os

from mosaic.store.errors import StorageError, reason
from mosaic.store.run_folder import RunFolder

_BYTES = 64 << 10  # state.json and manifest.json, with file system overhead


class Reserve:
    """Preallocated file, freed so that the final state can be written to a full disk."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / ".reserve"

    def take(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._no_room(error) from error
        try:
            os.posix_fallocate(descriptor, 0, _BYTES)
        except OSError as error:
            self.give_back()
            raise self._no_room(error) from error
        finally:
            os.close(descriptor)

    def give_back(self) -> None:
        self._path.unlink(missing_ok=True)

    def _no_room(self, error: OSError) -> StorageError:
        return StorageError(f"'{self._path.parent}' has no room for a run: {reason(error)}.")
