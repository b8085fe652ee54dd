"""What goes wrong with data at rest."""

from __future__ import annotations

from mosaic.core.errors import FormatError, MosaicError


class StorageError(MosaicError):
    """Something could not be written or read; what was there before is intact."""


class DamagedError(FormatError):
    """A file or folder of the store is not what was written."""


def reason(error: OSError) -> str:
    """«No space left on device», without number and path."""
    return error.strerror or str(error)
