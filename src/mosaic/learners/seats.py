"""Which policy sits on which agent's chair, in every env of a vector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import next_uniform


class Seats(NamedTuple):
    """Policies go by number: the learners first, then the places of frozen opponents."""

    brain: NDArray[np.int64]  # [E, A] who plays for each agent now
    rng: NDArray[np.uint64]  # [E] the draws of new seats
    league: NDArray[np.int64]  # [3]: envs that play against the league, from, up to; how many places are filled
    slip: NDArray[np.float32]  # [places] how often each frozen opponent errs at random; 1 is a random player
    rated: NDArray[np.uint8]  # [E] whether the game under way counts: its opponent has not changed since it began


def make_seats(
    brains: NDArray[np.int64],
    envs: int,
    seed: int,
    selfplay_envs: int,
    places: int,
    guests: NDArray[np.int64] | None = None,
) -> Seats:
    """`brains` says who plays for each agent as long as there is no league; `guests` who does in the last envs."""
    generator = np.random.default_rng(seed)
    brain = np.tile(brains, (envs, 1))
    if guests is not None:
        brain[envs - len(guests) :] = guests
    return Seats(
        brain=brain,
        rng=generator.integers(1, 2**62, envs).astype(np.uint64),
        league=np.array([selfplay_envs, envs - (0 if guests is None else len(guests)), 0], np.int64),
        slip=np.zeros(max(1, places), np.float32),
        rated=np.ones(envs, np.uint8),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def sit_down(seats: Seats, env: int, learners: int) -> None:
    """A new episode of a league env: the learner takes one chair at random, one frozen opponent all others."""
    places = seats.league[2]
    seats.rated[env] = 1
    if env < seats.league[0] or env >= seats.league[1] or places == 0:
        return
    agents = seats.brain.shape[1]
    chair = min(int(next_uniform(seats.rng, env) * agents), agents - 1)
    opponent = learners + min(int(next_uniform(seats.rng, env) * places), places - 1)
    for agent in range(agents):
        seats.brain[env, agent] = 0 if agent == chair else opponent
