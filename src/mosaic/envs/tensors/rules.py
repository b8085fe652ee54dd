"""Rules of an env for all its copies at once, as pure functions of tensors, and the registry of those that exist.

A `Situation` has the layout of the env's compiled kernel (`envs/compiled/`), so that a state can be carried from one to
the other, and be drawn by the same reference env. Rules never wait for the device and have no branches that depend on
its numbers: a CUDA graph can replay them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import EnvID
from mosaic.envs.family import split_version

if TYPE_CHECKING:  # it imports numba
    from mosaic.envs.compiled.vector import CompiledKernel


class Situation(NamedTuple):
    """Variables of E envs, as a kernel has them."""

    state: Tensor  # [E, state_width] floating point
    ints: Tensor  # [E, ints_width] int64


class Moved(NamedTuple):
    """Outcome of one step, before episodes that are over begin again; all agents of an env end together."""

    here: Situation
    reward: Tensor  # [E, agents]
    terminated: Tensor  # [E] bool
    truncated: Tensor  # [E] bool


class TensorView(NamedTuple):
    """Observations of agents: a row for each slot (see envs/vector/layout.py)."""

    obs: Tensor  # [E, slots, width]
    mask: Tensor | None  # [E, slots, mask_width] bool; None: nothing is illegal
    who: Tensor | None  # [E] the agent on turn; None: all agents act together


class TensorRules(Protocol):
    """Rules of one env with its options."""

    draws: int  # random numbers in [0, 1) that an episode begins with
    time_limit: int  # steps after which an episode is truncated; 0: never

    def begin(self, drawn: Tensor) -> Situation: ...  # [E, draws] → E first states

    def move(self, here: Situation, act: Tensor) -> Moved: ...  # act: [E, slots, parts]

    def show(self, here: Situation) -> TensorView: ...


def known_envs() -> tuple[EnvID, ...]:
    """Return the ids, without versions, of the envs that have rules, with some of their options at least."""
    return tuple(sorted(_RULES))


def find_rules(
    config: EnvironmentConfig, device: torch.device | None = None, kernel: CompiledKernel | None = None
) -> TensorRules | None:
    """Return the rules of the env as configured; None if there are none, or not for these options."""
    from mosaic.envs.compiled.registry import find_kernel

    place = _RULES.get(split_version(config.id)[0])
    kernel = find_kernel(config) if place is not None and kernel is None else kernel
    if place is None or kernel is None:
        return None
    module, _, name = place.partition(":")
    made: TensorRules | None = getattr(import_module(f"mosaic.envs.tensors.{module}"), name)(
        kernel, device or torch.device("cpu")
    )
    return made


def choose(condition: Tensor, chosen: Situation, other: Situation) -> Situation:
    """Return for each env the one or the other situation."""
    where = condition[:, None]
    return Situation(torch.where(where, chosen.state, other.state), torch.where(where, chosen.ints, other.ints))


_RULES = {  # by family/name without version, as in the registry of compiled envs
    "gym/CartPole": "classic_control:CartPole",
    "gym/MountainCar": "classic_control:MountainCar",
    "gym/Acrobot": "classic_control:Acrobot",
    "gym/Pendulum": "classic_control:Pendulum",
    "classic/tictactoe": "board_games:TicTacToe",
    "mosaic/tictactoe": "board_games:TicTacToe",
    "classic/connect_four": "board_games:ConnectFour",
    "mpe/simple_spread": "simple_spread:make_simple_spread",
}
