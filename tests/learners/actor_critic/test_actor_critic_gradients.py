"""Targets and gradients of SAC and TD3 against torch's autograd in float64."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mosaic.envs.vector.encoding import ActionHead, ActionRange
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.actor_critic import kernels
from mosaic.learners.actor_critic.algorithm import make_hyper
from mosaic.learners.actor_critic.engine import FusedActorCriticEngine, restore_ring
from mosaic.learners.actor_critic.options import SacOptions, Td3Options
from mosaic.learners.dqn.replay_buffer import make_ring
from mosaic.models.architecture import Architecture

torch = pytest.importorskip("torch")

KEPT, BATCH, WIDTH, PARTS, ALPHA = 200, 48, 7, 3, np.float32(0.3)
SHAPE = VectorShape(1, ("agent",), False, (WIDTH,), (ActionHead("gaussian", (PARTS,)),), False)
FUNCTIONS = {"tanh": torch.tanh, "relu": torch.relu, "silu": torch.nn.functional.silu}


def make(options):
    random = np.random.default_rng(0)
    hyper = make_hyper(options, 1, PARTS, learns=True)._replace(gamma=np.float32(0.9))
    architecture = Architecture(
        WIDTH, ActionHead("squashed", (PARTS,)), options.hidden, options.activation, shared=True
    )
    bounds = ActionRange(np.zeros(PARTS, np.float32), np.ones(PARTS, np.float32))
    agent = FusedActorCriticEngine(architecture, SHAPE, hyper, bounds, BATCH, KEPT, 0, 1.0).agent
    ring = agent.ring
    ring.obs[:], ring.next_obs[:] = random.standard_normal((2, KEPT, WIDTH))
    ring.act[:] = random.uniform(-1, 1, (KEPT, PARTS))
    ring.reward[:] = random.standard_normal(KEPT)
    ring.follows[:] = random.random(KEPT) < 0.7
    ring.written[0] = KEPT
    agent.sampled.idx[:] = random.integers(KEPT, size=BATCH)
    agent.critics.target[:] *= np.float32(1.7)
    agent.actor_target[:] *= np.float32(1.3)
    return agent, hyper


def double(array):
    return torch.tensor(np.asarray(array)).double()


def net(flat, dims, start, activation, x):
    for layer, (rows, columns) in enumerate(pairwise(dims)):
        weight = flat[start : start + rows * columns].reshape(rows, columns)
        bias = flat[start + rows * columns : start + (rows + 1) * columns]
        x = x @ weight + bias
        x = x if layer == len(dims) - 2 else FUNCTIONS[activation](x)
        start += (rows + 1) * columns
    return x


def actor(flat, options, rows):
    return net(flat, (WIDTH, *options.hidden, 2 * PARTS + 1), 0, options.activation, rows)


def critics(flat, options, rows, act):
    dims, both = (WIDTH + PARTS, *options.hidden, 1), torch.cat((rows, act), 1)
    return [net(flat, dims, start, options.activation, both)[:, 0] for start in (0, len(flat) // 2)]


def drawn(out, noise):
    """Actions and log-probabilities, as SB3's SquashedDiagGaussian has them."""
    mean, log_std = out[:, :PARTS], out[:, PARTS : 2 * PARTS].clamp(-20, 2)
    gauss = torch.distributions.Normal(mean, log_std.exp())
    before = mean + log_std.exp() * noise
    act = torch.tanh(before)
    return act, (gauss.log_prob(before) - torch.log(1 - act**2 + 1e-6)).sum(1)


