"""Games of the Godot engine: exported ones, projects, and the one that runs in the editor."""

from __future__ import annotations

from pathlib import Path

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.env import EnvFacts
from mosaic.envs.families.mosaic import read_options
from mosaic.envs.family import EnvEntry
from mosaic.envs.godot.editor import editor_game
from mosaic.envs.godot.env import GodotEnv, name_agents
from mosaic.envs.godot.game import Game, start_game
from mosaic.envs.godot.options import FOR_STARTED_GAMES, GodotOptions

DEBUG = "debug"
GAMES = 4  # at once, unless the user asks for another number: each is a process with an engine


class GodotFamily:
    def entries(self) -> list[EnvEntry]:
        """Return what can be typed; nothing of it can be described before a game runs."""
        editor = "a game in the Godot editor; type this, then press Play:"
        path = "an exported game or a project; type this with its path:"
        return [
            EnvEntry(f"godot/{DEBUG}", False, f"mosaic check godot/{DEBUG}", note=editor),
            EnvEntry("godot/PATH", False, "mosaic check godot/PATH", note=path),
        ]

    def make(self, config: EnvironmentConfig) -> GodotEnv:
        if config.api_type not in ("parallel", "auto"):
            raise InputError(f"{config.id} has the api_type 'parallel', not '{config.api_type}'.")
        options = read_options(config, GodotOptions)
        game = _debugged(options) if config.env_id == DEBUG else start_game(Path(config.env_id).expanduser(), options)
        try:
            names = game.info.agent_policy_names
            facts = EnvFacts(
                config,
                reproducible=game.info.seeded_reset,
                usual_envs=1 if config.env_id == DEBUG else GAMES,
                max_envs=1 if config.env_id == DEBUG else None,
                advice="" if config.env_id == DEBUG else _pace(options),
                policy_names=dict(zip(name_agents(game.info), names, strict=True)) if names else {},
            )
            return GodotEnv(game, facts, options)
        except BaseException:
            game.close()
            raise


def _pace(options: GodotOptions) -> str:
    """Return how to make a started game faster, unless the user has said how fast it runs."""
    if options.speedup is not None or any(word.startswith("--speedup") for word in options.args):
        return ""
    return (
        "The game runs at the pace of its scene, usually real time. To make it faster, type: "
        "--set environment.options.speedup=20"
    )


def _debugged(options: GodotOptions) -> Game:
    for name in FOR_STARTED_GAMES:
        if name in options.model_fields_set:
            raise InputError(
                f"godot/{DEBUG}: the editor starts the game, so Mosaic cannot set '{name}'. Set it in the Sync node "
                "or leave it out; an exported game (godot/PATH) takes it."
            )
    return editor_game(options)


family = GodotFamily()
