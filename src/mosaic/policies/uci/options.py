"""Options of chess engines: search limits and playing strength."""

from __future__ import annotations

from pydantic import Field, model_validator

from mosaic.core.reference import Options

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
