"""Every step of an order is granted, taken and settled once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import MosaicError
from mosaic.runtimes.mpi.steps import SMALLEST_PIECE, Budget, Grant


@given(
    steps=st.integers(1, 3_000_000),
    episodes=st.integers(0, 300),
    learners=st.integers(1, 5),
    largest=st.integers(10_000, 10**6),
    data=st.data(),
)
def test_nothing_is_lost_and_nothing_is_taken_twice(steps, episodes, learners, largest, data):
    budget = Budget(steps, episodes, learners, largest)
    out: list[Grant] = []
    taken = ended = 0
    while not budget.done:
        grant = budget.grant() if not out or data.draw(st.booleans()) else None
        if grant:
            assert 1 <= grant.steps <= largest
            assert grant.episodes >= 1 if episodes else grant.episodes == 0
            out.append(grant)
            assert taken + sum(each.steps for each in out) <= steps
        elif out:
            oldest = out.pop(0)
            enough = episodes > 0 and data.draw(st.booleans())
            took = data.draw(st.integers(1, oldest.steps)) if enough else oldest.steps
            ends = oldest.episodes if enough else 0
            budget.settle(oldest, took, ends)
            taken, ended = taken + took, ended + ends
    assert out == []
    assert budget.grant() is None
    if episodes:
        assert ended <= episodes
        assert ended == episodes or taken == steps
        assert taken <= steps
    else:
        assert taken == steps


def test_pieces_get_smaller_towards_the_end_but_not_tiny():
    budget, sizes = Budget(8_000_000, 0, 2, 10**9), []
    while grant := budget.grant():
        sizes.append(grant.steps)
    assert sizes[0] == 1_000_000
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert min(sizes[:-1]) == SMALLEST_PIECE


@pytest.mark.parametrize(("limit", "steps", "episodes"), [(0, 9, 0), (0, 11, 0), (2, 9, 0), (2, 10, 3)])
def test_steps_that_do_not_add_up_are_refused(limit, steps, episodes):
    budget = Budget(10, limit, 1, 100)
    grant = budget.grant()
    assert grant is not None
    with pytest.raises(MosaicError, match=rf"A learner took {steps} of 10 steps .* the counts do not match"):
        budget.settle(grant, steps, episodes)
