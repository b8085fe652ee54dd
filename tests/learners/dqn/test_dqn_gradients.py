"""DQN's goals and gradient against torch in float64; how it decides and explores."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape, vector_arrays
from mosaic.learners.dqn.algorithm import make_hyper
from mosaic.learners.dqn.fused_engine import first_q_weights
from mosaic.learners.dqn.kernels import LOSS, Q_VALUE, ROWS, STATS, aim, decide, exploration_rate, follow, gradient
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.dqn.replay_buffer import make_ring
from mosaic.learners.engines.adam import make_optimiser
from mosaic.models.architecture import Architecture
from mosaic.models.fused import build_model, greedy_rows, make_scratch
from mosaic.models.layout import tensors
from mosaic.models.random import random_streams

torch = pytest.importorskip("torch")

KEPT, BATCH, WIDTH, ACTIONS, GAMMA = 300, 64, 11, 5, np.float32(0.9)
HEAD = ActionHead("categorical", (ACTIONS,))
HYPER = make_hyper(DqnOptions(), envs=1, total_env_steps=None, learns=True)


def shape(masked, envs=1):
    return VectorShape(envs, ("agent",), False, (WIDTH,), (HEAD,), masked)


def net(hidden=(64, 48), activation="relu", seed=0):
    architecture = Architecture(WIDTH, HEAD, hidden, activation, shared=True)
    return architecture, build_model(architecture), first_q_weights(architecture, seed)


def memories(masked):
    random = np.random.default_rng(0)
    ring = make_ring(shape(masked), KEPT)
    ring.obs[:], ring.next_obs[:] = random.standard_normal((2, KEPT, WIDTH))
    ring.act[:] = random.integers(ACTIONS, size=KEPT)
    ring.reward[:] = random.standard_normal(KEPT) * 2
    ring.follows[:] = random.random(KEPT) < 0.7
    if masked:
        ring.next_mask[:] = random.random(ring.next_mask.shape) < 0.5
        ring.next_mask[:, 3] = 1
    return ring, random.integers(KEPT, size=BATCH)


def torch_q(flat, architecture, rows):
    functions = {"tanh": torch.tanh, "relu": torch.relu, "silu": torch.nn.functional.silu}
    layout, x = tensors(architecture), torch.tensor(rows).double()
    for matrix, bias in zip(layout[::2], layout[1::2], strict=True):
        x = x @ flat[matrix.start : matrix.end].reshape(matrix.shape) + flat[bias.start : bias.end]
        x = x if bias is layout[-1] else functions[architecture.activation](x)
    return x[:, :ACTIONS]


def torch_goals(weights, target, architecture, ring, idx, double):
    values = torch_q(torch.tensor(target).double(), architecture, ring.next_obs[idx])
    judged = torch_q(torch.tensor(weights).double(), architecture, ring.next_obs[idx]) if double else values.clone()
    if len(ring.next_mask):
        judged[torch.tensor(ring.next_mask[idx]) == 0] = -torch.inf
    best = values.gather(1, judged.argmax(1, keepdim=True))[:, 0]
    return torch.tensor(ring.reward[idx]).double() + float(GAMMA) * torch.tensor(ring.follows[idx]).double() * best


@pytest.mark.parametrize(
    ("hidden", "activation", "masked", "double"),
    list(itertools.product([(32,), (64, 48), (48, 33, 17)], ["tanh", "relu", "silu"], [False, True], [False, True])),
)
def test_goals_and_gradient_are_torchs(hidden, activation, masked, double):
    architecture, model, weights = net(hidden, activation)
    target = first_q_weights(architecture, 1) * 2
    ring, idx = memories(masked)
    scratch, chosen, goals = make_scratch(model, BATCH), np.zeros(BATCH, np.int64), np.zeros(BATCH, np.float32)
    aim(weights, target, model, GAMMA, double, ring, idx, scratch, chosen, goals)
    expected = torch_goals(weights, target, architecture, ring, idx, double)
    np.testing.assert_allclose(goals, expected.numpy(), atol=1e-5)

    ours, stats = np.full_like(weights, 7.0), np.zeros(STATS)  # what stood there before must not matter
    gradient(weights, ours, model, HYPER, ring, idx, goals, scratch, stats)
    flat = torch.tensor(weights).double().requires_grad_()
    taken = torch_q(flat, architecture, ring.obs[idx]).gather(1, torch.tensor(ring.act[idx])[:, None])[:, 0]
    loss = torch.nn.functional.smooth_l1_loss(taken, expected)
    loss.backward()
    theirs = flat.grad.numpy()
    assert np.linalg.norm(ours - theirs) / np.linalg.norm(theirs) < 1e-5
    assert stats[ROWS] == BATCH
    assert stats[LOSS] / BATCH == pytest.approx(loss.item(), rel=1e-5)
    assert stats[Q_VALUE] / BATCH == pytest.approx(taken.mean().item(), abs=1e-5)
    errors = (taken - expected).abs()
    assert (errors < 1).any()
    assert (errors > 1).any()  # both sides of the Huber loss were asked


def test_the_unused_output_stays_zero():
    architecture, model, weights = net()
    ring, idx = memories(masked=False)
    optimiser = make_optimiser(weights)
    gradient(
        weights,
        optimiser.gradient,
        model,
        HYPER,
        ring,
        idx,
        np.zeros(BATCH, np.float32),
        make_scratch(model, BATCH),
        np.zeros(STATS),
    )
    for tensor in tensors(architecture)[-2:]:
        assert not tensor.of(weights)[..., -1].any()
        assert not tensor.of(optimiser.gradient)[..., -1].any()
        assert tensor.of(optimiser.gradient)[..., :-1].any()


def seen(masked, envs=2000):
    random = np.random.default_rng(3)
    env = vector_arrays(shape(masked, envs))
    env.obs[:] = random.standard_normal(env.obs.shape)
    if masked:
        env.mask[:] = random.random(env.mask.shape) < 0.4
        env.mask[:, 1] = 1
    return env


@pytest.mark.parametrize("masked", [False, True])
def test_without_chance_the_best_legal_action_is_played(masked):
    _, model, weights = net()
    env = seen(masked)
    scratch, act, expected = make_scratch(model, len(env.obs)), *np.full((2, len(env.obs), 1), 9, np.float32)
    decide(weights, model, env, 0.0, scratch, random_streams(0, len(env.obs)), act)
    greedy_rows(weights, model, env.obs, env.mask, scratch, expected)
    assert (act == expected).all()


@pytest.mark.parametrize("masked", [False, True])
def test_chance_plays_every_legal_action_alike(masked):
    _, model, weights = net()
    env = seen(masked)
    env.mask[:] = np.array([1, 1, 0, 1, 0]) if masked else 0
    act = np.zeros((len(env.obs), 1), np.float32)
    decide(weights, model, env, 1.0, make_scratch(model, len(env.obs)), random_streams(0, len(env.obs)), act)
    counts = np.bincount(act[:, 0].astype(int), minlength=ACTIONS)
    legal = env.mask[0] > 0 if masked else np.ones(ACTIONS, bool)
    assert not counts[~legal].any()
    assert (np.abs(counts[legal] - len(act) / legal.sum()) < 100).all()


def test_slots_that_wait_decide_nothing():
    _, model, weights = net()
    env = seen(masked=False, envs=50)
    env.active[::2] = 0
    act = np.full((50, 1), 9, np.float32)
    rng = random_streams(0, 50)
    before = rng.copy()
    decide(weights, model, env, 1.0, make_scratch(model, 50), rng, act)
    assert (rng[::2] == before[::2]).all()
    assert (rng[1::2] != before[1::2]).all()


def test_the_target_net_follows():
    target, weights = np.array([0, 1, 5], np.float32), np.array([1, 0.1, -3], np.float32)
    follow(target, weights, np.float32(0.25))
    np.testing.assert_allclose(target, [0.25, 0.775, 3], rtol=1e-6)
    follow(target, weights, np.float32(1))
    assert (target == weights).all()


@settings(deadline=None)  # the first call may compile
@given(st.integers(0, 2000), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_exploration_falls_in_a_straight_line(env_steps, first, last, fraction):
    options = DqnOptions(
        learning_starts=100, exploration_initial_eps=first, exploration_final_eps=last, exploration_fraction=fraction
    )
    rate = exploration_rate(make_hyper(options, envs=1, total_env_steps=1000, learns=True), env_steps)
    if env_steps < 100:
        assert rate == 1
    else:
        share = min(1, env_steps / (1000 * fraction))
        assert rate == pytest.approx(first + share * (last - first), abs=1e-12)