OPTIONS = [
    *(SacOptions(hidden=hidden, activation=name) for hidden in ((32,), (24, 17)) for name in FUNCTIONS),
    *(Td3Options(hidden=hidden, activation=name) for hidden in ((32,), (24, 17)) for name in FUNCTIONS),
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: f"{type(o).__name__[:3]} {o.hidden} {o.activation}")
def test_targets_and_gradients_are_torchs(options):
    agent, hyper = make(options)
    sampled, ring, soft = agent.sampled, agent.ring, isinstance(options, SacOptions)
    idx = sampled.idx
    obs, act, following = double(ring.obs[idx]), double(ring.act[idx]), double(ring.next_obs[idx])

    kernels.aim(agent, hyper, ALPHA)
    noise = double(sampled.noise)
    if soft:
        next_act, logp = drawn(actor(double(agent.actor.weights), options, following), noise)
    else:
        smooth = (0.2 * noise).clamp(-0.5, 0.5)
        policy = torch.tanh(actor(double(agent.actor_target), options, following)[:, :PARTS])
        next_act, logp = (policy + smooth).clamp(-1, 1), 0
    lower = torch.minimum(*critics(double(agent.critics.target), options, following, next_act))
    goals = double(ring.reward[idx]) + 0.9 * double(ring.follows[idx]) * (lower - float(ALPHA) * logp)
    np.testing.assert_allclose(sampled.goals, goals, atol=2e-5)

    weights = double(agent.critic.weights).requires_grad_()
    loss = sum(((values - goals.detach()) ** 2).mean() for values in critics(weights, options, obs, act))
    loss = loss / 2 if soft else loss
    loss.backward()
    kernels.critic_gradient(agent, hyper)
    np.testing.assert_allclose(agent.critic.gradient, weights.grad, atol=2e-5)
    assert agent.stats[kernels.CRITIC_LOSS] == pytest.approx(loss.item(), rel=1e-4)

    kernels.draw_noise(agent)
    flat = double(agent.actor.weights).requires_grad_()
    if soft:
        chosen, logp = drawn(actor(flat, options, obs), double(sampled.noise))
        loss = (
            float(ALPHA) * logp - torch.minimum(*critics(double(agent.critic.weights), options, obs, chosen))
        ).mean()
    else:
        chosen = torch.tanh(actor(flat, options, obs)[:, :PARTS])
        loss = -critics(double(agent.critic.weights), options, obs, chosen)[0].mean()
    loss.backward()
    kernels.actor_gradient(agent, hyper, ALPHA)
    assert np.abs(agent.actor.gradient).max() > 1e-3
    np.testing.assert_allclose(agent.actor.gradient, flat.grad, atol=2e-5)
    assert agent.stats[kernels.ACTOR_LOSS] == pytest.approx(loss.item(), rel=1e-4)


def test_the_weight_of_the_entropy_falls_while_there_is_more_than_its_target():
    for target, falls in ((-3.0, True), (30.0, False)):
        agent, hyper = make(SacOptions(hidden=(8,), target_entropy=target))
        kernels.update(agent, hyper)
        assert (agent.entropy.weights[0] < 0) == falls
    agent, hyper = make(SacOptions(hidden=(8,), ent_coef=0.2))
    kernels.update(agent, hyper)
    assert agent.entropy.weights[0] == 0, "a given weight is not learned"


def test_td3_delays_its_actor_and_its_targets():
    agent, hyper = make(Td3Options(hidden=(8,), policy_delay=3))
    first = agent.actor.weights.copy(), agent.critics.target.copy()
    for number in range(1, 4):
        kernels.update(agent, hyper)
        same = (agent.actor.weights == first[0]).all(), (agent.critics.target == first[1]).all()
        assert same == ((number < 3,) * 2)
    assert (agent.actor.weights == first[0])[-1], "the unused output never changes"


@pytest.mark.parametrize(("written", "size"), [(7, 20), (20, 20), (33, 20)])
@pytest.mark.parametrize("room", [5, 20, 50])
def test_a_ring_of_another_size_keeps_the_newest(written, size, room):
    rows = np.array([max(t for t in range(written) if t % size == place) for place in range(min(written, size))])
    state = {f"replay.{name}": np.zeros((len(rows), WIDTH), np.float32) for name in ("obs", "next_obs")}
    state |= {"replay.act": np.zeros((len(rows), PARTS), np.float32), "replay.reward": rows.astype(np.float32)}
    state |= {"replay.follows": np.ones(len(rows), np.float32)}
    state |= {"replay.written": np.array([written]), "replay.size": np.array([size])}
    ring = make_ring(SHAPE, room)
    restore_ring(ring, state)
    kept = min(len(rows), room)
    assert sorted(ring.reward[:kept]) == sorted(rows)[-kept:]
    assert ring.written[0] == (written if room == size else kept)
