"""Decisions of the fused engine against numpy in float64."""

import itertools

import numba
import numpy as np
import pytest
from scipy import stats

from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.activations import RELU, SILU, TANH, add_bias, fast_tanh, times_derivative
from mosaic.models.architecture import Architecture
from mosaic.models.fused import act_rows, build_model, greedy_rows, make_scratch, probabilities, sample_rows, value_rows
from mosaic.models.layout import initial_weights, tensors
from mosaic.models.random import draw_below, draw_uniform, random_streams
from mosaic.models.single_row import _layer, decide_row, row_plan, row_room

DISCRETE = ActionHead("categorical", (5,))
MULTI = ActionHead("categorical", (3, 2, 4))
GAUSSIAN = ActionHead("gaussian", (3,))
ANYTHING = np.zeros((0, 0), np.uint8)
NO_CRITIC_ROWS = np.zeros((0, 0), np.float32)


def lively_weights(architecture, seed=0):
    random = np.random.default_rng(seed)
    flat = initial_weights(architecture, seed)
    return flat + (random.standard_normal(flat.size) * 0.3).astype(np.float32)


def numpy_net(flat, architecture, name, x):
    functions = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x))}
    places = [place.of(flat).astype(float) for place in tensors(architecture) if place.name.startswith(name)]
    for layer in range(0, len(places), 2):
        x = x @ places[layer] + places[layer + 1]
        if layer + 2 < len(places):
            x = functions[architecture.activation](x)
    return x


def softmax(logits):
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def rows_of(count, width, seed=0):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


@pytest.mark.parametrize("hidden", [(), (16,), (256, 256), (24, 17, 9)])
@pytest.mark.parametrize("activation", ["tanh", "relu", "silu"])
@pytest.mark.parametrize("shared", [False, True])
def test_outputs_are_those_of_the_same_network_in_numpy(hidden, activation, shared):
    architecture = Architecture(7, DISCRETE, hidden, activation, shared)
    flat, model, obs = lively_weights(architecture), build_model(architecture), rows_of(33, 7)
    scratch = make_scratch(model, 40)
    logits = numpy_net(flat, architecture, "policy.", obs)
    values = logits[:, -1] if shared else numpy_net(flat, architecture, "value.", obs)[:, 0]
    shares, val = np.zeros((33, 5), np.float32), np.zeros(33, np.float32)
    probabilities(flat, model, obs, ANYTHING, scratch, shares)
    value_rows(flat, model, obs, NO_CRITIC_ROWS, scratch, val)
    np.testing.assert_allclose(shares, softmax(logits[:, :5]), atol=2e-5)
    np.testing.assert_allclose(val, values, rtol=1e-3, atol=1e-3 * np.abs(values).max())


def test_a_centralised_critic_reads_its_own_row():
    architecture = Architecture(4, DISCRETE, (16,), critic_observation=10, critic_hidden=(8, 8))
    flat, model = lively_weights(architecture), build_model(architecture)
    joint, val = rows_of(6, 10, 1), np.zeros(6, np.float32)
    value_rows(flat, model, rows_of(6, 4), joint, make_scratch(model, 6), val)
    np.testing.assert_allclose(val, numpy_net(flat, architecture, "value.", joint)[:, 0], rtol=1e-4, atol=1e-5)


def test_choices_are_drawn_as_often_as_they_are_probable():
    architecture, count = Architecture(4, MULTI, (16,)), 20_000
    flat, model = lively_weights(architecture), build_model(architecture)
    obs = np.repeat(rows_of(1, 4), count, axis=0)
    scratch, shares = make_scratch(model, count), np.zeros((count, 9), np.float32)
    act, logp, val = np.zeros((count, 3), np.float32), np.zeros(count, np.float32), np.zeros(count, np.float32)
    act_rows(flat, model, obs, NO_CRITIC_ROWS, ANYTHING, scratch, random_streams(1, count), act, logp, val)
    probabilities(flat, model, obs, ANYTHING, scratch, shares)
    logs = np.zeros(count)
    for part, first, size in ((0, 0, 3), (1, 3, 2), (2, 5, 4)):
        drawn = act[:, part].astype(int)
        expected = shares[0, first : first + size].astype(float)
        counts = np.bincount(drawn, minlength=size)
        assert len(counts) == size
        assert stats.chisquare(counts, count * expected / expected.sum()).pvalue > 1e-3
        logs += np.log(expected[drawn])
    np.testing.assert_allclose(logp, logs, atol=1e-5)
    pairs = np.histogram2d(act[:, 0], act[:, 2], (3, 4))[0]
    assert stats.chi2_contingency(pairs).pvalue > 1e-3  # parts are drawn independently


