"""Algorithms of Stable-Baselines3 and sb3-contrib: their classes, and the spaces in which they act and observe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import has_illegal_actions
from mosaic.workers.api import SpaceKind
from mosaic.workers.capability_check import space_kind

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

SB3, CONTRIB = "stable_baselines3", "sb3_contrib"
_CHOICES: tuple[SpaceKind, ...] = ("discrete", "multi_discrete", "multi_binary")
_INSTALL = 'pip install "mosaic-rl[sb3]"'


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One class of the libraries."""

    package: str
    name: str
    actions: tuple[SpaceKind, ...]
    replays: bool = False  # learns from a replay buffer
    masks: bool = False  # never chooses what an action mask forbids
    recurrent: bool = False

    def load(self) -> type[BaseAlgorithm]:
        check_installed()
        found: type[BaseAlgorithm] = getattr(import_module(self.package), self.name)
        return found


ALGORITHMS: Mapping[str, Algorithm] = {
    "ppo": Algorithm(SB3, "PPO", (*_CHOICES, "box")),
    "a2c": Algorithm(SB3, "A2C", (*_CHOICES, "box")),
    "dqn": Algorithm(SB3, "DQN", ("discrete",), replays=True),
    "sac": Algorithm(SB3, "SAC", ("box",), replays=True),
    "td3": Algorithm(SB3, "TD3", ("box",), replays=True),
    "maskable_ppo": Algorithm(CONTRIB, "MaskablePPO", _CHOICES, masks=True),
    "recurrent_ppo": Algorithm(CONTRIB, "RecurrentPPO", (*_CHOICES, "box"), recurrent=True),
    "qrdqn": Algorithm(CONTRIB, "QRDQN", ("discrete",), replays=True),
    "tqc": Algorithm(CONTRIB, "TQC", ("box",), replays=True),
    "crossq": Algorithm(CONTRIB, "CrossQ", ("box",), replays=True),
}


def upstream() -> str | None:
    """Return both libraries with their versions; None if one is missing."""
    try:
        return f"stable-baselines3 {version('stable-baselines3')}, sb3-contrib {version('sb3-contrib')}"
    except PackageNotFoundError:
        return None


def check_installed() -> None:
    missing = [package for package in (SB3, CONTRIB) if find_spec(package) is None]
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise MissingExtraError(f"The worker sb3 needs {names}. Type: {_INSTALL}")


def check_actions(algorithm: str, agent: str, space: Space[object]) -> None:
    """Raise InputError if the algorithm cannot act in the space; the message names those that can."""
    kind = space_kind(space)
    if kind == "pictures":
        kind = "box"  # of bytes, which are numbers like others where they are actions
    if kind not in ALGORITHMS[algorithm].actions:
        able = [name for name, each in ALGORITHMS.items() if kind in each.actions and not each.masks]
        advice = f"Use --algo {_either(able)}." if able else "No algorithm of Stable-Baselines3 can: wrap the env."
        raise InputError(
            f"Stable-Baselines3's {algorithm} acts in {_either(_words(algorithm))}, and the action of '{agent}' is "
            f"{space}. {advice}"
        )
    flaw = _flaw(space)
    if flaw:
        raise InputError(
            f"Stable-Baselines3 cannot act in {space}, the action of '{agent}': {flaw}. Wrap the env, or use --worker "
            "native."
        )


def _flaw(space: Space[object]) -> str:
    match space:
        case spaces.Discrete() if space.start != 0:
            return "its actions begin at 0"
        case spaces.MultiDiscrete() if space.nvec.ndim != 1 or space.start.any():
            return "it knows lists of choices that begin at 0"
        case spaces.MultiBinary() if len(space.shape) != 1:
            return "it knows lists of switches, of one dimension"
        case spaces.Box() if not space.is_bounded():
            return "its numbers need a lowest and a highest value"
        case spaces.Box() if space.dtype is not None and space.dtype.kind != "f":
            return "its numbers are floating-point numbers"
    return ""


def usual_algorithm(config: RunConfig, spec: EnvSpec) -> str:
    """Return the algorithm of runs that name none: PPO, which acts in every space, or the one that knows masks."""
    choices = not any(isinstance(space, spaces.Box) for space in spec.action_spaces.values())
    return "maskable_ppo" if choices and has_illegal_actions(config.environment) else "ppo"


def network_kind(algorithm: str, agent: str, space: Space[object]) -> str:
    """Return the policy name that fits the observations; raise InputError if the algorithm has none."""
    from stable_baselines3.common.preprocessing import is_image_space

    if isinstance(space, spaces.Tuple) or (
        isinstance(space, spaces.Dict) and any(isinstance(part, spaces.Dict | spaces.Tuple) for part in space.values())
    ):
        raise InputError(
            f"Stable-Baselines3 cannot read {space}, the observation of '{agent}': it knows single spaces and one "
            "level of Dict. Flatten it (environment.wrappers=[flatten]), or use --worker native."
        )
    kind = "Mlp"
    if isinstance(space, spaces.Dict):
        kind = "MultiInput"
    elif isinstance(space, spaces.Box) and is_image_space(space) and min(space.shape[:2]) >= _SMALLEST:
        kind = "Cnn"
    name = f"{kind}{'Lstm' if ALGORITHMS[algorithm].recurrent else ''}Policy"
    known = ALGORITHMS[algorithm].load().policy_aliases
    if name not in known:
        raise InputError(
            f"Stable-Baselines3's {algorithm} has no network for {space}, the observation of '{agent}': it has "
            f"{', '.join(known)}. Flatten the observation (environment.wrappers=[flatten]), or use --algo sac."
        )
    return name


_SMALLEST = 36  # pixels: SB3's convolutions leave nothing of smaller pictures


def _words(algorithm: str) -> list[str]:
    names: Mapping[SpaceKind, str] = {
        "discrete": "Discrete",
        "multi_discrete": "MultiDiscrete",
        "multi_binary": "MultiBinary",
        "box": "Box",
    }
    return [names[kind] for kind in ALGORITHMS[algorithm].actions]


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
