"""Compiled training loops over compiled envs: the same decisions and updates as the learner, without Python.

All mutable state is in arrays the caller holds (`LoopProgress`), so a loop may be left after any step and resumed, in
this process or in another, without a difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import below, draw, uniform

Q_LEARNING, SARSA, EXPECTED_SARSA = 0, 1, 2
ALGORITHMS = {"q_learning": Q_LEARNING, "sarsa": SARSA, "expected_sarsa": EXPECTED_SARSA}

# Indices into LoopProgress.counts
STEPS, EPISODES, STATE, STEP_IN_EPISODE, DECISIONS, CHANCES, NEXT_ACTION, AGENT_STEPS = range(8)
# Indices into LoopProgress.sums; the first two are of the running episode, the others since they were last reset
RETURN, EPSILON, RETURNS, ENDED, LENGTHS, LEAST, MOST, TD_ERRORS, UPDATES = range(9)
NOWHERE = -1


class Knobs(NamedTuple):
    """Settings of the loops; only numbers, so that one compiled function serves every setting."""

    algorithm: int
    learning_rate: float
    discount_factor: float
    epsilon: float  # before the first episode
    epsilon_min: float
    epsilon_decay: float  # after every episode; 1.0 where epsilon is constant
    epsilon_episodes: int  # of a straight line down to epsilon_min; 0: no line, epsilon_decay instead
    by_visits: bool  # learning rate 1 / visits, at least learning_rate_min
    learning_rate_min: float


class LoopProgress(NamedTuple):
    """State of training."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    decisions: np.uint64  # key of the stream from which decisions are drawn
    chances: np.uint64  # key of the env's own stream


class Moves(NamedTuple):
    """Legal actions of every state as lists: `action[state, :number[state]]`, in ascending order."""

    action: NDArray[np.int16]
    number: NDArray[np.int16]


def list_moves(legal: NDArray[np.uint8]) -> Moves:
    number = legal.sum(axis=1).astype(np.int16)
    action = np.argsort(legal == 0, axis=1, kind="stable").astype(np.int16)
    return Moves(np.ascontiguousarray(action), number)


def new_visits(states: int, actions: int) -> NDArray[np.int32]:
    return np.zeros((states, actions), np.int32)


def new_progress(epsilon: float, decisions: int, chances: int) -> LoopProgress:
    counts = np.zeros(8, np.int64)
    counts[STATE] = counts[NEXT_ACTION] = NOWHERE
    sums = np.zeros(9)
    sums[EPSILON] = epsilon
    progress = LoopProgress(counts, sums, np.uint64(decisions), np.uint64(chances))
    clear(progress)
    return progress


def clear(progress: LoopProgress) -> None:
    """Reset the statistics; training itself is not affected."""
    progress.sums[RETURNS:] = 0.0
    progress.sums[LEAST], progress.sums[MOST] = np.inf, -np.inf


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def choose(q, row, moves, state, epsilon, key, counter):  # type: ignore[no-untyped-def]
    """Choose an action with two draws, needed or not: the first whether to explore, the second which action.

    `row` is the state's index in `q`, `state` its index in `moves`: the same, unless the table is hashed.
    """
    second = draw(key, counter + np.uint64(1))
    count = moves.number[state]
    if uniform(draw(key, counter)) < epsilon:
        return np.int64(moves.action[state, below(second, count)])
    chosen = np.int64(moves.action[state, 0])
    most, ties = q[row, chosen], 1
    for place in range(1, count):
        action = np.int64(moves.action[state, place])
        value = q[row, action]
        if value > most:
            most, ties, chosen = value, 1, action
        elif value == most:
            ties += 1
    if ties > 1:
        skip = below(second, ties)
        for place in range(count):
            action = np.int64(moves.action[state, place])
            if q[row, action] == most:
                if skip == 0:
                    return action
                skip -= 1
    return chosen


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def best(q, row, moves, state):  # type: ignore[no-untyped-def]
    most = q[row, moves.action[state, 0]]
    for place in range(1, moves.number[state]):
        value = q[row, moves.action[state, place]]
        if value > most:
            most = value
    return np.float64(most)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def expected(q, moves, state, epsilon):  # type: ignore[no-untyped-def]
    """Return the value of the epsilon-greedy policy."""
    total, count = 0.0, moves.number[state]
    for place in range(count):
        total += q[state, moves.action[state, place]]
    return epsilon * (total / count) + (1.0 - epsilon) * best(q, state, moves, state)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def learn(q, visits, state, action, target, knobs):  # type: ignore[no-untyped-def]
    """Make one update; return the absolute error before it."""
    visits[state, action] += 1
    rate = knobs.learning_rate
    if knobs.by_visits:
        rate = max(1.0 / visits[state, action], knobs.learning_rate_min)
    error = target - q[state, action]
    q[state, action] += rate * error
    return abs(error)