def test_one_stream_draws_as_fairly_as_many():
    architecture = Architecture(4, DISCRETE, (16,))
    flat, model, obs = lively_weights(architecture), build_model(architecture), rows_of(1, 4)
    scratch, rng, shares = make_scratch(model, 1), random_streams(2, 1), np.zeros((1, 5), np.float32)
    probabilities(flat, model, obs, ANYTHING, scratch, shares)
    act, logp, counts = np.zeros((1, 1), np.float32), np.zeros(1, np.float32), np.zeros(5)
    for _ in range(5_000):
        sample_rows(flat, model, obs, ANYTHING, scratch, rng, act, logp)
        counts[int(act[0, 0])] += 1
    expected = shares[0].astype(float)
    assert stats.chisquare(counts, 5_000 * expected / expected.sum()).pvalue > 1e-3


def test_masked_choices_are_never_drawn():
    architecture, count = Architecture(4, MULTI, (16,)), 5_000
    flat, model, obs = lively_weights(architecture), build_model(architecture), rows_of(count, 4)
    flat *= 8  # very sure of itself, also of what is forbidden
    random = np.random.default_rng(3)
    mask = (random.random((count, 9)) < 0.4).astype(np.uint8)
    mask[:, [1, 4, 8]] = 1  # something is always legal
    scratch, shares = make_scratch(model, count), np.zeros((count, 9), np.float32)
    act, logp, best = np.zeros((count, 3), np.float32), np.zeros(count, np.float32), np.zeros((count, 3), np.float32)
    sample_rows(flat, model, obs, mask, scratch, random_streams(1, count), act, logp)
    greedy_rows(flat, model, obs, mask, scratch, best)
    probabilities(flat, model, obs, mask, scratch, shares)
    logits = np.where(mask == 1, numpy_net(flat, architecture, "policy.", obs), -np.inf)
    for part, first, size in ((0, 0, 3), (1, 3, 2), (2, 5, 4)):
        for chosen in (act, best):
            assert mask[np.arange(count), first + chosen[:, part].astype(int)].all()
        assert (best[:, part] == logits[:, first : first + size].argmax(1)).mean() > 0.999  # near ties may round
        np.testing.assert_allclose(shares[:, first : first + size].sum(1), 1, rtol=1e-5)
    assert (shares[mask == 0] == 0).all()


def test_numbers_are_drawn_from_the_gaussian():
    architecture, count = Architecture(4, GAUSSIAN, (16,)), 20_000
    flat, model = lively_weights(architecture), build_model(architecture)
    tensors(architecture)[-1].of(flat)[:] = [-1.0, 0.0, 0.7]
    obs = np.repeat(rows_of(1, 4), count, axis=0)
    act, logp, mean = np.zeros((count, 3), np.float32), np.zeros(count, np.float32), np.zeros((count, 3), np.float32)
    scratch = make_scratch(model, count)
    sample_rows(flat, model, obs, ANYTHING, scratch, random_streams(4, count), act, logp)
    greedy_rows(flat, model, obs, ANYTHING, scratch, mean)
    np.testing.assert_allclose(mean, numpy_net(flat, architecture, "policy.", obs), rtol=1e-4, atol=1e-5)
    noise = (act - mean) / np.exp([-1.0, 0.0, 0.7])
    for part in range(3):
        assert stats.kstest(noise[:, part], "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.03
    expected = stats.norm.logpdf(act, mean, np.exp([-1.0, 0.0, 0.7])).sum(1)
    np.testing.assert_allclose(logp, expected, atol=1e-4)


def test_of_equal_actions_the_lowest_is_played():
    architecture = Architecture(4, DISCRETE, (16,))
    model, flat = build_model(architecture), np.zeros_like(initial_weights(architecture, 0))
    act = np.full((2, 1), 9, np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 0, 1]], np.uint8)
    greedy_rows(flat, model, rows_of(2, 4), mask, make_scratch(model, 2), act)
    assert act.ravel().tolist() == [0, 2]
    one, room = np.full(1, 9, np.float32), row_room(model)
    assert decide_row(flat, row_plan(model), rows_of(1, 4)[0], mask[1], room, one) == one[0] == 2


