"""The three engines are one: the same decisions, errors, tables and draws after every step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.learners.tabular.engines.base import StepBatch, TableEngine, first_snapshot, open_engine
from mosaic.learners.tabular.experience import ENDED, NOT_FINITE, TabularStep
from mosaic.learners.tabular.options import ALGORITHMS, EXPLORATIONS, Algorithm, Exploration, TabularOptions
from mosaic.learners.tabular.table import NARROW

STATES, ACTIONS = 4, 3
ENGINES = ("fused", "numpy", "list")

masks = st.lists(st.booleans(), min_size=ACTIONS, max_size=ACTIONS).map(lambda m: m if any(m) else [True] * ACTIONS)
rewards = st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-100, 100, allow_subnormal=False))
steps = st.tuples(
    masks,  # of the state
    st.sampled_from(["policy", "policy", "policy", 0, 1, 2]),  # who acts: mostly the policy, at times somebody else
    rewards,
    st.integers(0, STATES - 1),
    st.sampled_from(["goes on"] * 5 + ["terminated", "truncated"]),
    masks,  # of the next state
)
knobs = st.fixed_dictionaries(
    {
        "learning_rate": st.sampled_from([0.1, 1.0, 0.37]),
        "discount_factor": st.sampled_from([0.0, 0.9, 1.0]),
        "epsilon": st.sampled_from([0.0, 0.3, 1.0]),
        "temperature": st.sampled_from([0.05, 1.0]),
        "ucb_c": st.sampled_from([0.0, 1.5]),
        "lambda_": st.sampled_from([0.0, 0.05, 0.8, 1.0]),
        "n_step": st.integers(1, 4),
        "initial_value": st.sampled_from([0.0, 5.3]),
        "learning_rate_schedule": st.sampled_from(["constant", "visits"]),
        "learning_rate_min": st.sampled_from([0.0, 0.4]),
        "dtype": st.sampled_from(["float32", "float64"]),
    }
)


def engines(algorithm: Algorithm, options: dict[str, object], actions: int = ACTIONS) -> list[TableEngine]:
    made = []
    for name in ENGINES:
        each = TabularOptions.model_validate({**options, "table_engine": name})
        made.append(open_engine(first_snapshot(STATES, actions, algorithm, each, key=99), algorithm, each))
    return made


def assert_equal(parts: list[TableEngine]) -> None:
    fused, *others = (part.snapshot() for part in parts)
    for other in others:
        for name, mine, theirs in zip(fused._fields, fused, other, strict=True):
            if name != "trail_legal" or len(fused.trail_numbers):
                assert np.array_equal(mine, theirs), name
            assert mine.dtype == theirs.dtype


@pytest.mark.parametrize("exploration", EXPLORATIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(knobs, st.lists(steps, min_size=1, max_size=25))
@settings(max_examples=40, deadline=None)
def test_engines_are_equal_step_by_step(
    algorithm: Algorithm, exploration: Exploration, options: dict[str, object], played: list[tuple[object, ...]]
) -> None:
    parts = engines(algorithm, {**options, "exploration": exploration})
    state, legal = 0, np.ones(ACTIONS, np.bool_)
    for mask, actor, reward, next_state, end, next_mask in played:
        here = np.array(mask, np.bool_) if actor == "policy" else legal
        chosen = {part.select(state, here) for part in parts}
        assert len(chosen) == 1
        (action,) = chosen
        assert here[action]
        if actor != "policy":
            action = int(actor)  # type: ignore[call-overload]
        legal = np.array(next_mask, np.bool_)
        x = TabularStep(state, action, reward, next_state, end == "terminated", end == "truncated", legal)  # type: ignore[arg-type]
        errors = {part.learn(*x) for part in parts}
        assert len(errors) == 1
        assert_equal(parts)
        state = next_state  # type: ignore[assignment]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1), rewards, st.integers(0, 1), st.booleans(), masks),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=25, deadline=None)
def test_a_batch_is_a_sequence(algorithm: Algorithm, rows: list[tuple[int, int, float, int, bool, list[bool]]]) -> None:
    """Two states and two actions: most batches hold a pair twice."""
    options = {"epsilon": 0.3, "learning_rate_schedule": "visits"}
    for whole, single in zip(engines(algorithm, options), engines(algorithm, options), strict=True):
        columns = list(zip(*rows, strict=True))
        batch = StepBatch(
            np.array(columns[0]),
            np.array(columns[1]),
            np.array(columns[2]),
            np.array(columns[3]),
            np.array(columns[4]),
            np.zeros(len(rows), np.bool_),
            np.array(columns[5]),
        )
        errors = whole.learn_batch(batch)
        one_by_one = [single.learn(*TabularStep(*row[:5], False, np.array(row[5]))) for row in rows]
        assert errors.tolist() == one_by_one
        assert_equal([whole, single])


@pytest.mark.parametrize("actions", [3, NARROW + 1])
@pytest.mark.parametrize("exploration", EXPLORATIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_engines_are_equal_where_every_action_is_legal(
    algorithm: Algorithm, exploration: Exploration, actions: int, dtype: str
) -> None:
    """Longer than a block of random words; rewards from few values, so that values tie."""
    parts = engines(algorithm, {"exploration": exploration, "epsilon": 0.3, "dtype": dtype}, actions)
    random = np.random.default_rng(actions)
    state, steps = 0, [part.unmasked() for part in parts]
    (action,) = {part.select_any(state) for part in parts}
    for step in range(700):
        after, reward, end = int(random.integers(STATES)), float(random.integers(-1, 2)), int(random.integers(8))
        if end > 2:
            codes = {each.advance(state, action, reward, after) for each in steps}
        elif end == 2:
            codes = {each.restart(state, action, reward, after, step % 2 == 0, (after + 1) % STATES) for each in steps}
            after = (after + 1) % STATES
        else:
            codes = {each.end(state, action, reward, after, end == 1) for each in steps}
        assert len(codes) == 1
        (action,), state = codes, after
        if action == ENDED:
            for part in parts:
                part.epsilon = 0.2 + 0.1 * (step % 2)
            (action,) = {part.select_any(state) for part in parts}
        assert action >= 0
    assert_equal(parts)
    assert len({part.take_error_sum() for part in parts}) == 1


@pytest.mark.parametrize("reward", [math.inf, math.nan, 1.7e308])
def test_numbers_that_overflow_are_told_alike_where_every_action_is_legal(reward: float) -> None:
    for kind, more in (("end", (False,)), ("restart", (False, 0))):
        parts = engines("q_learning", {"initial_value": -1e308, "dtype": "float64"})
        codes = {getattr(part.unmasked(), kind)(0, 0, reward, 1, *more) for part in parts}
        assert codes == {NOT_FINITE}
        assert_equal(parts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_where_nothing_is_legal_nothing_changes(algorithm: Algorithm) -> None:
    nothing = np.zeros(ACTIONS, np.bool_)
    parts = engines(algorithm, {})
    before = engines(algorithm, {})
    for part in parts:
        assert part.select(0, nothing) == -1
        assert np.isnan(part.learn(*TabularStep(0, 1, 1.0, 2, False, False, nothing)))
    assert_equal([*parts, *before])


def test_visits_stay_at_the_largest_count() -> None:
    for name in ENGINES:
        options = TabularOptions(table_engine=name, learning_rate_schedule="visits")  # type: ignore[arg-type]
        start = first_snapshot(STATES, ACTIONS, "q_learning", options, key=1)
        start.visits[0, 0] = 2**31 - 2
        engine = open_engine(start, "q_learning", options)
        for _ in range(3):
            engine.learn(*TabularStep(0, 0, 1.0, 1, True, False, np.ones(ACTIONS, np.bool_)))
        assert engine.snapshot().visits[0, 0] == 2**31 - 1


def test_a_long_trail_outgrows_its_arrays() -> None:
    parts = engines("monte_carlo", {"discount_factor": 1.0})
    legal = np.ones(ACTIONS, np.bool_)
    for step in range(500):
        x = TabularStep(step % STATES, 0, 1.0, (step + 1) % STATES, step == 499, False, legal)
        assert len({part.learn(*x) for part in parts}) == 1
    assert_equal(parts)
    assert parts[0].snapshot().visits.sum() == 500