@njit(cache=True, nogil=True, error_model="numpy")
def end(sums, total, length, knobs, episode):  # type: ignore[no-untyped-def]
    """Record the end of the episode with this number; return the epsilon of the next."""
    sums[RETURNS] += total
    sums[ENDED] += 1.0
    sums[LENGTHS] += length
    sums[LEAST] = min(sums[LEAST], total)
    sums[MOST] = max(sums[MOST], total)
    if knobs.epsilon_episodes == 0:
        sums[EPSILON] = max(knobs.epsilon_min, sums[EPSILON] * knobs.epsilon_decay)
    elif episode >= knobs.epsilon_episodes:
        sums[EPSILON] = knobs.epsilon_min
    else:
        gap = knobs.epsilon_min - knobs.epsilon
        sums[EPSILON] = knobs.epsilon + gap * (episode / knobs.epsilon_episodes)
    return sums[EPSILON]


@njit(cache=True, nogil=True, error_model="numpy")
def store(counts, sums, state, length, decisions, chances, follower, total, errors, updates):  # type: ignore[no-untyped-def]
    """Write the loop's local variables back into the arrays."""
    counts[STATE], counts[STEP_IN_EPISODE], counts[NEXT_ACTION] = state, length, follower
    counts[DECISIONS], counts[CHANCES] = np.int64(decisions), np.int64(chances)
    counts[AGENT_STEPS] += updates
    sums[RETURN] = total
    sums[TD_ERRORS] = errors  # not added up here: the sum must not depend on where a loop was left
    sums[UPDATES] += updates


