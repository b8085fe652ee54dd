"""Compiled decision and update of one step, equal number for number to exploration.py and algorithms.py.

All that these functions call is in this file, except the random numbers: numba's cache notices changes in one file
only. `inline` is left to LLVM, except for the draws. No fastmath: it would change the last bits.
"""

from __future__ import annotations

import math

import numpy as np

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import below, draw, uniform

# Indices into `numbers`
ALPHA, ALPHA_MIN, GAMMA, EPSILON, TEMPERATURE, UCB_C, LAMBDA, ERRORS = range(8)
NUMBERS = 8
# Indices into `marks`; the first five are those of engines.base.EngineState
KEY, COUNTER, PENDING_STATE, PENDING_ACTION, TRAIL_NEXT = range(5)
TRAIL_FIRST, TRAIL_LAST, ALGORITHM, EXPLORATION, BY_VISITS, N_STEP = range(5, 11)
MARKS = 11
# Codes of algorithms and explorations: their indices in options.ALGORITHMS and options.EXPLORATIONS
Q_LEARNING, SARSA, EXPECTED_SARSA, DOUBLE_Q_LEARNING, Q_LAMBDA, N_STEP_SARSA, MONTE_CARLO = range(7)
EPSILON_GREEDY, SOFTMAX, UCB = range(3)

NOWHERE = -1
MEAN = -1
TRACE_FLOOR = 1e-6
MOST_VISITS = 2**31 - 1


@njit(cache=True, nogil=True, error_model="numpy")
def _value(values, layer, state, action):  # type: ignore[no-untyped-def]
    if layer != MEAN:
        return np.float64(values[layer, state, action])
    if values.shape[0] == 1:
        return np.float64(values[0, state, action])
    return 0.5 * (np.float64(values[0, state, action]) + np.float64(values[1, state, action]))


@njit(cache=True, nogil=True, error_model="numpy")
def best_action(values, layer, state, legal):  # type: ignore[no-untyped-def]
    """Return the best action, the lowest on ties; NOWHERE where nothing is legal."""
    best, chosen = -np.inf, NOWHERE
    for action in range(values.shape[2]):
        if legal[action]:
            value = _value(values, layer, state, action)
            if chosen == NOWHERE or value > best:
                best, chosen = value, action
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def _score(values, visits, numbers, ucb, log_total, state, action):  # type: ignore[no-untyped-def]
    """Return the number that greedy choice compares: the value, or with ucb its upper bound."""
    value = _value(values, MEAN, state, action)
    if not ucb:
        return value
    count = visits[state, action]
    return value + numbers[UCB_C] * math.sqrt(log_total / count) if count > 0 else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _log_total(visits, state):  # type: ignore[no-untyped-def]
    total = 0
    for action in range(visits.shape[1]):
        total += visits[state, action]
    return math.log(np.float64(total)) if total > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _nth_legal(legal, n):  # type: ignore[no-untyped-def]
    for action in range(legal.shape[0]):
        if legal[action]:
            if n == 0:
                return action
            n -= 1
    return NOWHERE


@njit(cache=True, nogil=True, error_model="numpy")
def _any_best(values, visits, numbers, ucb, state, legal, bits):  # type: ignore[no-untyped-def]
    log_total = _log_total(visits, state) if ucb else 0.0
    best, ties, chosen = -np.inf, 0, NOWHERE
    for action in range(legal.shape[0]):
        if legal[action]:
            score = _score(values, visits, numbers, ucb, log_total, state, action)
            if ties == 0 or score > best:
                best, ties, chosen = score, 1, action
            elif score == best:
                ties += 1
    if ties < 2:
        return chosen
    skip = below(bits, ties)
    for action in range(chosen, legal.shape[0]):
        if legal[action] and _score(values, visits, numbers, ucb, log_total, state, action) == best:
            if skip == 0:
                return action
            skip -= 1
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def _by_weight(values, temperature, state, legal, chance):  # type: ignore[no-untyped-def]
    best = _value(values, MEAN, state, best_action(values, MEAN, state, legal))
    whole = 0.0
    for action in range(legal.shape[0]):
        if legal[action]:
            whole += math.exp((_value(values, MEAN, state, action) - best) / temperature)
    threshold, reached, chosen = chance * whole, 0.0, NOWHERE
    for action in range(legal.shape[0]):
        if legal[action]:
            weight = math.exp((_value(values, MEAN, state, action) - best) / temperature)
            reached += weight
            if weight > 0.0 or chosen == NOWHERE:
                chosen = action
            if reached > threshold:
                break
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def _decide(values, visits, numbers, marks, state, legal):  # type: ignore[no-untyped-def]
    """Choose an action with two draws, needed or not; where nothing is legal, return NOWHERE without a draw."""
    count = 0
    for action in range(legal.shape[0]):
        count += legal[action]
    if count == 0:
        return NOWHERE
    key, counter = np.uint64(marks[KEY]), np.uint64(marks[COUNTER])
    first, second = draw(key, counter), draw(key, counter + np.uint64(1))
    marks[COUNTER] += 2
    if marks[EXPLORATION] == SOFTMAX:
        return _by_weight(values, numbers[TEMPERATURE], state, legal, uniform(first))
    if marks[EXPLORATION] == UCB:
        return _any_best(values, visits, numbers, True, state, legal, second)
    if uniform(first) < numbers[EPSILON]:
        return _nth_legal(legal, below(second, count))
    return _any_best(values, visits, numbers, False, state, legal, second)


