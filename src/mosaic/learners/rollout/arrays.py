"""Flat counters of a rollout's episodes, which compiled loops fill and Python reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import next_uniform
from mosaic.envs.vector.layout import VectorShape


@intrinsic
def _cycles(typingctx: Any) -> Any:
    """Read LLVM's readcyclecounter as int64; only differences and their ratios are meaningful."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(word, ()))
        return builder.call(counter, ())

    return types.int64(), codegen


cycles: Any = _cycles


class Assignment(NamedTuple):
    """Assignment of policies to agents; policies are numbered, learners first, then the places of frozen opponents."""

    policy_of: NDArray[np.int64]  # [E, A] the policy that plays each agent now
    rng: NDArray[np.uint64]  # [E] random state for new assignments
    league: NDArray[np.int64]  # [3]: envs that play against the league, from, up to; number of filled places
    slip: NDArray[np.float32]  # [places] probability of a random move of each frozen opponent; 1 is a random player
    rated: NDArray[np.uint8]  # [E] whether the current game counts: its opponent has not changed since it began


def make_assignment(
    policy_of: NDArray[np.int64],
    envs: int,
    seed: int,
    selfplay_envs: int,
    places: int,
    guests: NDArray[np.int64],
) -> Assignment:
    """Create the assignment: `policy_of` [A] outside the league, `guests` [G, A] in the last envs."""
    generator = np.random.default_rng(seed)
    policy_of = np.tile(policy_of, (envs, 1))
    policy_of[envs - len(guests) :] = guests
    return Assignment(
        policy_of=policy_of,
        rng=generator.integers(1, 2**62, envs).astype(np.uint64),
        league=np.array([selfplay_envs, envs - len(guests), 0], np.int64),
        slip=np.zeros(max(1, places), np.float32),
        rated=np.ones(envs, np.uint8),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def assign_opponent(assignment: Assignment, env: int, learners: int) -> None:
    """Assign a new episode of a league env: a random agent to the learner, all others to one frozen opponent."""
    places = assignment.league[2]
    assignment.rated[env] = 1
    if env < assignment.league[0] or env >= assignment.league[1] or places == 0:
        return
    agents = assignment.policy_of.shape[1]
    own = min(int(next_uniform(assignment.rng, env) * agents), agents - 1)
    opponent = learners + min(int(next_uniform(assignment.rng, env) * places), places - 1)
    for agent in range(agents):
        assignment.policy_of[env, agent] = 0 if agent == own else opponent


class Track(NamedTuple):
    """T steps of E envs with A agents and M slots (see envs/vector/layout.py for the layout)."""

    who: NDArray[np.int64]  # [T+1, M] the agent in a slot
    active: NDArray[np.uint8]  # [T+1, M] whether it acted
    policy_of: NDArray[np.int64]  # [T, M] the number of the policy that decided
    value: NDArray[np.float32]  # [T+1, M] that policy's value of the slot's observation
    reward: NDArray[np.float32]  # [T, E*A]
    ended: NDArray[np.uint8]  # [T, E*A] terminated or truncated
    bootstrap: NDArray[np.float32]  # [T, E*A] the value of the final observation where truncated, else 0
    first: NDArray[np.uint8]  # [T+1, M] first observation of the agent's episode (nets with memory)


def make_track(shape: VectorShape, steps: int) -> Track:
    slots, rows = shape.slots, shape.rows
    return Track(
        who=np.zeros((steps + 1, slots), np.int64),
        active=np.ones((steps + 1, slots), np.uint8),
        policy_of=np.zeros((steps, slots), np.int64),
        value=np.zeros((steps + 1, slots), np.float32),
        reward=np.zeros((steps, rows), np.float32),
        ended=np.zeros((steps, rows), np.uint8),
        bootstrap=np.zeros((steps, rows), np.float32),
        first=np.ones((steps + 1, slots), np.uint8),
    )


WINDOW = 100  # episodes in a displayed mean
EPISODES, SUM, LENGTHS = 0, 1, 2


class EpisodeTally(NamedTuple):
    returns: NDArray[np.float32]  # [E*A] of the running episodes
    length: NDArray[np.int64]  # [E]
    alive: NDArray[np.int64]  # [E] agents that have not ended yet
    recent: NDArray[np.float32]  # [learners, WINDOW] returns of the last episodes
    recent_length: NDArray[np.int64]  # [WINDOW]
    finished: NDArray[np.int64]  # [learners + 1] episodes of each learner; last: of the envs
    decisions: NDArray[np.int64]  # [1] agent steps of all policies
    scores: NDArray[np.int64]  # [places + guests, 3] games that the learner won, drew and lost against each
    selfplay: NDArray[np.int64]  # [3] the same for the first agent where the learner plays itself
    discounted: NDArray[np.float32]  # [E*A] running discounted return
    spread: NDArray[np.float64]  # [A, 3] count, sum and sum of squares of it


def make_tally(shape: VectorShape, learners: int, opponents: int) -> EpisodeTally:
    return EpisodeTally(
        returns=np.zeros(shape.rows, np.float32),
        length=np.zeros(shape.envs, np.int64),
        alive=np.full(shape.envs, len(shape.agents), np.int64),
        recent=np.zeros((learners, WINDOW), np.float32),
        recent_length=np.zeros(WINDOW, np.int64),
        finished=np.zeros(learners + 1, np.int64),
        decisions=np.zeros(1, np.int64),
        scores=np.zeros((max(1, opponents), 3), np.int64),
        selfplay=np.zeros(3, np.int64),
        discounted=np.zeros(shape.rows, np.float32),
        spread=np.zeros((len(shape.agents), 3)),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def record_step(
    tally: EpisodeTally,
    assignment: Assignment,
    track: Track,
    time: int,
    term: NDArray[np.uint8],
    trunc: NDArray[np.uint8],
    learners: int,
    gamma: np.float32,
) -> bool:
    """Record returns, ends and scores after a step, and reassign ended episodes; return whether any was truncated."""
    envs, agents = assignment.policy_of.shape
    cut = False
    for env in range(envs):
        tally.length[env] += 1
        for agent in range(agents):
            row = env * agents + agent
            reward = track.reward[time, row]
            tally.returns[row] += reward
            now = tally.discounted[row] * gamma + reward
            tally.discounted[row] = now
            if assignment.policy_of[env, agent] < learners:
                tally.spread[agent, 0] += 1.0
                tally.spread[agent, 1] += now
                tally.spread[agent, 2] += now * now
            ended = term[row] | trunc[row]
            track.ended[time, row] = ended
            track.bootstrap[time, row] = np.float32(0)
            if ended:
                tally.discounted[row] = np.float32(0)
                tally.alive[env] -= 1
                policy = assignment.policy_of[env, agent]
                if policy < learners:
                    tally.recent[policy, tally.finished[policy] % WINDOW] = tally.returns[row]
                    tally.finished[policy] += 1
                cut = cut or trunc[row] > term[row]
        if tally.alive[env] <= 0:
            end_episode(tally, assignment, env, learners)
    return cut


@njit(cache=True, nogil=True, error_model="numpy")
def record_game(tally: EpisodeTally, assignment: Assignment, env: int, learners: int) -> None:
    """Record the learner's result against each opponent, best return against best; else the first agent's result."""
    agents = assignment.policy_of.shape[1]
    first, alone = env * agents, True
    mine = np.float32(-np.inf)
    for agent in range(agents):
        if assignment.policy_of[env, agent] == 0:
            mine = max(mine, tally.returns[first + agent])
        alone = alone and assignment.policy_of[env, agent] < learners
    if alone:
        best = np.float32(-np.inf)
        for row in range(first + 1, first + agents):
            best = max(best, tally.returns[row])
        tally.selfplay[compare(tally.returns[first], best)] += 1
        return
    for agent in range(agents):
        policy = assignment.policy_of[env, agent]
        if policy < learners or not assignment.rated[env]:
            continue
        best, counted = np.float32(-np.inf), False
        for other in range(agents):
            if assignment.policy_of[env, other] == policy:
                counted = counted or other < agent
                best = max(best, tally.returns[first + other])
        if not counted:
            tally.scores[policy - learners, compare(mine, best)] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def compare(mine: np.float32, best: np.float32) -> int:
    """Return 0 for a win, 1 for a draw, 2 for a loss."""
    return 0 if mine > best else (1 if mine == best else 2)


@njit(cache=True, nogil=True, error_model="numpy")
def end_episode(tally: EpisodeTally, assignment: Assignment, env: int, learners: int) -> None:
    agents = assignment.policy_of.shape[1]
    total = tally.finished.shape[0] - 1
    tally.recent_length[tally.finished[total] % WINDOW] = tally.length[env]
    tally.finished[total] += 1
    if agents > 1:
        record_game(tally, assignment, env, learners)
    for row in range(env * agents, env * agents + agents):
        tally.returns[row] = np.float32(0)
    tally.length[env] = 0
    tally.alive[env] = agents
    assign_opponent(assignment, env, learners)
