"""Writers of observation rows: the pieces of which mpe2's scenarios compose them."""

from __future__ import annotations

import numpy as np

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.mpe.physics import AGENTS, LANDMARKS, NEAR_AGENTS, NEAR_LANDMARKS, distance_between
from mosaic.envs.compiled.vector import Floats, Ints, Rows


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_velocity(facts: Floats, state: Floats, env: int, a: int, row: int, column: int, out: Rows) -> int:
    """Write the velocity of an agent.

    All writers put numbers into a row from a column on, and return the column after them. They take the rows out of
    their matrices first: otherwise both indices of a matrix are evaluated for every number.
    """
    here, line = state[env], out[row]
    speeds = 2 * int(facts[AGENTS] + facts[LANDMARKS])
    line[column], line[column + 1] = here[speeds + 2 * a], here[speeds + 2 * a + 1]
    return column + 2


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_position(state: Floats, env: int, a: int, row: int, column: int, out: Rows) -> int:
    here, line = state[env], out[row]
    line[column], line[column + 1] = here[2 * a], here[2 * a + 1]
    return column + 2


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_way(state: Floats, env: int, a: int, b: int, row: int, column: int, out: Rows) -> int:
    """Write the offset from an agent to an entity."""
    out[row, column] = state[env, 2 * b] - state[env, 2 * a]
    out[row, column + 1] = state[env, 2 * b + 1] - state[env, 2 * a + 1]
    return column + 2


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_word(word: int, words: int, row: int, column: int, out: Rows) -> int:
    """Write a word as one-hot; all zeros for -1."""
    for k in range(words):
        out[row, column + k] = 1.0 if k == word else 0.0
    return column + words


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_zeros(row: int, column: int, out: Rows) -> None:
    """Write zeros to the end of the row."""
    line = out[row]
    for k in range(column, line.shape[0]):
        line[k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_ways(state: Floats, env: int, a: int, first: int, last: int, row: int, column: int, out: Rows) -> int:
    """Write the offsets from an agent to the entities first..last-1, without itself."""
    here, line = state[env], out[row]
    x, y = here[2 * a], here[2 * a + 1]
    for b in range(first, last):
        if b != a:
            line[column] = here[2 * b] - x
            line[column + 1] = here[2 * b + 1] - y
            column += 2
    return column


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_sight(facts: Floats, state: Floats, env: int, a: int, seen: Ints, row: int, column: int, out: Rows) -> int:
    """Write the offsets to the landmarks, then to the other agents: all in their order, or the nearest of each.

    If only the nearest agents are seen, `seen` then holds their numbers, and -1 where there are too few.
    """
    agents, entities = int(facts[AGENTS]), int(facts[AGENTS] + facts[LANDMARKS])
    near_agents, near_landmarks = int(facts[NEAR_AGENTS]), int(facts[NEAR_LANDMARKS])
    if near_landmarks == 0:
        column = write_ways(state, env, a, agents, entities, row, column, out)
    else:
        column = write_near_ways(state, env, a, agents, entities, near_landmarks, seen, row, column, out)
    if near_agents == 0:
        column = write_ways(state, env, a, 0, agents, row, column, out)
    else:
        column = write_near_ways(state, env, a, 0, agents, near_agents, seen, row, column, out)
    return column


@njit(cache=True, nogil=True, error_model="numpy")
def write_near_ways(
    state: Floats, env: int, a: int, first: int, last: int, near: int, seen: Ints, row: int, column: int, out: Rows
) -> int:
    find_nearest(state, env, a, first, last, near, seen)
    for place in range(near):
        if seen[place] < 0:
            out[row, column] = out[row, column + 1] = 0.0
        else:
            write_way(state, env, a, seen[place], row, column, out)
        column += 2
    return column


@njit(cache=True, nogil=True, error_model="numpy")
def find_nearest(state: Floats, env: int, a: int, first: int, last: int, near: int, seen: Ints) -> None:
    """Find the nearest entities by insertion into a short sorted list."""
    for place in range(near):
        seen[place] = -1
    for b in range(first, last):
        if b == a:
            continue
        distance = distance_between(state, env, a, b)
        place = near
        while place > 0 and (seen[place - 1] < 0 or distance < distance_between(state, env, a, seen[place - 1])):
            place -= 1
        for behind in range(near - 1, place, -1):
            seen[behind] = seen[behind - 1]
        if place < near:
            seen[place] = b


@njit(cache=True, nogil=True, error_model="numpy")
def sight_room(facts: Floats) -> Ints:
    """Allocate scratch space for `write_sight`."""
    return np.empty(int(max(facts[NEAR_AGENTS], facts[NEAR_LANDMARKS])), np.int64)


def ways_width(count: int, near: int) -> int:
    """Return how many numbers `write_sight` writes for a count of entities without the agent itself."""
    return 2 * (near or count)
