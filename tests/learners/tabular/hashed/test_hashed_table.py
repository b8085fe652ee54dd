"""A hashed table is a dictionary of rows that grows, and says when it cannot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.learners.tabular.hashed.table import HashedTable, find, find_sorted

KEYS = st.integers(1, 2**64 - 1) | st.integers(1, 40) | st.integers(1, 40).map(lambda n: n << 58)


def written(table, row, number):
    table.rows.values[row], table.rows.visits[row] = number, number


@settings(deadline=None)  # the first call may compile
@given(st.lists(KEYS, max_size=300), st.sampled_from([1, 16, 64]))
def test_it_is_a_dictionary_of_rows(keys, capacity):
    table, model = HashedTable(3, capacity, initial_value=-1.0), {}
    for number, key in enumerate(keys):
        row = table.add(key)
        if key not in model:
            assert (table.rows.values[row] == -1.0).all()
            assert (table.rows.visits[row] == 0).all()
        else:
            assert (table.rows.values[row] == model[key]).all()
        written(table, row, number)
        model[key] = number
        assert len(table) == len(model) <= table.most_filled <= 0.6 * table.capacity
    assert table.capacity & (table.capacity - 1) == 0
    for key, number in model.items():
        assert (table.rows.values[table.find(key)] == number).all()
        assert (table.rows.visits[table.find(key)] == number).all()
    ordered = table.sorted_rows()
    assert ordered.keys.tolist() == sorted(model)
    assert ordered.values[:, 0].tolist() == [model[key] for key in sorted(model)]


@settings(deadline=None)  # the first call may compile
@given(st.sets(KEYS, max_size=100), st.sets(KEYS, max_size=100))
def test_a_key_that_was_never_added_is_not_there(added, others):
    table = HashedTable(1, 16)
    for key in added:
        table.add(key)
    before = len(table)
    ordered = table.sorted_rows()
    for key in others - added:
        assert table.find(key) is None
        assert find_sorted(ordered.keys, key) is None
    for key in added:
        assert ordered.keys[find_sorted(ordered.keys, key)] == key
    assert len(table) == before


@settings(deadline=None)  # the first call may compile
@given(st.lists(KEYS, unique=True, max_size=200), st.randoms())
def test_how_it_grew_does_not_show(keys, random):
    tables = []
    for capacity in (16, 1024):
        random.shuffle(keys)
        table = HashedTable(2, capacity)
        for key in keys:
            written(table, table.add(key), key % 1000)
        tables.append(table.sorted_rows())
    for one, other in zip(*tables, strict=True):
        assert np.array_equal(one, other)


@settings(deadline=None)  # the first call may compile
@given(st.lists(KEYS, unique=True, max_size=200))
def test_filled_again_it_is_the_same(keys):
    table = HashedTable(2, 16, "float64")
    for key in keys:
        written(table, table.add(key), key % 1000)
    saved = table.sorted_rows()
    again = HashedTable(2, 16, "float64")
    again.add(5)  # is gone afterwards, unless it was saved
    again.fill(saved.keys, saved.values, saved.visits)
    assert len(again) == len(table)
    for one, other in zip(again.sorted_rows(), saved, strict=True):
        assert np.array_equal(one, other)


def test_keys_in_a_row_are_spread():
    """The worst hash for linear probing would put all of them side by side."""
    table = HashedTable(1, 2**12)
    for key in range(1, table.most_filled + 1):
        table.add(key << 20)
    taken = table.rows.keys != 0
    runs = np.diff(np.flatnonzero(np.concatenate([[True], ~taken, [True]]))) - 1
    assert runs.max() < 100
    assert find(table.rows.keys, np.uint64(1)) == -1


def test_too_large_a_table_is_refused_and_nothing_is_lost():
    table = HashedTable(7, 16, memory_limit=64 * 48)  # a place takes 64 bytes: 16 and 32 side by side
    for key in range(1, 20):
        table.add(key)
    assert table.capacity == 32
    with pytest.raises(InputError) as caught:
        table.add(20)
    assert str(caught.value) == (
        "A hashed table of 64 places × 7 actions needs 4,096 bytes; 1,024 are left by the limit beside the 2,048 bytes "
        "that hold 19 states now. Train for fewer steps, explore less, use dtype float32, or a worker that learns a "
        "function instead of a table: --worker native"
    )
    assert len(table) == 19
    assert table.find(19) is not None
    with pytest.raises(InputError, match=r"of 65,536 places × 7 actions needs 4,194,304 bytes; 1,000 are left"):
        HashedTable(7, memory_limit=1000)
    with pytest.raises(InputError, match=r"2,251,799,813,685,248 places .* are free here\. Train"):
        HashedTable(7, 2**51)


@pytest.mark.parametrize("key", [0, -1, 2**64])
def test_a_key_is_64_bits_and_not_0(key):
    table = HashedTable(2)
    for ask in (table.add, table.find):
        with pytest.raises(InputError, match=rf"The key is {key}; it should be in 1\.\.2\*\*64-1"):
            ask(key)


def test_what_cannot_be_a_table_is_said():
    with pytest.raises(InputError, match="at least 1 action and 1 place, not 0 and 4"):
        HashedTable(0, 4)
    table = HashedTable(2)
    keys, visits = np.array([3, 2], np.uint64), np.zeros((2, 2), np.int32)
    with pytest.raises(InputError, match="not in increasing order"):
        table.fill(keys, np.zeros((2, 2), np.float32), visits)
    with pytest.raises(InputError, match=r"saved 'values' is float64 \(2, 2\), but this run's is float32 \(2, 2\)"):
        table.fill(keys, np.zeros((2, 2)), visits)
