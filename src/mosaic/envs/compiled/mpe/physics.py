"""Particle physics of mpe2, shared by its scenarios.

Float64 in the reference's order of operations, so that observations and rewards agree to the last bit of a float32. A
row of `state` holds the positions of agents and landmarks, then the velocities of the agents, then the largest absolute
initial coordinate (needed by the reference's camera). A row of `ints` begins with the steps of the episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import next_uniform
from mosaic.envs.compiled.vector import Bytes, Floats, Ints, Rows, Words

AGENTS, LANDMARKS, MAX_CYCLES, LOCAL_RATIO, COLLIDERS, ADVERSARIES, NEAR_AGENTS, NEAR_LANDMARKS, ENTITIES = range(9)
CYCLES = 0  # in `ints`
MOVES = 5  # stay, left, right, down, up
DT, DAMPING, CONTACT_FORCE, CONTACT_MARGIN = 0.1, 0.25, 1e2, 1e-3
# Contact acts at any distance; beyond this many margins a velocity changes by less than the smallest float32.
_REACH = 110.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticleWorld:
    """Constants of a scenario; entities are the agents, then the landmarks."""

    agents: int
    sizes: Sequence[float]  # of entities
    accel: Sequence[float]  # of agents
    max_cycles: int
    max_speed: Sequence[float] | None = None  # of agents; None: unlimited
    local_ratio: float = 0.0
    colliders: int = 0  # the first entities, as many as this, collide
    adversaries: int = 0
    near_agents: int = 0  # how many an agent sees, nearest first; 0: all, in their order
    near_landmarks: int = 0

    @property
    def landmarks(self) -> int:
        return len(self.sizes) - self.agents

    @property
    def facts(self) -> Floats:
        head = (self.agents, self.landmarks, self.max_cycles, self.local_ratio, self.colliders, self.adversaries)
        limits = [np.inf] * self.agents if self.max_speed is None else self.max_speed
        numbers = (*head, self.near_agents, self.near_landmarks, *self.sizes, *self.accel, *limits)
        return np.array(numbers, np.float64)

    @property
    def state_width(self) -> int:
        return 4 * self.agents + 2 * self.landmarks + 1


@njit(cache=True, nogil=True, error_model="numpy")
def scatter(facts: Floats, state: Floats, env: int, rng: Words, landmark_range: float) -> None:
    """Place everything at random, at rest."""
    agents, entities = int(facts[AGENTS]), int(facts[AGENTS] + facts[LANDMARKS])
    farthest = 0.0
    for k in range(2 * entities):
        reach = 1.0 if k < 2 * agents else landmark_range
        state[env, k] = (2.0 * next_uniform(rng, env) - 1.0) * reach
        farthest = max(farthest, abs(state[env, k]))
    for k in range(2 * entities, 2 * (entities + agents)):
        state[env, k] = 0.0
    state[env, 2 * (entities + agents)] = farthest


@njit(cache=True, nogil=True, error_model="numpy")
def move_particles(facts: Floats, state: Floats, env: int, act: Rows, force: Floats) -> None:
    """Step one world; `force` is scratch space, two numbers for each agent."""
    agents, entities = int(facts[AGENTS]), int(facts[AGENTS] + facts[LANDMARKS])
    accel = ENTITIES + entities
    for a in range(agents):
        force[2 * a] = force[2 * a + 1] = 0.0
        move = int(act[env * agents + a, 0]) % MOVES
        if move > 0:
            force[2 * a + (move - 1) // 2] = facts[accel + a] if move % 2 == 0 else -facts[accel + a]
    _collide(facts, state, env, force)
    speeds = 2 * entities
    limits = accel + agents
    for a in range(agents):
        x, y = 2 * a, 2 * a + 1
        state[env, x] += state[env, speeds + x] * DT  # with the velocity from before the push
        state[env, y] += state[env, speeds + y] * DT
        vx = state[env, speeds + x] * (1 - DAMPING) + force[x] * DT
        vy = state[env, speeds + y] * (1 - DAMPING) + force[y] * DT
        speed = np.sqrt(vx * vx + vy * vy)
        if speed > facts[limits + a]:
            vx, vy = vx / speed * facts[limits + a], vy / speed * facts[limits + a]
        state[env, speeds + x], state[env, speeds + y] = vx, vy


@njit(cache=True, nogil=True, error_model="numpy")
def _collide(facts: Floats, state: Floats, env: int, force: Floats) -> None:
    agents, colliders = int(facts[AGENTS]), int(facts[COLLIDERS])
    for a in range(min(agents, colliders)):
        for b in range(a + 1, colliders):
            dx, dy = state[env, 2 * a] - state[env, 2 * b], state[env, 2 * a + 1] - state[env, 2 * b + 1]
            squared = dx * dx + dy * dy
            touching = facts[ENTITIES + a] + facts[ENTITIES + b]
            reach = touching + _REACH * CONTACT_MARGIN
            if squared > reach * reach:
                continue
            distance = np.sqrt(squared)
            depth = -(distance - touching) / CONTACT_MARGIN
            if depth < 0:
                softened = np.log1p(np.exp(depth)) * CONTACT_MARGIN
            else:
                softened = (depth + np.log1p(np.exp(-depth))) * CONTACT_MARGIN
            fx = CONTACT_FORCE * dx / distance * softened
            fy = CONTACT_FORCE * dy / distance * softened
            force[2 * a] += fx
            force[2 * a + 1] += fy
            if b < agents:  # landmarks do not move
                force[2 * b] -= fx
                force[2 * b + 1] -= fy


@njit(cache=True, nogil=True, error_model="numpy")
def squared_distance(state: Floats, env: int, a: int, b: int) -> float:
    dx, dy = state[env, 2 * a] - state[env, 2 * b], state[env, 2 * a + 1] - state[env, 2 * b + 1]
    return dx * dx + dy * dy  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def distance_between(state: Floats, env: int, a: int, b: int) -> float:
    return np.sqrt(squared_distance(state, env, a, b))  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def are_touching(facts: Floats, state: Floats, env: int, a: int, b: int) -> bool:
    squared, touching = squared_distance(state, env, a, b), facts[ENTITIES + a] + facts[ENTITIES + b]
    if squared > 1.01 * touching * touching:  # skips the square root for most pairs
        return False
    return np.sqrt(squared) < touching  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def count_cycle(facts: Floats, ints: Ints, env: int, term: Bytes, trunc: Bytes) -> bool:
    """Return whether this step was the episode's last, and set the flags of every agent."""
    agents = int(facts[AGENTS])
    ints[env, CYCLES] += 1
    cut = ints[env, CYCLES] >= facts[MAX_CYCLES]
    for a in range(agents):
        term[env * agents + a] = 0
        trunc[env * agents + a] = 1 if cut else 0
    return cut  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def name_rows(facts: Floats, who: Ints) -> None:
    """Set the agent of each row; it never changes, since all agents act together."""
    agents = int(facts[AGENTS])
    for row in range(who.shape[0]):
        who[row] = row % agents
