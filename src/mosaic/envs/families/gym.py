"""Gymnasium's registered environments."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import gymnasium
from gymnasium.error import DependencyNotInstalled, NameNotFound, NamespaceNotFound, VersionNotFound

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.turn import Action, Observation
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.adapters.upstream import OpenGLRenderer, choose_opengl, draw_without_screen, quiet
from mosaic.envs.env import EnvFacts
from mosaic.envs.family import EnvEntry, newest, refused_options, resolve_name

# Modules of Gymnasium whose envs were tested one by one: they never reuse an observation's buffer.
_PROVEN = ("gymnasium.envs.classic_control.", "gymnasium.envs.toy_text.", "gymnasium.envs.box2d.")
_NEEDS = {
    "gymnasium.envs.box2d.": ("Box2D", "pip install 'mosaic-rl[gym]'"),
    "gymnasium.envs.mujoco.": ("mujoco", "pip install 'mosaic-rl[mujoco]'"),
    "gymnasium.envs.phys2d.": ("jax", "pip install jax"),
    "gymnasium.envs.tabular.": ("jax", "pip install jax"),
}
_MUJOCO = "gymnasium.envs.mujoco."
_SMOKES = "gymnasium.envs.box2d.lunar_lander:"
_WITHOUT_CHANCE = {"CliffWalking-v1"}
_WORLD_REMEMBERS = {"BipedalWalker-v3", "BipedalWalkerHardcore-v3"}  # their Box2D world survives reset


class GymFamily:
    def entries(self) -> list[EnvEntry]:
        names = [name for name, spec in gymnasium.registry.items() if isinstance(spec.entry_point, str)]
        return [self._entry(name) for name in newest(names)]

    def _entry(self, name: str) -> EnvEntry:
        install = _install_line(_source(name))
        return EnvEntry(f"gym/{name}", install is None, install, "single")

    def make(self, config: EnvironmentConfig) -> GymnasiumEnv:
        if config.api_type not in ("gym", "auto"):
            raise InputError(f"{config.id} has one agent: its api_type is 'gym', not '{config.api_type}'.")
        draw_without_screen()
        name = config.env_id if ":" in config.env_id else resolve_name("gym", config.env_id, gymnasium.registry)
        config = config.model_copy(update={"env_id": name})
        options = dict(config.options)
        info_masks = bool(options.pop("info_masks", False))
        facts = EnvFacts(config, has_chance=name not in _WITHOUT_CHANCE, incentives="single")
        return GymnasiumEnv(
            _make(name, options),
            facts,
            info_masks=info_masks,
            aliases=not _source(name).startswith(_PROVEN),
            remake=(lambda: _make(name, options)) if name in _WORLD_REMEMBERS else None,
        )


def _make(name: str, options: dict[str, Any]) -> gymnasium.Env[Observation, Action]:
    try:
        if _source(name).startswith(_MUJOCO):
            choose_opengl()
        _import_quietly(_source(name))
        try:
            env = gymnasium.make(name, disable_env_checker=True, **{"render_mode": "rgb_array", **options})
            if _source(name).startswith(_MUJOCO) and hasattr(env.unwrapped, "mujoco_renderer"):
                env.unwrapped.mujoco_renderer = OpenGLRenderer(env.unwrapped.mujoco_renderer, f"gym/{name}")
            smokes = _source(name).startswith(_SMOKES) and env.render_mode == "rgb_array"
            return SmokeOnDemand(env) if smokes else env
        except TypeError as error:
            if "render_mode" not in str(error):
                raise
            return gymnasium.make(name, disable_env_checker=True, **options)
    except DependencyNotInstalled as error:
        line = _install_line(_source(name)) or f"its requirements: {error}"
        raise MissingExtraError(f"gym/{name} needs a package that is not installed. Type: {line}") from error
    except TypeError as error:
        raise refused_options(f"gym/{name}", options, error) from error
    except ModuleNotFoundError as error:
        lines = [line for prefix, (_, line) in _NEEDS.items() if _source(name).startswith(prefix)]
        if not lines:
            raise InputError(f"gym/{name}: {error}") from error
        needed = f"gym/{name} needs the Python package '{error.name}', which is not installed."
        raise MissingExtraError(f"{needed} Type: {lines[0]}") from error
    except (NameNotFound, NamespaceNotFound, VersionNotFound) as error:
        raise InputError(f"gym/{name}: {error}") from error
    except Exception as error:
        if not options:
            raise
        raise refused_options(f"gym/{name}", options, error) from error


def _import_quietly(source: str) -> None:
    """Import without warnings: Box2D warns on import and crashes if warnings are errors.

    Gymnasium's own advice is still shown.
    """
    if source.startswith("gymnasium.envs."):
        with quiet():
            importlib.import_module(source.partition(":")[0])


def _source(name: str) -> str:
    spec = gymnasium.registry.get(name)
    return spec.entry_point if spec is not None and isinstance(spec.entry_point, str) else ""


def _install_line(source: str) -> str | None:
    for prefix, (module, line) in _NEEDS.items():
        if source.startswith(prefix) and importlib.util.find_spec(module) is None:
            return line
    return None


class SmokeOnDemand(gymnasium.Wrapper[Observation, Action, Observation, Action]):
    """Wrapper that disables LunarLander's particles until the first render of an episode.

    If it can render, LunarLander adds the smoke of its engines to the world as bodies, and a step takes three times as
    long. The trajectory does not depend on it.
    """

    def __init__(self, env: gymnasium.Env[Observation, Action]) -> None:
        super().__init__(env)
        self._mode = env.render_mode
        self.step = env.step  # type: ignore[method-assign]  # called directly, nothing to add
        env.unwrapped.render_mode = None

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        return self._mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        self.env.unwrapped.render_mode = None
        return self.env.reset(seed=seed, options=options)

    def render(self) -> Any:
        self.env.unwrapped.render_mode = self._mode
        return self.env.render()


family = GymFamily()
