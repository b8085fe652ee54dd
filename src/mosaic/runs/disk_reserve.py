"""Room on the disk for a run's last word, kept from its first."""

from __future__ import annotations

import os

from mosaic.store.errors import StorageError, reason
from mosaic.store.run_folder import RunFolder

_BYTES = 64 << 10  # state.json and manifest.json, with what the file system needs for them


class Reserve:
    """A file that holds nothing and is removed when a full disk would leave the end unsaid."""

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
