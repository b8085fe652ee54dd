"""Training loops of self-play and against a random opponent for small games of nine actions, laid out for the L1 cache.

They make the same decisions and updates as those of loops.py, bit for bit, in about half the time. Those loops wait, at
every step, for the row of values of the position just reached; these keep the best actions of every position, and
update them when a value changes. One word encodes a move, and sets of actions are bits, so that choosing among them is
one table lookup. Nothing else may write the values meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.mdp.mdp import GameTables
from mosaic.envs.compiled.random import below, draw, uniform
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.kernels.loops import (
    CHANCES,
    DECISIONS,
    EPISODES,
    EPSILON,
    NOWHERE,
    RETURN,
    STATE,
    STEP_IN_EPISODE,
    STEPS,
    TD_ERRORS,
    end,
    store,
)

ACTIONS = 9
SETS = 1 << ACTIONS
# A word: the position after the move, the options there, whether the game is over, the mover's reward
MOST_STATES = 1 << 16
OPTIONS_AT, OVER_AT, REWARD_AT = 16, 25, 26
REWARDS = range(-32, 32)
UNKNOWN = 0


class PackedGame(NamedTuple):
    """A game and sets of actions, as the loop reads them."""

    own: NDArray[np.int32]  # [S, action] words of the learner's moves; options: the number of replies
    move: NDArray[np.int32]  # [S, action] words of a move in self-play; options: a set
    reply: NDArray[np.int32]  # [S, index among the legal moves] words of the opponent's moves; options: a set
    legal: NDArray[np.int32]  # [S] sets
    start: int
    member: NDArray[np.uint8]  # [set, index] actions in ascending order
    size: NDArray[np.uint8]  # [set]
    bar: Values  # [set, action] 0 for members, -inf for the others, in the type of the values


class Leaders(NamedTuple):
    """Best legal actions of every position and their value, as far as known."""

    actions: NDArray[np.int16]  # [S] sets
    value: Values  # [S]


def pack_game(game: GameTables, dtype: np.dtype[np.floating]) -> PackedGame | None:
    """Pack the game; return None where it does not fit the words."""
    states, actions = game.legal.shape
    rewards = game.reward[game.legal != 0]
    fits = bool((np.trunc(rewards) == rewards).all() and np.isin(rewards, REWARDS).all())
    if actions != ACTIONS or states > MOST_STATES or not fits:
        return None
    legal = (game.legal.astype(np.int32) << np.arange(ACTIONS, dtype=np.int32)).sum(axis=1, dtype=np.int32)
    reward = np.where(game.legal, game.reward, 0).astype(np.int32)
    word = game.next_state | game.over.astype(np.int32) << OVER_AT | reward << REWARD_AT
    members = (np.arange(SETS)[:, None] >> np.arange(ACTIONS)) & 1
    size = members.sum(axis=1).astype(np.uint8)
    moves_first = np.argsort(game.legal == 0, axis=1, kind="stable")
    move = word | legal[game.next_state] << OPTIONS_AT
    return PackedGame(
        own=word | size[legal[game.next_state]].astype(np.int32) << OPTIONS_AT,
        move=move,
        reply=np.take_along_axis(move, moves_first, axis=1),
        legal=legal,
        start=game.start,
        member=np.argsort(members == 0, axis=1, kind="stable").astype(np.uint8),
        size=size,
        bar=np.where(members, 0.0, -np.inf).astype(dtype),
    )


def new_leaders(states: int, dtype: np.dtype[np.floating]) -> Leaders:
    return Leaders(np.full(states, UNKNOWN, np.int16), np.zeros(states, dtype))


@njit(cache=True, nogil=True, error_model="numpy")
def find_leaders(q, state, legal, bar):  # type: ignore[no-untyped-def]
    """Find the best actions from all nine values: a loop over the legal ones would be mispredicted by the processor."""
    most = q[state, 0] + bar[legal, 0]
    for action in range(1, ACTIONS):
        value = q[state, action] + bar[legal, action]
        most = value if value > most else most
    leading = 0
    for action in range(ACTIONS):
        leading |= (q[state, action] == most) << action
    return leading & legal, most


@njit(cache=True, nogil=True, error_model="numpy")
def train_against_random(packed, leaders, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Take `steps` steps of the learner; a coin decides who begins, and the random reply belongs to the env.

    Arrays are taken out of their tuples first, and all writes are inlined: numba counts references to an array wherever
    one is passed on, which costs as much as the update.
    """
    counts, sums, key, env_key = progress.counts, progress.sums, progress.decisions, progress.chances
    own, reply, member, size, bar = packed.own, packed.reply, packed.member, packed.size, packed.bar
    best, value = leaders.actions, leaders.value
    start, start_legal = np.int64(packed.start), np.int64(packed.legal[packed.start])
    state, length, legal = counts[STATE], counts[STEP_IN_EPISODE], start_legal
    decisions, chances = np.uint64(counts[DECISIONS]), np.uint64(counts[CHANCES])
    total, epsilon, errors, updates, replies = sums[RETURN], sums[EPSILON], sums[TD_ERRORS], 0, 0
    best[:] = UNKNOWN  # the caller may have changed any value
    if state != NOWHERE:
        legal = np.int64(packed.legal[state])
        best[state], value[state] = find_leaders(q, state, legal, bar)
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if state == NOWHERE:
            state, legal = start, start_legal
            coin = draw(env_key, chances)
            chances += np.uint64(1)
            if coin >> np.uint64(63):
                word = np.int64(reply[state, below(draw(env_key, chances), size[legal])])
                chances += np.uint64(1)
                replies += 1
                state, legal = word & (MOST_STATES - 1), (word >> OPTIONS_AT) & (SETS - 1)
            if best[state] == UNKNOWN:
                best[state], value[state] = find_leaders(q, state, legal, bar)
        allowed = legal if uniform(draw(key, decisions)) < epsilon else np.int64(best[state])
        action = np.int64(member[allowed, below(draw(key, decisions + np.uint64(1)), size[allowed])])
        decisions += np.uint64(2)
        updates += 1
        length += 1
        word = np.int64(own[state, action])
        reward = word >> REWARD_AT
        if (word >> OVER_AT) & 1 == 0:
            place = below(draw(env_key, chances), (word >> OPTIONS_AT) & (SETS - 1))
            word = np.int64(reply[word & (MOST_STATES - 1), place])
            chances += np.uint64(1)
            replies += 1
            reward -= word >> REWARD_AT
        over = (word >> OVER_AT) & 1 != 0
        after, options = word & (MOST_STATES - 1), (word >> OPTIONS_AT) & (SETS - 1)
        target = np.float64(reward)
        if not over:
            if best[after] == UNKNOWN:
                best[after], value[after] = find_leaders(q, after, options, bar)
            target += knobs.discount_factor * np.float64(value[after])
        visits[state, action] += 1
        rate = knobs.learning_rate
        if knobs.by_visits:
            rate = max(1.0 / visits[state, action], knobs.learning_rate_min)
        error = target - q[state, action]
        q[state, action] += rate * error
        errors += abs(error)
        now, bit, most, leading = q[state, action], 1 << action, value[state], np.int64(best[state])
        if now > most:
            best[state], value[state] = bit, now
        elif now == most:
            best[state] = leading | bit
        elif leading == bit:  # the only best action became worse: check the others
            best[state], value[state] = find_leaders(q, state, legal, bar)
        elif leading & bit:
            best[state] = leading & ~bit
        total += reward
        state, legal = after, options
        if over:
            counts[EPISODES] += 1
            epsilon = end(sums, total, length, knobs, counts[EPISODES])
            state, length, total = np.int64(NOWHERE), np.int64(0), 0.0
    counts[STEPS] += updates + replies
    store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), total, errors, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def train_self_play(packed, leaders, q, visits, knobs, progress, steps, episodes):  # type: ignore[no-untyped-def]
    """Learn for both agents in one table, each position seen by its mover.

    What is good for the next mover is bad for this one. The words of this loop are those of `train_against_random`; see
    there why no array is passed on.
    """
    counts, sums, key = progress.counts, progress.sums, progress.decisions
    move, member, size, bar, best, value = (
        packed.move,
        packed.member,
        packed.size,
        packed.bar,
        leaders.actions,
        leaders.value,
    )
    start, start_legal = np.int64(packed.start), np.int64(packed.legal[packed.start])
    state, length, legal = counts[STATE], counts[STEP_IN_EPISODE], start_legal
    decisions, epsilon, errors, updates = np.uint64(counts[DECISIONS]), sums[EPSILON], sums[TD_ERRORS], 0
    best[:] = UNKNOWN  # the caller may have changed any value
    if state != NOWHERE:
        legal = np.int64(packed.legal[state])
        best[state], value[state] = find_leaders(q, state, legal, bar)
    best[start], value[start] = find_leaders(q, start, start_legal, bar)
    while updates < steps and not (episodes > 0 and counts[EPISODES] >= episodes):
        if state == NOWHERE:
            state, legal = start, start_legal
        allowed = legal if uniform(draw(key, decisions)) < epsilon else np.int64(best[state])
        action = np.int64(member[allowed, below(draw(key, decisions + np.uint64(1)), size[allowed])])
        decisions += np.uint64(2)
        updates += 1
        length += 1
        word = np.int64(move[state, action])
        reward, over = word >> REWARD_AT, (word >> OVER_AT) & 1 != 0
        after, options = word & (MOST_STATES - 1), (word >> OPTIONS_AT) & (SETS - 1)
        target = np.float64(reward)
        if not over:
            if best[after] == UNKNOWN:
                best[after], value[after] = find_leaders(q, after, options, bar)
            target -= knobs.discount_factor * np.float64(value[after])
        visits[state, action] += 1
        rate = knobs.learning_rate
        if knobs.by_visits:
            rate = max(1.0 / visits[state, action], knobs.learning_rate_min)
        error = target - q[state, action]
        q[state, action] += rate * error
        errors += abs(error)
        now, bit, most, leading = q[state, action], 1 << action, value[state], np.int64(best[state])
        if now > most:
            best[state], value[state] = bit, now
        elif now == most:
            best[state] = leading | bit
        elif leading == bit:  # the only best action became worse: check the others
            best[state], value[state] = find_leaders(q, state, legal, bar)
        elif leading & bit:
            best[state] = leading & ~bit
        state, legal = after, options
        if over:
            first_player = np.float64(reward if length % 2 == 1 else -reward)
            counts[EPISODES] += 1
            epsilon = end(sums, first_player, length, knobs, counts[EPISODES])
            state, length = np.int64(NOWHERE), np.int64(0)
    counts[STEPS] += updates
    chances = np.uint64(counts[CHANCES])
    store(counts, sums, state, length, decisions, chances, np.int64(NOWHERE), 0.0, errors, updates)
