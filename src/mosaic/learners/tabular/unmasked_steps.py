"""Steps of Q-learning with epsilon-greedy exploration where every action is legal: one Python function per step.

Number for number what algorithms.py and exploration.py say, without their calls, which cost more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

from mosaic.learners.tabular.chance import TO_UNIT
from mosaic.learners.tabular.experience import ENDED
from mosaic.learners.tabular.table import MOST_VISITS, ListTable

if TYPE_CHECKING:
    from mosaic.learners.tabular.python_engine import PythonEngine
    from mosaic.learners.tabular.table import ArrayTable

# state, action, reward, next state, terminated, truncated; the next action, or why there is none
Advance: TypeAlias = Callable[[int, int, float, int, bool, bool], int]


def make_advance(engine: PythonEngine, table: ListTable | ArrayTable) -> Advance:
    """Return `learn_and_select` without a mask, for a table of one layer and a constant learning rate."""
    rate, discount = engine.options.learning_rate, engine.options.discount_factor
    actions = range(table.actions)
    number = len(actions)

    def decide(row: list[float]) -> int:
        """As exploration.choose."""
        place = engine.draw_two()
        words, rule = engine.words, engine.rule
        if (words[place] >> 11) * TO_UNIT < rule.epsilon:
            return ((words[place + 1] >> 32) * number) >> 32
        best = max(row)
        count = row.count(best)
        if count == 1:
            return row.index(best)
        ties = [action for action in actions if row[action] == best]
        return ties[((words[place + 1] >> 32) * count) >> 32]

    if isinstance(table, ListTable):
        lists, counts, cell = table.layer, table.counts, table.cell

        def advance(s: int, a: int, reward: float, after: int, terminated: bool, truncated: bool) -> int:
            row, ahead = lists[s], lists[after]
            value = row[a]
            error = reward + discount * (0.0 if terminated else max(ahead)) - value
            if not isfinite(error):
                return engine.learn_and_select(s, a, reward, after, terminated, truncated, None)
            visits = counts[s]
            if visits[a] < MOST_VISITS:
                visits[a] += 1
            cell[0] = value + rate * error
            row[a] = cell[0]
            engine.error_sum += abs(error)
            return ENDED if terminated or truncated else decide(ahead)

        return advance
    layer, tries = table.layer, table.counts
    read, read_tries = layer.item, tries.item

    def advance_in_arrays(s: int, a: int, reward: float, after: int, terminated: bool, truncated: bool) -> int:
        value = read(s, a)
        ahead: list[float] = layer[after].tolist()
        error = reward + discount * (0.0 if terminated else max(ahead)) - value
        if not isfinite(error):
            return engine.learn_and_select(s, a, reward, after, terminated, truncated, None)
        count = read_tries(s, a)
        if count < MOST_VISITS:
            tries[s, a] = count + 1
        layer[s, a] = value + rate * error
        engine.error_sum += abs(error)
        if terminated or truncated:
            return ENDED
        if s == after:
            ahead[a] = read(s, a)
        return decide(ahead)

    return advance_in_arrays