@njit(cache=True, nogil=True, error_model="numpy")
def select(values, visits, numbers, marks, state, legal):  # type: ignore[no-untyped-def]
    pending_state, action = marks[PENDING_STATE], marks[PENDING_ACTION]
    marks[PENDING_STATE] = marks[PENDING_ACTION] = NOWHERE
    if pending_state == state and legal[action]:
        return action
    return _decide(values, visits, numbers, marks, state, legal)


@njit(cache=True, nogil=True, error_model="numpy")
def _expected(values, visits, numbers, marks, state, legal):  # type: ignore[no-untyped-def]
    best = _value(values, MEAN, state, best_action(values, MEAN, state, legal))
    total, whole = 0.0, 0.0
    if marks[EXPLORATION] == EPSILON_GREEDY:
        for action in range(legal.shape[0]):
            if legal[action]:
                total += _value(values, MEAN, state, action)
                whole += 1.0
        return numbers[EPSILON] * (total / whole) + (1.0 - numbers[EPSILON]) * best
    if marks[EXPLORATION] == SOFTMAX:
        for action in range(legal.shape[0]):
            if legal[action]:
                value = _value(values, MEAN, state, action)
                weight = math.exp((value - best) / numbers[TEMPERATURE])
                total += weight * value
                whole += weight
        return total / whole
    log_total, highest = _log_total(visits, state), -np.inf
    for action in range(legal.shape[0]):
        if legal[action]:
            highest = max(highest, _score(values, visits, numbers, True, log_total, state, action))
    for action in range(legal.shape[0]):
        if legal[action] and _score(values, visits, numbers, True, log_total, state, action) == highest:
            total += _value(values, MEAN, state, action)
            whole += 1.0
    return total / whole


@njit(cache=True, nogil=True, error_model="numpy")
def _rate(visits, numbers, marks, state, action):  # type: ignore[no-untyped-def]
    count = visits[state, action]
    if count < MOST_VISITS:
        count += 1
        visits[state, action] = count
    return max(1.0 / count, numbers[ALPHA_MIN]) if marks[BY_VISITS] else numbers[ALPHA]


@njit(cache=True, nogil=True, error_model="numpy")
def _learn(values, visits, numbers, marks, layer, state, action, target):  # type: ignore[no-untyped-def]
    value = np.float64(values[layer, state, action])
    error = target - value
    values[layer, state, action] = value + _rate(visits, numbers, marks, state, action) * error
    return error


@njit(cache=True, nogil=True, error_model="numpy")
def _decide_ahead(values, visits, numbers, marks, next_state, next_legal):  # type: ignore[no-untyped-def]
    action = _decide(values, visits, numbers, marks, next_state, next_legal)
    marks[PENDING_STATE], marks[PENDING_ACTION] = next_state, action
    return action


@njit(cache=True, nogil=True, error_model="numpy")
def _forget_ahead(marks):  # type: ignore[no-untyped-def]
    marks[PENDING_STATE] = marks[PENDING_ACTION] = NOWHERE


@njit(cache=True, nogil=True, error_model="numpy")
def learn_one(  # type: ignore[no-untyped-def]
    values, visits, numbers, marks, state, action, reward, next_state, terminated, truncated, next_legal
):
    """Learn a step by an algorithm that looks one step ahead."""
    if not terminated and _nth_legal(next_legal, 0) == NOWHERE:
        return np.nan
    _forget_ahead(marks)
    algorithm, layer, ahead = marks[ALGORITHM], np.int64(0), 0.0
    if algorithm == DOUBLE_Q_LEARNING:
        layer = np.int64(draw(np.uint64(marks[KEY]), np.uint64(marks[COUNTER])) >> np.uint64(63))
        marks[COUNTER] += 1
    if not terminated:
        if algorithm == SARSA:
            ahead = np.float64(
                values[0, next_state, _decide_ahead(values, visits, numbers, marks, next_state, next_legal)]
            )
        elif algorithm == EXPECTED_SARSA:
            ahead = _expected(values, visits, numbers, marks, next_state, next_legal)
        elif algorithm == DOUBLE_Q_LEARNING:
            ahead = np.float64(values[1 - layer, next_state, best_action(values, layer, next_state, next_legal)])
        else:
            ahead = np.float64(values[0, next_state, best_action(values, 0, next_state, next_legal)])
    if truncated:
        _forget_ahead(marks)
    return _learn(values, visits, numbers, marks, layer, state, action, reward + numbers[GAMMA] * ahead)


