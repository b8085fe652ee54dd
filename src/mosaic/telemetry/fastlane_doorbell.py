"""How somebody says for the first time that they want to look.

A ring costs its writer numba, a third of a second to load. A run pays that beside minutes of training; a short
evaluation does not have to pay it as long as nobody has rung.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_BELL = "bell"


def ring_bell(folder: Path) -> None:
    """May be done again and again. Where the folder is gone nobody is left to open."""
    with suppress(FileNotFoundError, NotADirectoryError):
        (folder / _BELL).touch()


def bell_rang(folder: Path) -> bool:
    return (folder / _BELL).exists()
