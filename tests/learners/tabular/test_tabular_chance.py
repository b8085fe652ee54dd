"""The random numbers are the same wherever they are computed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.envs.compiled import random as chance_compiled
from mosaic.learners.tabular import random as chance

words_64 = st.integers(0, chance.WORD)


@given(words_64, words_64, st.integers(1, 2**31 - 1))
@settings(max_examples=200, deadline=None)  # the first call compiles
def test_python_numpy_and_numba_agree(key: int, counter: int, n: int) -> None:
    bits = chance.draw(key, counter)
    compiled = chance_compiled.draw(np.uint64(key), np.uint64(counter))
    array = chance.draw_array(key, np.array([counter], np.uint64))
    assert bits == int(compiled) == int(array[0])
    assert 0.0 <= chance.uniform(bits) < 1.0
    assert chance.uniform(bits) == chance_compiled.uniform(np.uint64(bits))
    assert 0 <= chance.below(bits, n) < n
    assert chance.below(bits, n) == chance_compiled.below(np.uint64(bits), n)


def test_splitmix64_known_answers() -> None:
    """The generator's published sequence for seed 1234567; its n-th word is our counter n."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [chance.draw(1234567, counter) for counter in range(1, 6)] == known


def test_numbers_are_even() -> None:
    bits = chance.draw_array(chance.stream(3, "x"), np.arange(100_000, dtype=np.uint64))
    words = bits.tolist()
    assert abs(np.mean([chance.uniform(word) for word in words]) - 0.5) < 0.005
    counts = np.bincount([chance.below(word, 7) for word in words], minlength=7)
    assert ((counts - 100_000 / 7) ** 2 / (100_000 / 7)).sum() < 30  # chi-squared, 6 degrees


def test_streams_differ_by_name_and_seed() -> None:
    assert len({chance.stream(0, "a"), chance.stream(0, "b"), chance.stream(1, "a")}) == 3