@njit(cache=True, nogil=True, error_model="numpy")
def learn_many(  # type: ignore[no-untyped-def]
    values, visits, numbers, marks, states, actions, rewards, next_states, terminated, truncated, next_legal, errors
):
    """Learn steps one after the other, so that a repeated pair learns twice."""
    for i in range(states.shape[0]):
        errors[i] = learn_one(
            values,
            visits,
            numbers,
            marks,
            states[i],
            actions[i],
            rewards[i],
            next_states[i],
            terminated[i],
            truncated[i],
            next_legal[i],
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _clear_trail(marks):  # type: ignore[no-untyped-def]
    marks[TRAIL_FIRST] = marks[TRAIL_LAST] = 0
    marks[TRAIL_NEXT] = NOWHERE


@njit(cache=True, nogil=True, error_model="numpy")
def _add_to_trail(marks, pairs, trail, trail_legal, state, action, number, next_state, next_legal):  # type: ignore[no-untyped-def]
    last = marks[TRAIL_LAST]
    pairs[last, 0], pairs[last, 1], trail[last] = state, action, number
    marks[TRAIL_LAST], marks[TRAIL_NEXT] = last + 1, next_state
    for i in range(next_legal.shape[0]):
        trail_legal[i] = next_legal[i]


@njit(cache=True, nogil=True, error_model="numpy")
def learn_on_trail(  # type: ignore[no-untyped-def]
    values,
    visits,
    numbers,
    marks,
    pairs,
    trail,
    trail_legal,
    state,
    action,
    reward,
    next_state,
    terminated,
    truncated,
    next_legal,
):
    """Learn a step by an algorithm that remembers earlier steps; the trail must have a free entry at its end."""
    if not terminated and _nth_legal(next_legal, 0) == NOWHERE:
        return np.nan
    _forget_ahead(marks)
    gamma, ended, error = numbers[GAMMA], terminated or truncated, 0.0
    if marks[TRAIL_NEXT] != state:
        _clear_trail(marks)
    if marks[ALGORITHM] == Q_LAMBDA:
        value = np.float64(values[0, state, action])
        if marks[TRAIL_LAST] > 0 and value < np.float64(values[0, state, best_action(values, 0, state, trail_legal)]):
            _clear_trail(marks)
        fade = gamma * numbers[LAMBDA]
        for i in range(marks[TRAIL_FIRST], marks[TRAIL_LAST]):
            trail[i] = 0.0 if pairs[i, 0] == state and pairs[i, 1] == action else trail[i] * fade
        _add_to_trail(marks, pairs, trail, trail_legal, state, action, 1.0, next_state, next_legal)
        while trail[marks[TRAIL_FIRST]] < TRACE_FLOOR:
            marks[TRAIL_FIRST] += 1
        ahead = 0.0
        if not terminated:
            ahead = np.float64(values[0, next_state, best_action(values, 0, next_state, next_legal)])
        error = reward + gamma * ahead - value
        move = _rate(visits, numbers, marks, state, action) * error
        for i in range(marks[TRAIL_FIRST], marks[TRAIL_LAST]):
            if trail[i] > 0.0:
                s, a = pairs[i, 0], pairs[i, 1]
                values[0, s, a] = np.float64(values[0, s, a]) + move * trail[i]
    elif marks[ALGORITHM] == N_STEP_SARSA:
        _add_to_trail(marks, pairs, trail, trail_legal, state, action, reward, next_state, next_legal)
        follower = NOWHERE
        if not terminated:
            follower = _decide_ahead(values, visits, numbers, marks, next_state, next_legal)
        while marks[TRAIL_FIRST] < marks[TRAIL_LAST]:
            if not ended and marks[TRAIL_LAST] - marks[TRAIL_FIRST] < marks[N_STEP]:
                break
            target = 0.0 if terminated else np.float64(values[0, next_state, follower])
            for i in range(marks[TRAIL_LAST] - 1, marks[TRAIL_FIRST] - 1, -1):
                target = trail[i] + gamma * target
            s, a = pairs[marks[TRAIL_FIRST], 0], pairs[marks[TRAIL_FIRST], 1]
            error = _learn(values, visits, numbers, marks, 0, s, a, target)
            marks[TRAIL_FIRST] += 1
    else:
        _add_to_trail(marks, pairs, trail, trail_legal, state, action, reward, next_state, next_legal)
        if ended:
            target = 0.0
            if not terminated:
                target = np.float64(values[0, next_state, best_action(values, 0, next_state, next_legal)])
            for i in range(marks[TRAIL_LAST] - 1, marks[TRAIL_FIRST] - 1, -1):
                target = trail[i] + gamma * target
                error = _learn(values, visits, numbers, marks, 0, pairs[i, 0], pairs[i, 1], target)
    if ended:
        _clear_trail(marks)
        _forget_ahead(marks)
    return error
