"""Merging loses no visit, counts none twice, and invents no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mosaic.core.errors import MosaicError
from mosaic.runtimes.merging import Delta, apply, combine, delta, merge

SHAPE = (4, 3)
A_FEW = st.integers(0, 5)
NUMBERS = st.floats(-1e6, 1e6, width=32)


@st.composite
def trained_apart(draw: st.DrawFn, workers: st.SearchStrategy[int] = A_FEW) -> tuple[Any, list[Any], Any, list[Any]]:
    """A base and what workers made of it: an entry's value changes only where it was visited."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    count_dtype = draw(st.sampled_from([np.int64, np.uint32]))
    base = draw(hnp.arrays(dtype, SHAPE, elements=NUMBERS))
    visits_base = draw(hnp.arrays(count_dtype, SHAPE, elements=st.integers(0, 1000)))
    tables, visits = [], []
    for _ in range(draw(workers)):
        new = draw(hnp.arrays(count_dtype, SHAPE, elements=st.one_of(st.just(0), st.integers(0, 50))))
        value = draw(hnp.arrays(dtype, SHAPE, elements=NUMBERS))
        tables.append(np.where(new > 0, value, base))
        visits.append(visits_base + new)
    return base, tables, visits_base, visits


@given(trained_apart())
def test_every_visit_is_counted_once(case: Any) -> None:
    base, tables, visits_base, visits = case
    _, merged = merge(base, tables, visits_base, visits)
    new = [count.astype(np.int64) - visits_base.astype(np.int64) for count in visits]
    np.testing.assert_array_equal(merged, visits_base + sum(new, np.zeros(SHAPE, np.int64)))
    assert merged.dtype == visits_base.dtype


@given(trained_apart())
def test_values_follow_who_came_by(case: Any) -> None:
    base, tables, visits_base, visits = case
    merged, _ = merge(base, tables, visits_base, visits)
    assert merged.dtype == base.dtype
    for entry in np.ndindex(*SHAPE):
        came = [
            (float(table[entry]), int(count[entry]) - int(visits_base[entry]))
            for table, count in zip(tables, visits, strict=True)
            if count[entry] != visits_base[entry]
        ]
        values = [value for value, _ in came]
        if not came:
            assert merged[entry] == base[entry]
        elif len(set(values)) == 1:
            assert merged[entry] == values[0]
        else:
            expected = sum(value * count for value, count in came) / sum(count for _, count in came)
            # values of both signs may cancel: the rounding is that of the largest of them
            assert merged[entry] == pytest.approx(expected, rel=1e-6, abs=1e-9 * max(map(abs, values)))
            assert min(values) <= merged[entry] <= max(values)


@given(trained_apart(), st.randoms(use_true_random=False))
def test_order_does_not_matter(case: Any, random: Any) -> None:
    base, tables, visits_base, visits = case
    order = list(range(len(tables)))
    random.shuffle(order)
    values, counts = merge(base, tables, visits_base, visits)
    again, counts_again = merge(base, [tables[i] for i in order], visits_base, [visits[i] for i in order])
    np.testing.assert_array_equal(counts, counts_again)
    largest = max((float(np.abs(table).max()) for table in tables), default=0.0)
    np.testing.assert_allclose(values, again, rtol=1e-6, atol=1e-9 * largest)
    if len(tables) == 2:
        np.testing.assert_array_equal(values, again)


@given(trained_apart(workers=st.just(1)))
def test_one_worker_alone_keeps_its_table(case: Any) -> None:
    base, tables, visits_base, visits = case
    values, counts = merge(base, tables, visits_base, visits)
    np.testing.assert_array_equal(values, tables[0])
    np.testing.assert_array_equal(counts, visits[0])


@given(trained_apart(workers=st.integers(1, 5)))
def test_a_delta_carries_the_whole_change_and_nothing_else(case: Any) -> None:
    base, tables, visits_base, visits = case
    change = delta(base, visits_base, tables[0], visits[0])
    assert change.indices.size == np.count_nonzero(visits[0] != visits_base)
    assert (change.counts > 0).all()
    values, counts = apply(base, visits_base, change)
    np.testing.assert_array_equal(values, tables[0])
    np.testing.assert_array_equal(counts, visits[0])


@given(trained_apart())
def test_the_base_is_left_as_it_was(case: Any) -> None:
    base, tables, visits_base, visits = case
    before = base.copy(), visits_base.copy()
    values, counts = merge(base, tables, visits_base, visits)
    values += 1
    counts += 1
    np.testing.assert_array_equal(base, before[0])
    np.testing.assert_array_equal(visits_base, before[1])


def test_an_entry_that_only_one_saw_is_not_pulled_to_the_base() -> None:
    base, none = np.zeros(2), np.zeros(2, np.int64)
    values, counts = merge(
        base, [np.array([1.0, 4.0]), np.array([0.0, 1.0])], none, [np.array([7, 1]), np.array([0, 2])]
    )
    np.testing.assert_array_equal(values, [1.0, 2.0])
    np.testing.assert_array_equal(counts, [7, 3])


def test_an_illegal_action_may_hold_minus_infinity() -> None:
    base, none = np.array([-np.inf, 0.0]), np.zeros(2, np.int64)
    table = np.array([-np.inf, 1.0])
    values, _ = merge(base, [table, table], none, [np.array([0, 1]), np.array([0, 1])])
    np.testing.assert_array_equal(values, [-np.inf, 1.0])


def test_no_deltas_change_nothing() -> None:
    assert combine([]).indices.size == 0


def test_tables_that_disagree_are_refused() -> None:
    table, visits = np.zeros((2, 2)), np.ones((2, 2), np.int64)
    with pytest.raises(MosaicError, match=r"Only tables of one shape can be merged, not \(2, 2\), \(2, 2\), \(3, 2\)"):
        merge(table, [np.zeros((3, 2))], visits, [np.ones((3, 2), np.int64)])
    with pytest.raises(MosaicError, match="Tables of different types cannot be merged: float64, float32"):
        merge(table, [table.astype(np.float32)], visits, [visits])
    with pytest.raises(MosaicError, match="fewer visits than the base it should have started from"):
        merge(table, [table], visits, [visits - 1])
    with pytest.raises(MosaicError, match="There are 1 tables and 2 visit counts"):
        merge(table, [table], visits, [visits, visits])
    with pytest.raises(MosaicError, match="reaches entry 9 of a table with 4"):
        apply(table, visits, Delta(np.array([9]), np.array([1.0]), np.array([1])))
