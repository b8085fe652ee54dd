"""How the games of an evaluation are played: here or in several processes, with the same results."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.env import Env
from mosaic.evaluation.results import EpisodeResult
from mosaic.evaluation.run_games import play_in_processes
from mosaic.evaluation.worker import Game, Plan, Table

if TYPE_CHECKING:
    from mosaic.runners.film import FilmCamera
    from mosaic.runners.screen import Screen

DEFAULT_MAX_STEPS = 10_000  # some envs have no end of their own: random play in CliffWalking


def play_games(
    plan: Plan,
    games: Sequence[Game],
    num_workers: int,
    env: Env,
    camera: FilmCamera | None = None,
    screen: Screen | None = None,
) -> Generator[EpisodeResult, None, None]:
    """Results as they arrive. `env` is the one that was made to look at it; it is played on or closed.

    What a camera films is played here, in order, before the rest goes to other processes. A screen goes along with the
    first of those: it shows one game at a time.
    """
    several = num_workers > 1 and len(games) > 1
    if several:
        _check_can_travel(plan, screen)
    filmed = {game.index for game in games if camera is not None and camera.wants(game.index)}
    here = [game for game in games if game.index in filmed or not several]
    with Table(plan, env, screen) as table:  # closed before others begin: some envs exist once only, a port, a window
        for game in here:
            yield table.play(game, camera if game.index in filmed else None)
    if several:
        if screen is not None:
            screen.close()  # here; another process writes from now on
        yield from play_in_processes(plan, [game for game in games if game.index not in filmed], num_workers, screen)


def distinct_seeds(count: int, seed: int, *names: str | int) -> list[int]:
    """The seeds of the named streams 0, 1, 2, …: all different, and the first ones the same for every count."""
    seeds: dict[int, None] = {}
    for index in range(count):
        child, again = child_seed(seed, *names, index), 0
        while child in seeds:  # 1 % of the evaluations with 6,500 episodes would have a twin
            again += 1
            child = child_seed(seed, *names, index, again)
        seeds[child] = None
    return list(seeds)


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1.")


def _check_can_travel(plan: Plan, screen: Screen | None) -> None:
    try:
        pickle.dumps((plan, screen))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"This mapping cannot be sent to other processes: {error}. "
            "Use num_workers=1, or name policies and functions that a module holds: python:module:function."
        ) from error