@njit(cache=True, nogil=True, error_model="numpy")
def train_mdp(mdp, moves, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Take `steps` more env steps, or until `episodes` have ended (0: no limit)."""
    counts, sums, key, env_key = progress.counts, progress.sums, progress.decisions, progress.chances
    state, length, follower = counts[STATE], counts[STEP_IN_EPISODE], counts[NEXT_ACTION]
    decisions, chances = np.uint64(counts[DECISIONS]), np.uint64(counts[CHANCES])
    total, epsilon, errors, updates = sums[RETURN], sums[EPSILON], sums[TD_ERRORS], 0
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if state == NOWHERE:
            chance = uniform(draw(env_key, chances))
            chances += np.uint64(1)
            place = 0
            while mdp.start_threshold[place] <= chance:
                place += 1
            state = np.int64(mdp.start_state[place])
        action = follower
        if action == NOWHERE:
            action = choose(q, state, moves, state, epsilon, key, decisions)
            decisions += np.uint64(2)
        chance = uniform(draw(env_key, chances))
        chances += np.uint64(1)
        outcome = 0
        while mdp.threshold[state, action, outcome] <= chance:
            outcome += 1
        reward = mdp.reward[state, action, outcome]
        after = np.int64(mdp.next_state[state, action, outcome])
        terminated = mdp.terminated[state, action, outcome] != 0
        updates += 1
        length += 1
        future, follower = 0.0, np.int64(NOWHERE)
        if not terminated:
            if knobs.algorithm == SARSA:
                follower = choose(q, after, moves, after, epsilon, key, decisions)
                decisions += np.uint64(2)
                future = np.float64(q[after, follower])
            elif knobs.algorithm == EXPECTED_SARSA:
                future = expected(q, moves, after, epsilon)
            else:
                future = best(q, after, moves, after)
        errors += learn(q, visits, state, action, reward + knobs.discount_factor * future, knobs)
        total += reward
        state = after
        if terminated or (mdp.time_limit > 0 and length >= mdp.time_limit):
            counts[EPISODES] += 1
            epsilon = end(sums, total, length, knobs, counts[EPISODES])
            state, follower, length, total = np.int64(NOWHERE), np.int64(NOWHERE), np.int64(0), 0.0
    counts[STEPS] += updates
    store(counts, sums, state, length, decisions, chances, follower, total, errors, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def train_self_play(game, moves, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Learn for both players in one table, each position seen by its mover.

    What is good for the next mover is bad for this one.
    """
    counts, sums, key = progress.counts, progress.sums, progress.decisions
    state, length = counts[STATE], counts[STEP_IN_EPISODE]
    decisions, chances = np.uint64(counts[DECISIONS]), np.uint64(counts[CHANCES])
    epsilon, errors, updates = sums[EPSILON], sums[TD_ERRORS], 0
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if state == NOWHERE:
            state = np.int64(game.start)
        action = choose(q, state, moves, state, epsilon, key, decisions)
        decisions += np.uint64(2)
        reward = np.float64(game.reward[state, action])
        after = np.int64(game.next_state[state, action])
        over = game.over[state, action] != 0
        updates += 1
        length += 1
        target = reward if over else reward - knobs.discount_factor * best(q, after, moves, after)
        errors += learn(q, visits, state, action, target, knobs)
        state = after
        if over:
            first_player = reward if length % 2 == 1 else -reward
            counts[EPISODES] += 1
            epsilon = end(sums, first_player, length, knobs, counts[EPISODES])
            state, length = np.int64(NOWHERE), np.int64(0)
    counts[STEPS] += updates
    store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), 0.0, errors, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def train_two_tables(game, moves, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Train like `train_self_play`, but each player has its own table and values the reply by the other's."""
    counts, sums, key = progress.counts, progress.sums, progress.decisions
    state, length = counts[STATE], counts[STEP_IN_EPISODE]
    decisions, chances = np.uint64(counts[DECISIONS]), np.uint64(counts[CHANCES])
    epsilon, errors, updates = sums[EPSILON], sums[TD_ERRORS], 0
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if state == NOWHERE:
            state = np.int64(game.start)
        agent = length % 2
        action = choose(q[agent], state, moves, state, epsilon, key, decisions)
        decisions += np.uint64(2)
        reward = np.float64(game.reward[state, action])
        after = np.int64(game.next_state[state, action])
        over = game.over[state, action] != 0
        updates += 1
        length += 1
        target = reward if over else reward - knobs.discount_factor * best(q[1 - agent], after, moves, after)
        errors += learn(q[agent], visits[agent], state, action, target, knobs)
        state = after
        if over:
            first_player = reward if agent == 0 else -reward
            counts[EPISODES] += 1
            epsilon = end(sums, first_player, length, knobs, counts[EPISODES])
            state, length = np.int64(NOWHERE), np.int64(0)
    counts[STEPS] += updates
    store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), 0.0, errors, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def train_against_random(game, moves, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Take `steps` steps of the learner; a coin decides who begins, and the random reply belongs to the env."""
    counts, sums, key, env_key = progress.counts, progress.sums, progress.decisions, progress.chances
    state, length = counts[STATE], counts[STEP_IN_EPISODE]
    decisions, chances = np.uint64(counts[DECISIONS]), np.uint64(counts[CHANCES])
    total, epsilon, errors, updates, replies = sums[RETURN], sums[EPSILON], sums[TD_ERRORS], 0, 0
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if state == NOWHERE:
            state = np.int64(game.start)
            coin = draw(env_key, chances)
            chances += np.uint64(1)
            if coin >> np.uint64(63):
                move = np.int64(moves.action[state, below(draw(env_key, chances), moves.number[state])])
                chances += np.uint64(1)
                replies += 1
                state = np.int64(game.next_state[state, move])
        action = choose(q, state, moves, state, epsilon, key, decisions)
        decisions += np.uint64(2)
        reward = np.float64(game.reward[state, action])
        over = game.over[state, action] != 0
        after = np.int64(game.next_state[state, action])
        updates += 1
        length += 1
        if not over:
            move = np.int64(moves.action[after, below(draw(env_key, chances), moves.number[after])])
            chances += np.uint64(1)
            replies += 1
            reward -= np.float64(game.reward[after, move])
            over = game.over[after, move] != 0
            after = np.int64(game.next_state[after, move])
        target = reward if over else reward + knobs.discount_factor * best(q, after, moves, after)
        errors += learn(q, visits, state, action, target, knobs)
        total += reward
        state = after
        if over:
            counts[EPISODES] += 1
            epsilon = end(sums, total, length, knobs, counts[EPISODES])
            state, length, total = np.int64(NOWHERE), np.int64(0), 0.0
    counts[STEPS] += updates + replies
    store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), total, errors, updates)
