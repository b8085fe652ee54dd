"""Copies follow one original, in whatever order the messages come: no visit is lost, none is counted twice."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import MosaicError
from mosaic.runtimes.merging import merge
from mosaic.runtimes.mpi.server import Copy, Learned, Original, absorb

SHAPE = (6, 3)


def new_table():
    return np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.int32)


def learn(table, random, steps):
    """Anything that moves visited values and counts the visits."""
    values, visits = table
    for _ in range(steps):
        at = tuple(random.integers(SHAPE))
        values[at] += 0.5 * (random.uniform(-1, 1) - values[at])
        visits[at] += 1


@given(seed=st.integers(0, 2**32 - 1), copies=st.integers(1, 3), moves=st.lists(st.integers(0, 3), max_size=60))
def test_any_order_of_messages_keeps_every_visit(seed, copies, moves):
    random = np.random.default_rng(seed)
    kept, tables = new_table(), [new_table() for _ in range(copies)]
    original, followers = Original(*kept, copies), [Copy(*table) for table in tables]
    told, answered = [deque() for _ in tables], [deque() for _ in tables]
    taken = 0

    def receive(number):
        original.absorb(told[number].popleft())
        answered[number].append(original.changes(number))

    for move in moves:
        number = int(random.integers(copies))
        steps = int(random.integers(1, 8))
        if move == 0:
            learn(kept, random, steps)
            taken += steps
        elif move == 1:
            learn(tables[number], random, steps)
            taken += steps
            told[number].append(followers[number].tell())
        elif move == 2 and told[number]:
            receive(number)
        elif move == 3 and answered[number]:
            followers[number].hear(answered[number].popleft(), answers=True)
        assert int(kept[1].sum()) <= taken
        assert np.abs(kept[0]).max() <= 1
    for number in range(copies):
        while told[number]:
            receive(number)
    assert int(kept[1].sum()) == taken
    for number, follower in enumerate(followers):
        while answered[number]:
            follower.hear(answered[number].popleft(), answers=True)
        follower.hear(original.changes(number), answers=False)
        np.testing.assert_array_equal(tables[number][0], kept[0])
        np.testing.assert_array_equal(tables[number][1], kept[1])
        assert original.changes(number).indices.size == 0


@given(seed=st.integers(0, 2**32 - 1))
def test_copies_of_one_base_told_one_after_the_other_are_merged(seed):
    random = np.random.default_rng(seed)
    kept, tables = new_table(), [new_table() for _ in range(3)]
    original, followers = Original(*kept, 3), [Copy(*table) for table in tables]
    for table in tables:
        learn(table, random, 20)
    expected = merge(*_interleaved(new_table(), tables))
    for follower in followers:
        original.absorb(follower.tell())
    np.testing.assert_allclose(kept[0], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(kept[1], expected[1])


def _interleaved(base, tables):
    return base[0], [values for values, _ in tables], base[1], [visits for _, visits in tables]


def test_a_value_that_nobody_else_touched_stands_exactly():
    kept, table = new_table(), new_table()
    original, copy = Original(*kept, 1), Copy(*table)
    table[0][2, 1], table[1][2, 1] = 0.1, 3
    kept[0][0, 0], kept[1][0, 0] = 0.7, 1
    original.absorb(copy.tell())
    assert kept[0][2, 1] == np.float32(0.1)
    assert kept[0][0, 0] == np.float32(0.7)


def test_the_table_of_another_run_is_refused():
    values, visits = np.zeros(4, np.float32), np.zeros(4, np.int32)
    one = np.ones(1, np.int64)
    with pytest.raises(MosaicError, match="reports entry 9 of a table with 4: the tables differ"):
        absorb(values, visits, Learned(9 * one, np.ones(1, np.float32), one, 0 * one))
    with pytest.raises(MosaicError, match="reports visits that the table has not seen"):
        absorb(values, visits, Learned(one, np.ones(1, np.float32), one, one))
