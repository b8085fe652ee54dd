"""Search for an engine's program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mosaic.core.errors import InputError, MissingExtraError

INSTALL_STOCKFISH = "apt install stockfish"
FURTHER_FOLDERS = ("/usr/games", "/usr/local/bin")  # Debian's games folder is not on every PATH
_PLACES = f"on the PATH, in {' or in '.join(FURTHER_FOLDERS)}"


def find_program(name: str) -> Path | None:
    """Find a program by name on the PATH, then in the further folders; a path is used as given."""
    path = os.path.expanduser(name)
    found = shutil.which(path) or shutil.which(path, path=os.pathsep.join(FURTHER_FOLDERS))
    return None if found is None else Path(found)


def missing_stockfish() -> str | None:
    return None if find_program("stockfish") else INSTALL_STOCKFISH


def stockfish_program() -> Path:
    program = find_program("stockfish")
    if program is None:
        raise MissingExtraError(
            f"Stockfish is not installed: there is no program 'stockfish' {_PLACES}. "
            f"Type: {INSTALL_STOCKFISH} (or name another engine: uci:PATH)"
        )
    return program


def named_program(name: str) -> Path:
    program = find_program(name)
    if program is not None:
        return program
    if os.path.exists(os.path.expanduser(name)):
        raise InputError(f"'{name}' cannot be run: an engine is an executable program. Type: chmod +x {name}")
    raise InputError(
        f"There is no engine '{name}': it is neither a program's path nor the name of one {_PLACES}. "
        "Type for example: uci:/usr/games/stockfish,depth=8"
    )
