"""A table that grows as states are met learns what a table of all states learns, to the last bit."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiBinary
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.codes import space_code
from mosaic.learners.tabular.hashed.learner import (
    HashedLearner,
    collision_odds,
    describe_keys,
    is_exact,
    keys_file,
    keys_of,
)
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import ALGORITHMS, TabularOptions

STATES, ACTIONS = 40, 3
FAR = 2**63  # keys are spread over all 64 bits


def options(**more):
    return TabularOptions(**{"table_engine": "list", "dtype": "float64", "epsilon": 0.5, **more})


def walk(learner, row, steps, seed=3):
    """The same steps for every learner that chooses the same actions."""
    random = np.random.default_rng(seed)
    state, errors = 0, []
    for number in range(steps):
        action = learner.select_action(row(state))
        following = int(random.integers(STATES))
        ended = number % 7 == 6
        errors.append(learner.update(row(state), action, float(random.normal()), row(following), ended))
        state = 0 if ended else following
    return errors


@pytest.mark.parametrize("engine", ["list", "numpy"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_equals_a_table_of_all_states(algorithm, engine):
    chosen = options(table_engine=engine)
    dense = TabularLearner(STATES, ACTIONS, algorithm, chosen, 5)
    hashed = HashedLearner(ACTIONS, algorithm, chosen, 5, rows=1)
    errors = walk(dense, int, 300)
    assert walk(hashed, lambda state: hashed.row(FAR + state), 300) == errors
    assert len(hashed) == STATES
    assert hashed.states == 64  # it grew six times on the way
    met = hashed.keys.astype(object) - FAR
    assert np.array_equal(hashed.values[: len(hashed)], dense.values[met.astype(int)])
    assert np.array_equal(hashed.visits[: len(hashed)], dense.visits[met.astype(int)])
    assert hashed.epsilon == dense.epsilon < 0.5


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_saved_in_the_middle_of_an_episode_it_goes_on_exactly(algorithm, tmp_path):
    whole = HashedLearner(ACTIONS, algorithm, options(), 5, rows=1)
    walk(whole, whole.row, 52)
    whole.save(tmp_path / "table.safetensors")
    loaded = HashedLearner.load(tmp_path / "table.safetensors")
    assert (len(loaded), loaded.states, loaded.episodes) == (len(whole), len(whole), whole.episodes)
    assert walk(loaded, loaded.row, 100, seed=9) == walk(whole, whole.row, 100, seed=9)
    assert np.array_equal(loaded.values[: len(loaded)], whole.values[: len(whole)])
    assert np.array_equal(loaded.keys, whole.keys)


def test_an_empty_table_can_be_kept_too(tmp_path):
    HashedLearner(ACTIONS, options=options()).save(tmp_path / "t.safetensors")
    loaded = HashedLearner.load(tmp_path / "t.safetensors")
    assert len(loaded) == 0
    assert [loaded.row(9), loaded.row(4), loaded.row(9)] == [0, 1, 0]
    assert loaded.find(5) is None


def test_keys_of_another_table_are_refused(tmp_path):
    for name, states in (("one", 3), ("other", 4)):
        learner = HashedLearner(ACTIONS, options=options())
        for state in range(states):
            learner.row(state)
        learner.save(tmp_path / f"{name}.safetensors")
    keys_file(tmp_path / "one.safetensors").replace(keys_file(tmp_path / "other.safetensors"))
    with pytest.raises(FormatError, match="does not hold one key for each of the 4 rows"):
        HashedLearner.load(tmp_path / "other.safetensors")


def test_where_memory_ends_it_says_so_and_keeps_what_it_has():
    learner = HashedLearner(ACTIONS, options=options(), rows=4, memory_limit=3000)
    for state in range(4):
        learner.row(state)
    learner.update(3, 1, 1.0, 2, True)
    before = learner.values.copy()
    with pytest.raises(
        InputError,
        match=r"hashed table of 8 rows × 3 actions needs 2,336 bytes; 1,832 are left by the limit beside the 1,168 "
        r"bytes that hold 4 states now\. Use fewer bins",
    ):
        learner.row(4)
    assert len(learner) == learner.states == 4
    assert np.array_equal(learner.values, before)


@given(st.integers(1, 200), st.data())
@settings(max_examples=50)
def test_a_key_is_the_code_or_a_hash_of_64_bits(bits, data):
    code = space_code(MultiBinary(bits), most=None)
    key = keys_of(code)
    digits = data.draw(st.lists(st.integers(0, 1), min_size=bits, max_size=bits))
    value = np.array(digits, np.int8)
    assert 0 <= key(value) < 2**64
    assert key(value) == key(value.copy())
    assert is_exact(code) == (bits <= 64)
    if is_exact(code):
        assert key(value) == code.encode(value)
    flipped = value.copy()
    flipped[-1] ^= 1
    assert key(flipped) != key(value)


def test_hashes_are_the_same_on_every_machine():
    key = keys_of(space_code(MultiBinary(65), most=None))
    assert key(np.ones(65, np.int8)) == 7186147930681192807


def test_the_log_is_told_what_the_keys_are():
    assert describe_keys(space_code(Discrete(5))) == "5 states, each with a key of its own"
    long = describe_keys(space_code(MultiBinary(100), most=None))
    assert "about 10^30 states, more than 64 bits can number, so each is known by a hash" in long
    assert "share one is 1 in 36,893," in long
    assert collision_odds(2) == 2.0**-64
    assert collision_odds(10**12) == 1.0
