"""Registry of compiled envs: which env ids have which compiled forms.

There are two kinds. A kernel steps many envs in machine code, for learners of networks. Tables hold every state of a
finite env or game, for tabular learning. A form counts only for options that it implements: its finder returns None for
all others, and the reference env is used instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gymnasium import Space, spaces

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID
from mosaic.core.reference import parse_options, split_reference
from mosaic.core.turn import Observation
from mosaic.envs.family import split_version

if TYPE_CHECKING:  # kernels import numba, and the catalog needs only names from here
    from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp
    from mosaic.envs.compiled.vector import CompiledKernel

Twin: TypeAlias = "Mdp | GameTables"
Encoder: TypeAlias = Callable[[Observation], int]


class CompiledForms(NamedTuple):
    """Finders of an env's compiled forms, as MODULE:FUNCTION below this package."""

    kernel: str  # EnvironmentConfig -> CompiledKernel | None
    tables: str | None = None  # EnvironmentConfig without wrappers -> Twin | None
    encoder: str | None = None  # Space of an agent's observations -> Encoder | None; None: observations are states


def has_kernel(env_id: EnvID) -> bool:
    """Return whether there is a kernel for the env with default options; `find_kernel` also checks its options."""
    return _forms(env_id) is not None


def find_kernel(config: EnvironmentConfig) -> CompiledKernel | None:
    """Return the kernel of the env as configured, or None: there is none, or it does not implement these options.

    A kernel has exactly the rules, rewards, ends and observation rows of `make_env(config)`.
    """
    forms = _forms(config.id)
    if forms is None:
        return None
    find: Callable[[EnvironmentConfig], CompiledKernel | None] = _load(forms.kernel)
    return find(config)


def has_twin(env_id: EnvID) -> bool:
    """Return whether the env has tables, for some of its options at least."""
    forms = _forms(env_id)
    return forms is not None and forms.tables is not None


def find_twin(config: EnvironmentConfig) -> Twin | None:
    """Return the tables of the env as configured, or None: there are none, or they do not implement these options.

    A time limit is the only wrapper that tables implement, and only those of one agent.
    """
    from mosaic.envs.compiled.mdp.mdp import Mdp, shorter

    forms, limits = _forms(config.id), _time_limits(config.wrappers)
    if forms is None or forms.tables is None or limits is None:
        return None
    find: Callable[[EnvironmentConfig], Twin | None] = _load(forms.tables)
    twin = find(config.model_copy(update={"wrappers": ()}))
    if not isinstance(twin, Mdp):
        return None if limits else twin
    for limit in limits:
        twin = twin._replace(time_limit=shorter(twin.time_limit, limit))
    return twin


def encode_observation(env_id: EnvID, space: Space[object]) -> Encoder:
    """Return a function from an agent's observation in the reference env to the state in its tables.

    `space` is the observation space of the reference env.
    """
    forms = _forms(env_id)
    if forms is not None and forms.encoder is not None:
        find: Callable[[Space[object]], Encoder | None] = _load(forms.encoder)
        if (encoder := find(space)) is not None:
            return encoder
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return int
    raise InputError(
        f"{env_id} has observations in {space}, which are not states of a compiled twin. Twins: "
        f"{', '.join(sorted(name for name in _COMPILED if has_twin(name)))} "
        "(any version, without wrappers that change observations), and envs with a Discrete space that starts at 0."
    )


def _forms(env_id: EnvID) -> CompiledForms | None:
    return _COMPILED.get(split_version(env_id)[0])


def _load(place: str) -> Any:
    module, _, function = place.partition(":")
    return getattr(import_module(f"mosaic.envs.compiled.{module}"), function)


def _time_limits(wrappers: Sequence[str]) -> list[int] | None:
    """Return the time limits of the wrappers; None if a wrapper does more than truncate."""
    from mosaic.envs.wrappers.limits import TimeLimitOptions

    limits = []
    for reference in wrappers:
        name, rest = split_reference(reference)
        if name != "time_limit":
            return None
        limits.append(int(parse_options(reference, rest, TimeLimitOptions).max_steps))
    return limits


