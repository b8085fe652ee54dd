"""Registry of compiled env kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import EnvID
from mosaic.envs.family import split_version

if TYPE_CHECKING:  # imports numba, and the catalog needs only names from here
    from mosaic.envs.compiled.vector import CompiledKernel

Finder: TypeAlias = "Callable[[EnvironmentConfig], CompiledKernel | None]"


def has_kernel(env: EnvID) -> bool:
    """Return whether there is a kernel for the env with default options; `find_kernel` also checks its options."""
    return split_version(env)[0] in _KERNELS


def find_kernel(config: EnvironmentConfig) -> CompiledKernel | None:
    """Return the kernel of the env as configured, or None: there is none, or it does not implement these options.

    A kernel has exactly the rules, rewards, ends and observation rows of `make_env(config)`.
    """
    place = _KERNELS.get(split_version(config.id)[0])
    if place is None:
        return None
    module, _, function = place.partition(":")
    find: Finder = getattr(import_module(f"mosaic.envs.compiled.{module}"), function)
    return find(config)


_KERNELS: Mapping[str, str] = {  # by family/name without version: module of this package and its finder
    "gym/CartPole": "classic_control.cartpole:find_cartpole",
    "gym/MountainCar": "classic_control.mountain_car:find_mountain_car",
    "gym/MountainCarContinuous": "classic_control.mountain_car_continuous:find_mountain_car_continuous",
    "gym/Acrobot": "classic_control.acrobot:find_acrobot",
    "gym/Pendulum": "classic_control.pendulum:find_pendulum",
    "gym/FrozenLake": "mdp.kernel:find_mdp",
    "gym/FrozenLake8x8": "mdp.kernel:find_mdp",
    "gym/CliffWalking": "mdp.kernel:find_mdp",
    "gym/CliffWalkingSlippery": "mdp.kernel:find_mdp",
    "gym/Taxi": "mdp.kernel:find_mdp",
    "gym/Blackjack": "mdp.kernel:find_mdp",
    "mosaic/gridworld": "mdp.kernel:find_mdp",
    "mosaic/tictactoe": "board_games.tictactoe_kernel:find_own_tictactoe",
    "classic/tictactoe": "board_games.tictactoe_kernel:find_classic_tictactoe",
    "classic/connect_four": "board_games.connect_four_kernel:find_connect_four",
    "classic/rps": "board_games.rock_paper_scissors:find_rps",
    "mpe/simple_spread": "mpe.simple_spread:find_simple_spread",
    "mpe/simple_tag": "mpe.simple_tag:find_simple_tag",
    "mpe/simple_adversary": "mpe.simple_adversary:find_simple_adversary",
    "mpe/simple_speaker_listener": "mpe.simple_speaker_listener:find_simple_speaker_listener",
    "mpe/simple_reference": "mpe.simple_reference:find_simple_reference",
}
