"""Options of chess engines (search limits, playing strength), and the search for their programs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pydantic import Field, model_validator

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.reference import Options
from mosaic.core.system import install_line

DEFAULT_DEPTH = 10  # about 15 ms a move on one core, and the same move every time


class EngineOptions(Options):
    """Without depth, time_s or nodes: depth=10. With several, the first limit reached ends the search."""

    depth: int | None = Field(None, ge=1, description="Half-moves to look ahead.")
    time_s: float | None = Field(None, ge=0.001, description="Seconds to think about each move.")
    nodes: int | None = Field(None, ge=1, description="Positions to look at for each move.")
    elo: int | None = Field(
        None,
        description="Approximate playing strength, as rated by the engine's authors with more time than the "
        "default limit.",
    )
    skill: int | None = Field(
        None, ge=0, le=20, description="Playing strength, from 0 (weakest) to 20 (full strength)."
    )

    @model_validator(mode="after")
    def _one_strength(self) -> EngineOptions:
        if self.elo is not None and self.skill is not None:
            raise ValueError("elo and skill both set the strength: give only one of them")
        return self


class UciOptions(EngineOptions):
    path: str = Field(description="Program of the engine: a path, or a name to look up.")


def is_reproducible(options: EngineOptions) -> bool:
    """Return whether the same seed gives the same game: limited strength is random, and time limits vary in effect."""
    return options.elo is None and options.skill is None and options.time_s is None


def go_command(options: EngineOptions) -> str:
    """Return the UCI command for the limits, such as `go depth 10`."""
    limits = {
        "depth": options.depth,
        "nodes": options.nodes,
        "movetime": None if options.time_s is None else round(options.time_s * 1000),
    }
    given = [f"{name} {value}" for name, value in limits.items() if value is not None]
    return " ".join(["go", *(given or [f"depth {DEFAULT_DEPTH}"])])


INSTALL_STOCKFISH = install_line("stockfish", "stockfish")
# Debian's games folder and Homebrew's on Apple silicon are not on every PATH.
FURTHER_FOLDERS = ("/usr/games", "/usr/local/bin", "/opt/homebrew/bin")
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