_MDP = "mdp.kernel:find_mdp"
_MUJOCO = "mujoco.envs:find_mujoco"
_MEMORY = "memory_tasks:find_memory_task"
_BOARD = "board_games.tictactoe:find_encoder"
_COMPILED: Mapping[str, CompiledForms] = {  # by family/name without version
    "gym/CartPole": CompiledForms("classic_control.cartpole:find_cartpole"),
    "gym/MountainCar": CompiledForms("classic_control.mountain_car:find_mountain_car"),
    "gym/MountainCarContinuous": CompiledForms("classic_control.mountain_car:find_mountain_car_continuous"),
    "gym/Acrobot": CompiledForms("classic_control.acrobot:find_acrobot"),
    "gym/Pendulum": CompiledForms("classic_control.pendulum:find_pendulum"),
    "gym/HalfCheetah": CompiledForms(_MUJOCO),
    "gym/Hopper": CompiledForms(_MUJOCO),
    "gym/Walker2d": CompiledForms(_MUJOCO),
    "gym/Ant": CompiledForms(_MUJOCO),
    "gym/Swimmer": CompiledForms(_MUJOCO),
    "gym/InvertedPendulum": CompiledForms(_MUJOCO),
    "gym/InvertedDoublePendulum": CompiledForms(_MUJOCO),
    "gym/Reacher": CompiledForms(_MUJOCO),
    "gym/FrozenLake": CompiledForms(_MDP, "mdp.gym_table:find_frozen_lake"),
    "gym/FrozenLake8x8": CompiledForms(_MDP, "mdp.gym_table:find_frozen_lake"),
    "gym/CliffWalking": CompiledForms(_MDP, "mdp.gym_table:find_table"),
    "gym/CliffWalkingSlippery": CompiledForms(_MDP, "mdp.gym_table:find_table"),
    "gym/Taxi": CompiledForms(_MDP, "mdp.gym_table:find_taxi"),
    "gym/Blackjack": CompiledForms(_MDP, "mdp.gym_table:find_table", "mdp.blackjack:find_encoder"),
    "mosaic/count_recall": CompiledForms(_MEMORY),
    "mosaic/recall": CompiledForms(_MEMORY),
    "mosaic/repeat_previous": CompiledForms(_MEMORY),
    "mosaic/reverse_sequence": CompiledForms(_MEMORY),
    "mosaic/gridworld": CompiledForms(_MDP, "mdp.gridworld:find_gridworld"),
    "mosaic/kuhn_poker": CompiledForms("board_games.kuhn_poker_kernel:find_kuhn_poker"),
    "mosaic/tictactoe": CompiledForms(
        "board_games.tictactoe_kernel:find_own_tictactoe", "board_games.tictactoe:find_own_game", _BOARD
    ),
    "classic/tictactoe": CompiledForms(
        "board_games.tictactoe_kernel:find_classic_tictactoe", "board_games.tictactoe:find_classic_game", _BOARD
    ),
    "classic/connect_four": CompiledForms("board_games.connect_four_kernel:find_connect_four"),
    "classic/rps": CompiledForms("board_games.rock_paper_scissors:find_rps"),
    "mpe/simple_spread": CompiledForms("mpe.simple_spread:find_simple_spread"),
    "mpe/simple_tag": CompiledForms("mpe.simple_tag:find_simple_tag"),
    "mpe/simple_adversary": CompiledForms("mpe.simple_adversary:find_simple_adversary"),
    "mpe/simple_speaker_listener": CompiledForms("mpe.simple_speaker_listener:find_simple_speaker_listener"),
    "mpe/simple_reference": CompiledForms("mpe.simple_reference:find_simple_reference"),
}
