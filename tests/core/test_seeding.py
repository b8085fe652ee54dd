"""One seed, named children, identical in any process."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.seeding import SEED_LIMIT, child_seed

names = st.lists(st.text(max_size=8), max_size=4)


@given(st.integers(0, 2**40), names)
def test_seeds_fit_every_env(seed, path):
    assert 0 <= child_seed(seed, *path) < SEED_LIMIT


@given(st.integers(0, 2**40), names, names)
def test_children_of_different_names_differ(seed, one, other):
    if one != other:
        assert child_seed(seed, *one) != child_seed(seed, *other)


def test_names_do_not_run_together():
    assert child_seed(0, "ab", "c") != child_seed(0, "a", "bc") != child_seed(0, "a/b", "c")


def test_another_process_with_another_hash_seed_agrees():
    code = "from mosaic.core.seeding import child_seed; print(child_seed(7, 'episode', 3))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "99"}
    )
    assert int(answer.stdout) == child_seed(7, "episode", 3) == 104122522
