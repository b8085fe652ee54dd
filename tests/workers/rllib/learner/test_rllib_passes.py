"""The order of minibatches, whatever the amounts of experience."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mosaic.workers.rllib.learner.balanced import cuts, parts_of, rounds
from mosaic.workers.rllib.learner.replay import rows_by_share

counts = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 50), min_size=1)


@given(counts)
def test_everybody_is_in_as_many_updates_as_it_has_minibatches(minibatches):
    seated = rounds(minibatches)
    assert Counter(name for names in seated for name in names) == minibatches
    assert len(seated) == max(minibatches.values())


@given(counts)
def test_nobody_is_twice_in_an_update_and_all_are_in_the_last(minibatches):
    seated = rounds(minibatches)
    assert all(len(set(names)) == len(names) > 0 for names in seated)
    assert set(seated[-1]) == set(minibatches)


def test_the_smaller_one_is_spread_evenly():
    assert rounds({"a": 6, "b": 2}) == [["a"], ["a"], ["a", "b"], ["a"], ["a"], ["a", "b"]]


@given(st.integers(1, 5000), st.integers(1, 600), st.integers(1, 60))
def test_a_pass_goes_through_every_row_once(rows, minibatch, grain):
    parts = parts_of(rows, minibatch, rows // grain or 1)
    pieces = cuts(rows, parts, grain)
    assert [row for start, end in pieces for row in range(start, end)] == list(range(rows))
    assert all(start % grain == 0 and end > start for start, end in pieces)


@given(st.integers(1, 5000), st.integers(1, 600))
def test_minibatches_are_about_as_large_as_asked(rows, minibatch):
    sizes = [end - start for start, end in cuts(rows, parts_of(rows, minibatch, rows))]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= max(1.5 * minibatch, 1.5)


def test_what_nobody_has_is_not_cut():
    assert parts_of(0.0, 128, 0) == 0
    assert parts_of(100.0, None, 100) == 1


@given(st.integers(1, 1000), st.dictionaries(st.sampled_from("abc"), st.integers(0, 10_000)))
def test_replay_draws_by_what_was_added(rows, added):
    drawn = rows_by_share(rows, added)
    assert set(drawn) == {name for name, count in added.items() if count}
    for name, number in drawn.items():
        assert abs(number - rows * added[name] / max(added.values())) <= 1
