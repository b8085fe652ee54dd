"""Errors of stored data."""

from __future__ import annotations

from mosaic.core.errors import FormatError, MosaicError


class StorageError(MosaicError):
    """Failed write or read; what was there before is intact."""


class DamagedError(FormatError):
    """File or folder of the store that differs from what was written."""


def reason(error: OSError) -> str:
    """Return the operating system's message, such as «No space left on device», without number and path."""
    return error.strerror or str(error)
