"""Options of Godot envs."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from mosaic.core.reference import Options
from mosaic.core.seeding import SEED_LIMIT

DEFAULT_PORT = 11008
MOST_PORTS = 1000  # after a given port, for games that are played in parallel


def _split_arguments(value: object) -> object:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


class GodotOptions(Options):
    """Options of `godot/debug` and of games that Mosaic starts."""

    port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="TCP port on which Mosaic waits for the game; None: 11008 for debug, otherwise a free one. Games "
        "played in parallel take the next free ones.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 also lets other machines connect.")
    timeout_s: float = Field(60.0, gt=0, le=86_400, description="Longest wait for a game to start, or for an answer.")
    wait_s: float | None = Field(
        None, gt=0, le=1e7, description="Maximum wait for the editor's Play button (godot/debug); None: no limit."
    )
    log: str | None = Field(None, min_length=1, description="File to which every message is appended.")
    actions: Literal["flat", "dict"] = Field(
        "flat", description="Actions as one space that every learner can act in, or as the game's own parts."
    )
    episode_end: Literal["all", "any"] = Field(
        "all", description="An episode ends when all agents are done, or when any of them is (the rest is truncated)."
    )
    observation_bound: float | None = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Vectors are declared to lie between -bound and bound if the game gives no low and high; None: "
        "unbounded.",
    )
    # The rest is for games that Mosaic starts.
    seed: int | None = Field(
        None,
        ge=0,
        lt=SEED_LIMIT,
        description="--env_seed of the first game; games in parallel get the next numbers. None: random ones.",
    )
    action_repeat: int | None = Field(
        None, ge=1, le=10_000, description="--action_repeat: physics frames per action; None: what the scene says."
    )
    speedup: float | None = Field(
        None, gt=0, le=10_000, description="--speedup of the game's clock; None: what the scene says."
    )
    show_window: bool = Field(False, description="Show the game's window, instead of --headless.")
    args: Annotated[tuple[str, ...], BeforeValidator(_split_arguments)] = Field(
        (), description="Further arguments of the game: a list, or one text as in a shell."
    )
    engine: str | None = Field(
        None,
        min_length=1,
        description="Engine that runs a project folder or a .pck: a program on the PATH, or its path; None: the "
        "first of those installed.",
    )


FOR_STARTED_GAMES = ("seed", "action_repeat", "speedup", "show_window", "args", "engine")
