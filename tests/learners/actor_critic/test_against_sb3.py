"""Updates of SAC and TD3 against Stable-Baselines3's: equal weights, decisions and noise give equal weights."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mosaic.envs.vector.encoding import ActionHead, ActionRange
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.actor_critic import kernels
from mosaic.learners.actor_critic.algorithm import make_hyper
from mosaic.learners.actor_critic.engine import FusedActorCriticEngine
from mosaic.learners.actor_critic.options import SacOptions, Td3Options
from mosaic.models.architecture import Architecture
from mosaic.models.layout import tensors
from mosaic.models.random import draw_below, draw_normal

torch = pytest.importorskip("torch")
stable_baselines3 = pytest.importorskip("stable_baselines3")

KEPT, BATCH, WIDTH, PARTS, UPDATES, HIDDEN = 200, 64, 4, 2, 6, (32, 24)


def make_ours(options):
    hyper = make_hyper(options, 1, PARTS, learns=True)
    shape = VectorShape(1, ("agent",), False, (WIDTH,), (ActionHead("gaussian", (PARTS,)),), False)
    architecture = Architecture(WIDTH, ActionHead("squashed", (PARTS,)), HIDDEN, options.activation, shared=True)
    bounds = ActionRange(np.zeros(PARTS, np.float32), np.ones(PARTS, np.float32))
    agent = FusedActorCriticEngine(architecture, shape, hyper, bounds, BATCH, KEPT, 3, 1.0).agent
    random, ring = np.random.default_rng(0), agent.ring
    ring.obs[:], ring.next_obs[:] = random.standard_normal((2, KEPT, WIDTH))
    ring.act[:] = random.uniform(-1, 1, (KEPT, PARTS))
    ring.reward[:] = random.standard_normal(KEPT)
    ring.follows[:] = random.random(KEPT) < 0.7
    ring.written[0] = KEPT
    return agent, hyper, architecture


def make_theirs(kind, options):
    from gymnasium import Env, spaces

    class Unused(Env):
        observation_space = spaces.Box(-np.inf, np.inf, (WIDTH,), np.float32)
        action_space = spaces.Box(-1, 1, (PARTS,), np.float32)

    net = {"net_arch": list(HIDDEN), "activation_fn": torch.nn.ReLU}
    same = {"learning_rate": options.learning_rate, "gamma": options.gamma, "tau": options.tau}
    model = kind("MlpPolicy", Unused(), policy_kwargs=net, buffer_size=10, device="cpu", **same)
    model._logger = stable_baselines3.common.logger.Logger(None, [])
    return model


def linear_layers(module):
    return [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)]


def put(layers, matrices):
    with torch.no_grad():
        for layer, (matrix, bias) in zip(layers, matrices, strict=True):
            layer.weight[:], layer.bias[:] = torch.tensor(matrix.T.copy()), torch.tensor(bias.copy())


def got(layers):
    return np.concatenate([part.detach().numpy().ravel() for each in layers for part in (each.weight.T, each.bias)])


def actor_layers(flat, architecture, *, soft):
    """Return matrices and biases as SB3 has them: hidden layers, means and, in SAC, log deviations."""
    parts = [tensor.of(flat) for tensor in tensors(architecture)]
    layers = list(zip(parts[::2], parts[1::2], strict=True))
    last = [(layers[-1][0][:, start : start + PARTS], layers[-1][1][start : start + PARTS]) for start in (0, PARTS)]
    return layers[:-1] + (last if soft else last[:1])


def critic_layers(flat):
    dims, start, layers = (WIDTH + PARTS, *HIDDEN, 1), 0, []
    for _ in range(2):
        for rows, columns in pairwise(dims):
            end = start + rows * columns
            layers.append((flat[start:end].reshape(rows, columns), flat[end : end + columns]))
            start = end + columns
    return layers


def flat_of(layers):
    return np.concatenate([part.ravel() for layer in layers for part in layer])


def foresee(agent, hyper):
    """Return the indices and the noise that the next update will draw: of next actions, and of the actor's."""
    dice = agent.dice.copy()
    idx = np.array([draw_below(dice, 0, KEPT) for _ in range(BATCH)])
    due = hyper.soft or (agent.steps[kernels.MADE] + 1) % hyper.delay == 0
    rounds = [[[draw_normal(dice, 0) for _ in range(PARTS)] for _ in range(BATCH)] for _ in range(2 if due else 1)]
    return idx, [torch.tensor(np.array(each, np.float32)) for each in rounds]


class Replay:
    def __init__(self, ring, idx):
        self._ring, self._idx = ring, idx

    def sample(self, *_, **__):
        from stable_baselines3.common.type_aliases import ReplayBufferSamples

        ring, idx = self._ring, self._idx
        columns = ring.obs[idx], ring.act[idx], ring.next_obs[idx], 1 - ring.follows[idx], ring.reward[idx]
        rows = [torch.tensor(column if column.ndim == 2 else column[:, None]) for column in columns]
        return ReplayBufferSamples(*rows)


@pytest.mark.slow
@pytest.mark.parametrize("soft", [True, False], ids=["sac", "td3"])
def test_updates_are_those_of_stable_baselines3(soft, monkeypatch):
    options = SacOptions(hidden=HIDDEN) if soft else Td3Options(hidden=HIDDEN)
    agent, hyper, architecture = make_ours(options)
    theirs = make_theirs(stable_baselines3.SAC if soft else stable_baselines3.TD3, options)
    put(linear_layers(theirs.actor), actor_layers(agent.actor.weights, architecture, soft=soft))
    put(linear_layers(theirs.critic), critic_layers(agent.critic.weights))
    theirs.critic_target.load_state_dict(theirs.critic.state_dict())
    if not soft:
        theirs.actor_target.load_state_dict(theirs.actor.state_dict())
    before = agent.actor.weights.copy(), agent.critic.weights.copy()
    for _ in range(UPDATES):
        idx, noise = foresee(agent, hyper)
        theirs.replay_buffer = Replay(agent.ring, idx)
        drawn = iter(noise[::-1] if soft else noise)  # SAC of SB3 draws the actor's actions first
        monkeypatch.setattr(
            torch.distributions.Normal, "rsample", lambda self, *_, d=drawn: self.mean + self.stddev * next(d)
        )
        monkeypatch.setattr(torch.Tensor, "normal_", lambda self, mean, std, d=drawn: self.copy_(mean + std * next(d)))
        theirs.train(gradient_steps=1, batch_size=BATCH)
        kernels.update(agent, hyper)
    pairs = [
        (flat_of(actor_layers(agent.actor.weights, architecture, soft=soft)), got(linear_layers(theirs.actor))),
        (flat_of(critic_layers(agent.critic.weights)), got(linear_layers(theirs.critic))),
        (flat_of(critic_layers(agent.critics.target)), got(linear_layers(theirs.critic_target))),
    ]
    if not soft:
        target = flat_of(actor_layers(agent.actor_target, architecture, soft=False))
        pairs.append((target, got(linear_layers(theirs.actor_target))))
    moved = options.learning_rate * UPDATES  # the most that Adam moves a weight
    for ours, others in pairs:
        np.testing.assert_allclose(ours, others, atol=moved / 50)
        assert np.quantile(np.abs(ours - others), 0.99) < moved / 1000
    assert np.abs(agent.actor.weights - before[0]).max() > moved / 4
    assert np.abs(agent.critic.weights - before[1]).max() > moved / 4
    if soft:
        assert agent.entropy.weights[0] == pytest.approx(theirs.log_ent_coef.item(), rel=1e-4)
