"""Q-learning steps with epsilon-greedy exploration where every action is legal: one Python function per step.

Equal number for number to algorithms.py and exploration.py, without their calls, which cost more than the arithmetic.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mosaic.learners.tabular.engines.base import UnmaskedSteps, unmasked_steps
from mosaic.learners.tabular.experience import ENDED
from mosaic.learners.tabular.table import MOST_VISITS, ListTable

if TYPE_CHECKING:
    from mosaic.learners.tabular.engines.python import PythonEngine
    from mosaic.learners.tabular.table import ArrayTable


def quick_steps(engine: PythonEngine, table: ListTable | ArrayTable) -> UnmaskedSteps:
    """Return the steps for a table of one layer and a constant learning rate."""
    return _in_lists(engine, table) if isinstance(table, ListTable) else _in_arrays(engine, table)


def _in_lists(engine: PythonEngine, table: ListTable) -> UnmaskedSteps:
    rate, discount = engine.options.learning_rate, engine.options.discount_factor
    lists, counts, cell, rounds = table.layer, table.counts, table.cell, table.rounds
    number: int = table.actions
    random = engine.random
    plain = unmasked_steps(engine)

    def advance(s: int, a: int, reward: float, after: int) -> int:
        row, ahead = lists[s], lists[after]
        value, best = row[a], max(ahead)
        error = reward + discount * best - value
        if not isfinite(error):
            return plain.advance(s, a, reward, after)
        visits = counts[s]
        visits[a] += 1
        value += rate * error
        if rounds:
            cell[0] = value
            value = cell[0]
        row[a] = value
        engine.error_sum += abs(error)
        place = random.place if random.place < random.last_place else random.refill()
        random.place = place + 2
        words = random.words
        if words[place] < engine.explores_below:
            return ((words[place + 1] >> 32) * number) >> 32
        if s == after:
            best = max(ahead)
        ties = ahead.count(best)
        return ahead.index(best) if ties == 1 else _tied(ahead, best, ((words[place + 1] >> 32) * ties) >> 32)

    def end(s: int, a: int, reward: float, after: int, truncated: bool) -> int:
        row = lists[s]
        value = row[a]
        error = reward + discount * (max(lists[after]) if truncated else 0.0) - value
        if not isfinite(error):
            return plain.end(s, a, reward, after, truncated)
        visits = counts[s]
        visits[a] += 1
        value += rate * error
        if rounds:
            cell[0] = value
            value = cell[0]
        row[a] = value
        engine.error_sum += abs(error)
        return ENDED

    def restart(s: int, a: int, reward: float, after: int, truncated: bool, start: int) -> int:
        code = end(s, a, reward, after, truncated)
        return code if code != ENDED else _decide(engine, lists[start])

    return UnmaskedSteps(advance, end, restart)


def _decide(engine: PythonEngine, row: list[float]) -> int:
    """Choose an action like exploration.choose."""
    random = engine.random
    place = random.place if random.place < random.last_place else random.refill()
    random.place = place + 2
    words = random.words
    if words[place] < engine.explores_below:
        return ((words[place + 1] >> 32) * len(row)) >> 32
    best = max(row)
    ties = row.count(best)
    return row.index(best) if ties == 1 else _tied(row, best, ((words[place + 1] >> 32) * ties) >> 32)


def _tied(row: list[float], best: float, number: int) -> int:
    """Return the index of the n-th of equal best values."""
    action = row.index(best)
    for _ in range(number):
        action = row.index(best, action + 1)
    return action


def _in_arrays(engine: PythonEngine, table: ArrayTable) -> UnmaskedSteps:
    rate, discount = engine.options.learning_rate, engine.options.discount_factor
    layer, tries = table.layer, table.counts
    read, read_tries = layer.item, tries.item
    plain = unmasked_steps(engine)

    def learn(s: int, a: int, target: float) -> bool:
        """Learn the target; return whether the numbers are finite, else nothing has changed."""
        value = read(s, a)
        error = target - value
        if not isfinite(error):
            return False
        count = read_tries(s, a)
        if count < MOST_VISITS:
            tries[s, a] = count + 1
        layer[s, a] = value + rate * error
        engine.error_sum += abs(error)
        return True

    def advance(s: int, a: int, reward: float, after: int) -> int:
        ahead: list[float] = layer[after].tolist()
        if not learn(s, a, reward + discount * max(ahead)):
            return plain.advance(s, a, reward, after)
        if s == after:
            ahead[a] = read(s, a)
        return _decide(engine, ahead)

    def end(s: int, a: int, reward: float, after: int, truncated: bool) -> int:
        future = max(layer[after].tolist()) if truncated else 0.0
        return ENDED if learn(s, a, reward + discount * future) else plain.end(s, a, reward, after, truncated)

    def restart(s: int, a: int, reward: float, after: int, truncated: bool, start: int) -> int:
        code = end(s, a, reward, after, truncated)
        return code if code != ENDED else _decide(engine, layer[start].tolist())

    return UnmaskedSteps(advance, end, restart)
