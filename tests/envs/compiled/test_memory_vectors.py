"""Memory tasks by the thousand: step by step what the Python env does from equal states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import make_compiled_vector
from tests.envs.compiled.lockstep import unwrapped, walk

TASKS = [
    ("mosaic/recall", {}),
    ("mosaic/recall", {"delay": 0, "cues": 5}),
    ("mosaic/repeat_previous", {}),
    ("mosaic/repeat_previous", {"lag": 1, "symbols": 2, "questions": 3}),
    ("mosaic/reverse_sequence", {}),
    ("mosaic/reverse_sequence", {"length": 1, "symbols": 7}),
    ("mosaic/count_recall", {}),
    ("mosaic/count_recall", {"symbols": 5, "copies": 1}),
]
COUNT_WITHOUT_MEMORY = 5 / 18
STEPS = 60  # of 8 envs


def load(raw, state):
    raw.state = state.copy()


@pytest.mark.parametrize(("env_id", "options"), TASKS)
def test_a_walk_is_the_references(env_id, options):
    def guess(rng, obs):
        return rng.integers(2, size=(len(obs), 1)).astype(np.float32)

    tally = walk(env_id, 8, STEPS, guess, load, options=options)
    assert tally.terminated > 8
    assert tally.truncated == 0


@pytest.mark.parametrize(("env_id", "options"), TASKS)
def test_right_answers_pay_one_in_all_and_only_chance_decides_the_rest(env_id, options):
    vector = make_compiled_vector(EnvironmentConfig(env_id=env_id, options=options), 300)
    task = unwrapped(make_env(env_id, **options))
    vector.reset(1)
    begun = vector.state.copy()
    paid = np.zeros(300)
    for _ in range(task.rules.steps):
        answers = []
        for state in vector.state:
            load(task, state)
            answers.append([max(task.answer(), 0)])
        vector.step(np.array(answers, np.float32))
        paid += vector.rew
    assert vector.term.all()
    np.testing.assert_allclose(paid, 1.0, atol=1e-5)
    shares = np.bincount(begun[:, 1:].astype(int).ravel(), minlength=task.rules.symbols) / begun[:, 1:].size
    np.testing.assert_allclose(shares, 1 / task.rules.symbols, atol=0.08)
    assert (vector.state != begun).any()  # a new episode has new symbols


def test_a_deck_is_shuffled():
    vector = make_compiled_vector(EnvironmentConfig(env_id="mosaic/count_recall"), 500)
    vector.reset(0)
    decks = vector.state[:, 1:10]
    assert (np.sort(decks, axis=1) == np.repeat(np.arange(3), 3)).all()
    for place in range(9):  # each symbol is equally likely in each place
        np.testing.assert_allclose(np.bincount(decks[:, place].astype(int)) / 500, 1 / 3, atol=0.08)


def test_without_memory_counting_pays_little():
    """The best constant answers to "the card that is shown" and "another symbol", over all decks."""
    symbols, copies, steps = 3, 3, 9
    counts, before = np.arange(copies + 1), np.arange(steps)[:, None]  # cards that were shown before
    same = hypergeom.pmf(counts - 1, steps - 1, copies - 1, before).sum(0).max()
    other = hypergeom.pmf(counts, steps - 1, copies, before).sum(0).max()
    best = (same / symbols + other * (symbols - 1) / symbols) / steps
    assert best == pytest.approx(COUNT_WITHOUT_MEMORY, abs=1e-9)


def test_wrappers_have_no_kernel():
    assert find_kernel(EnvironmentConfig(env_id="mosaic/repeat_previous", wrappers=("flatten",))) is None
