"""What upstream envs get wrong and our adapters put right; each repair has a test that fails once upstream is right."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from mosaic.core.errors import InputError
from mosaic.envs.chess import fen_of

Flags: TypeAlias = Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Repairs:
    """`state` is the env below PettingZoo's checking wrappers; None means that nothing is to be done."""

    ends: Callable[[Any], tuple[Flags, Flags]] | None = None  # terminated and truncated in place of the env's own
    after_reset: Callable[[Any], None] | None = None
    own_stream: bool = False  # reset(None) draws new entropy: give it the next seed of a stream of ours
    inform: Callable[[Any], Mapping[str, Any]] | None = None  # added to the acting agent's info


def multiwalker_ends(state: Any) -> tuple[Flags, Flags]:
    """Multiwalker calls its time limit `terminated`; only a fall or the goal is."""
    world = state.env
    if world.frames < world.max_cycles:
        return state.terminations, state.truncations
    fallen = dict(zip(state.possible_agents, world.last_dones, strict=True))
    terminated = {agent: bool(fallen[agent]) for agent in state.terminations}
    return terminated, {agent: not ended for agent, ended in terminated.items()}


def gin_rummy_payoff(state: Any) -> None:
    """A seeded reset throws the payoff function with `knock_reward` and `gin_reward` away."""
    state.env.game.judge.scorer.get_payoff = state._get_payoff


def chess_info(state: Any) -> Mapping[str, Any]:
    """Engines need the position; the observation does not hold all of it."""
    return {"fen": fen_of(state)}


_go_size: int | None = None


def refuse_second_go_size(options: Mapping[str, Any]) -> None:
    """Go keeps its board size in module globals: a second size in the process breaks the first."""
    global _go_size
    size = int(options.get("board_size", 19))
    if _go_size not in (None, size):
        raise InputError(
            f"Go with board_size={size} cannot be opened beside board_size={_go_size} in one process: PettingZoo keeps "
            "the size in global variables. Use another process, or one size."
        )
    _go_size = size


REPAIRS: Mapping[str, Repairs] = {  # by name without version
    "chess": Repairs(inform=chess_info),
    "gin_rummy": Repairs(after_reset=gin_rummy_payoff),
    "hanabi": Repairs(own_stream=True),
    "multiwalker": Repairs(ends=multiwalker_ends),
}
NO_REPAIRS = Repairs()


def draw_without_screen() -> None:
    """To be called before anything imports pygame. SDL would otherwise swallow SIGTERM once a display exists."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


@contextmanager
def quiet() -> Iterator[None]:
    """Envs warn of fonts and of the precision of their own spaces when made and drawn; no user can act on that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def keep_pygame() -> Iterator[None]:
    """Envs call pygame.quit() in close(), which breaks fonts and surfaces of every other env in the process."""
    pygame: Any = sys.modules.get("pygame")
    if pygame is None:
        yield
        return
    quit_pygame, pygame.quit = pygame.quit, lambda: None
    try:
        yield
    finally:
        pygame.quit = quit_pygame