@pytest.mark.parametrize(
    ("head", "activation", "hidden"),
    list(itertools.product([DISCRETE, MULTI, GAUSSIAN], ["tanh", "relu", "silu"], [(), (33,), (64, 64), (20, 40, 9)])),
)
def test_one_row_is_decided_as_many_are(head, activation, hidden):
    architecture = Architecture(6, head, hidden, activation, shared=head is MULTI)
    flat, model, obs = lively_weights(architecture), build_model(architecture), rows_of(40, 6)
    mask = (np.random.default_rng(1).random((40, head.width)) < 0.5).astype(np.uint8)
    mask[:, [0, 3, -1] if head is MULTI else [0]] = 1
    act, one, room, plan = (
        np.zeros((40, head.parts), np.float32),
        np.zeros(head.parts, np.float32),
        row_room(model),
        row_plan(model),
    )
    greedy_rows(flat, model, obs, mask, make_scratch(model, 40), act)
    for i in range(40):
        first = decide_row(flat, plan, obs[i], mask[i], room, one)
        np.testing.assert_allclose(one, act[i], rtol=1e-3, atol=1e-4)
        assert first == (0 if head is GAUSSIAN else one[0])
    decide_row(flat, plan, obs[0], np.zeros(0, np.uint8), room, one)
    greedy_rows(flat, model, obs[:1], ANYTHING, make_scratch(model, 1), act[:1])
    np.testing.assert_allclose(one, act[0], rtol=1e-3, atol=1e-4)


def test_rows_wider_than_the_network_count_by_their_first_columns():
    architecture = Architecture(4, DISCRETE, (16,))
    flat, model = lively_weights(architecture), build_model(architecture)
    wide, scratch = rows_of(30, 9), make_scratch(model, 30)
    wide_act, act = np.zeros((30, 2), np.float32), np.zeros((30, 1), np.float32)
    wide_val, val, logp = np.zeros(30, np.float32), np.zeros(30, np.float32), np.zeros(30, np.float32)
    narrow = np.ascontiguousarray(wide[:, :4])
    act_rows(flat, model, wide, NO_CRITIC_ROWS, ANYTHING, scratch, random_streams(1, 30), wide_act, logp, wide_val)
    act_rows(flat, model, narrow, NO_CRITIC_ROWS, ANYTHING, scratch, random_streams(1, 30), act, logp, val)
    assert (wide_act[:, 0] == act[:, 0]).all()
    assert (wide_val == val).all()


def test_fast_tanh_is_tanh():
    x = np.linspace(-12, 12, 100_001).astype(np.float32)
    found = np.array([fast_tanh.py_func(value) for value in x[::50]])
    assert np.abs(found - np.tanh(x[::50].astype(float))).max() < 4e-7
    y = x.reshape(1, -1).copy()
    add_bias(y, np.zeros(x.size, np.float32), TANH, y)
    assert np.abs(y[0] - np.tanh(x.astype(float))).max() < 4e-7


def vectors_of(function, *types):
    """Whether LLVM vectorised a function (SSE: 4 floats). Recompiled, because the cache keeps no readable code."""
    fresh = numba.njit(nogil=True, error_model="numpy", fastmath=True)(function.py_func)
    fresh.compile(types)
    code = fresh.inspect_llvm(fresh.signatures[0])
    return any(f"<{width} x float>" in code for width in (4, 8, 16))


@pytest.mark.parametrize("function", [add_bias, times_derivative])
@pytest.mark.parametrize("activation", [TANH, RELU, SILU])
def test_hot_loops_are_vectorised(function, activation):
    matrix, row = numba.float32[:, ::1], numba.float32[::1]
    constant = numba.types.literal(activation)
    second = row if function is add_bias else matrix
    assert vectors_of(function, matrix, second, constant, matrix)


def test_relus_derivative_stops_what_was_not_passed_on():
    delta, y = np.array([[3.0, -4.0, 5.0]], np.float32), np.array([[0.5, 0.0, 2.0]], np.float32)
    times_derivative(delta, y, RELU, y)
    assert delta.tolist() == [[3.0, 0.0, 5.0]]


def test_the_one_row_loop_is_vectorised():
    matrix, row = numba.float32[:, ::1], numba.float32[::1]
    assert vectors_of(_layer, row, matrix, row, row, numba.int64)


def test_streams_differ_and_longer_requests_begin_alike():
    streams = random_streams(7, 1000)
    assert len(set(streams.tolist())) == 1000
    assert streams.all()
    assert (random_streams(7, 10) == streams[:10]).all()
    assert (random_streams(8, 10) != streams[:10]).all()


def test_draws_are_uniform():
    rng = random_streams(1, 1)
    uniform = np.array([draw_uniform(rng, 0) for _ in range(5_000)])
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert uniform.min() >= 0
    assert uniform.max() < 1


def test_places_below_a_limit_are_equally_likely():
    rng = random_streams(1, 1)
    counts = np.bincount([draw_below(rng, 0, 7) for _ in range(7_000)], minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 1e-3
