"""PettingZoo's four families: classic, sisl, butterfly and mpe."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from mosaic.config.sections import EnvironmentConfig, Incentives
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.envs.adapters.pettingzoo import AECAdapter, ParallelAdapter, from_pettingzoo
from mosaic.envs.adapters.upstream import (
    NO_REPAIRS,
    REPAIRS,
    UpstreamEnv,
    draw_without_screen,
    quiet,
    refuse_second_go_size,
)
from mosaic.envs.env import EnvFacts
from mosaic.envs.family import EnvEntry, newest, refused_options, resolve_name, split_version

_COOPERATIVE_CLASSICS = {"hanabi"}
_WITHOUT_CHANCE = {"tictactoe", "connect_four", "chess", "go", "rps"}
_HIDDEN = {
    "gin_rummy", "hanabi", "leduc_holdem", "rps", "simple_adversary", "simple_crypto", "simple_push",
    "simple_reference", "simple_speaker_listener", "simple_world_comm", "texas_holdem", "texas_holdem_no_limit",
}  # fmt: skip
_NOT_REPRODUCIBLE = {"waterworld"}  # Chipmunk orders collisions by memory address
_WINS_ABOVE = {"gin_rummy": 0.0}  # a hand in which no player knocked has no winner

_INCENTIVES: dict[Incentives, set[str]] = {
    "single": {"simple"},
    "cooperative": {
        "collect_treasure", "cooperative_pong", "hanabi", "knights_archers_zombies", "multiwalker", "pistonball",
        "pursuit", "simple_formation", "simple_line", "simple_reference", "simple_speaker_listener",
        "simple_spread", "waterworld",
    },
    "mixed": {"simple_adversary", "simple_crypto", "simple_tag", "simple_world_comm"},
    "competitive": {
        "chess", "connect_four", "gin_rummy", "go", "leduc_holdem", "rps", "simple_push", "texas_holdem",
        "texas_holdem_no_limit", "tictactoe",
    },
}  # fmt: skip
_SHARE_REWARDS = {
    "cooperative_pong", "hanabi", "pistonball", "simple_formation", "simple_line", "simple_speaker_listener",
}  # fmt: skip
_SHARE_BY_OPTION = {"multiwalker", "pursuit"}  # shared_reward, True unless it is set
_LOCAL_RATIO = {"simple_reference": 0.5, "simple_spread": 0.5, "waterworld": 1.0}  # defaults; 0 shares all rewards


def incentives_of(base: str, options: Mapping[str, object]) -> tuple[Incentives, bool | None]:
    """Return the incentives of an env and whether its agents share one reward; unknown where an env is not listed."""
    kind: Incentives = next((kind for kind, names in _INCENTIVES.items() if base in names), "unknown")
    if kind in ("unknown", "single"):
        return kind, None
    if base in _SHARE_BY_OPTION:
        return kind, bool(options.get("shared_reward", True))
    if base in _LOCAL_RATIO:
        return kind, options.get("local_ratio", _LOCAL_RATIO[base]) == 0
    return kind, base in _SHARE_REWARDS


@dataclass(frozen=True, slots=True)
class PettingZooFamily:
    name: str
    package: str  # package with one module per env
    needs: tuple[str, ...]  # modules without which the family cannot be played

    def entries(self) -> list[EnvEntry]:
        install = None if all(map(_is_installed, (self.package.split(".")[0], *self.needs))) else self._install_line()
        names = newest(self._modules()) if _is_installed(self.package.split(".")[0]) else []
        return [
            EnvEntry(f"{self.name}/{name}", install is None, install, *incentives_of(split_version(name)[0], {}))
            for name in names
        ]

    def make(self, config: EnvironmentConfig) -> AECAdapter | ParallelAdapter:
        draw_without_screen()
        if not _is_installed(self.package.split(".")[0]):
            raise MissingExtraError(f"The family '{self.name}' is not installed. Type: {self._install_line()}")
        name = resolve_name(self.name, config.env_id, self._modules())
        base, _ = split_version(name)
        try:
            with quiet():
                module = importlib.import_module(f"{self.package}.{name}")
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"{self.name}/{name} needs the Python package '{error.name}', which is not installed. "
                f"Type: {self._install_line()}"
            ) from error
        if base == "go":
            refuse_second_go_size(config.options)
        config = config.model_copy(update={"env_id": name})
        parallel = _is_parallel(module, config)
        raw = _make(module.parallel_env if parallel else module.env, config)
        incentives, shared_reward = incentives_of(base, config.options)
        facts = EnvFacts(
            config,
            turn_based=not parallel,
            competitive=self.name == "classic" and base not in _COOPERATIVE_CLASSICS,
            win_above=_WINS_ABOVE.get(base, -float("inf")),
            hidden_information=base in _HIDDEN,
            reproducible=base not in _NOT_REPRODUCIBLE,
            has_chance=base not in _WITHOUT_CHANCE,
            incentives=incentives,
            shared_reward=shared_reward,
        )
        return from_pettingzoo(raw, facts, REPAIRS.get(base, NO_REPAIRS), aliases=False)

    def _modules(self) -> list[str]:
        spec = importlib.util.find_spec(self.package)
        folders = spec.submodule_search_locations if spec else None
        return [m.name for m in pkgutil.iter_modules(folders or []) if split_version(m.name)[1] is not None]

    def _install_line(self) -> str:
        return f"pip install 'mosaic-rl[{self.name}]'"


def _is_parallel(module: ModuleType, config: EnvironmentConfig) -> bool:
    """Return whether agents act at once, which is preferred: in turns, later agents would observe a changed world."""
    can = hasattr(module, "parallel_env")
    match config.api_type:
        case "auto":
            return can
        case "aec":
            return False
        case "parallel" if can:
            return True
    if config.api_type == "gym":
        raise InputError(f"{config.id} has several agents: its api_type is 'aec' or 'parallel', not 'gym'.")
    raise InputError(f"{config.id} is turn-based: its api_type is 'aec', not 'parallel'.")


def _make(maker: Callable[..., UpstreamEnv], config: EnvironmentConfig) -> UpstreamEnv:
    options = dict(config.options)
    if config.env_id.startswith("hanabi"):  # it cannot render
        options.setdefault("render_mode", None)
    else:
        options.setdefault("render_mode", "rgb_array")
    try:
        with quiet():
            return maker(**options)
    except Exception as error:
        if not config.options:
            raise
        raise refused_options(config.id, config.options, error) from error


@cache
def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


classic = PettingZooFamily("classic", "pettingzoo.classic", ("chess", "rlcard", "shimmy", "pyspiel", "pygame"))
sisl = PettingZooFamily("sisl", "pettingzoo.sisl", ("pymunk", "Box2D", "pygame"))
butterfly = PettingZooFamily("butterfly", "pettingzoo.butterfly", ("pymunk", "pygame"))
mpe = PettingZooFamily("mpe", "mpe2", ("pygame",))
