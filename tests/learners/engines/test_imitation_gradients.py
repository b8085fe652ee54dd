"""Gradients of imitation and of the KL anchor, by hand and in torch, against autograd in float64."""

import numpy as np
import pytest

from mosaic.learners.engines.fused import FusedEngine
from mosaic.learners.engines.fused_anchor import anchor_rows, anchor_width
from mosaic.learners.engines.fused_ppo_update import ANCHOR_KL, ENTROPY, POLICY_LOSS, ROWS, STATS, gradient
from mosaic.learners.engines.torch import TorchEngine
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES, LearnSettings
from mosaic.models.layout import initial_weights, tensors
from tests.learners.engines.test_fused_gradients import HEADS, experience, hyper_of, relative_error, torch_net

torch = pytest.importorskip("torch")

NOBODY, NEVER = np.zeros(0, np.int64), np.zeros(0, np.uint8)


def case(head, shared=False, hidden=(24, 17)):
    """A network, rows with weights between 0 and 2, and another network as the anchor."""
    architecture = Architecture(11, HEADS[head], hidden, "tanh", shared)
    weights, model, batch, scratch, idx = experience(architecture, head == "masked")
    batch.adv[:] = np.random.default_rng(1).uniform(0, 2, len(batch.adv))
    anchor = initial_weights(architecture, 5, 0.3)
    anchor += np.random.default_rng(2).standard_normal(anchor.size).astype(np.float32) * np.float32(0.1)
    return architecture, weights, model, batch, scratch, idx, anchor


def distributions(flat, architecture, batch, idx):
    out = torch_net(flat, architecture, "policy.", torch.tensor(batch.obs[idx]).double())
    value = out[:, -1] if architecture.shared else None
    out = out[:, : architecture.head.width]
    if value is None:
        value = torch_net(flat, architecture, "value.", torch.tensor(batch.obs[idx]).double())[:, 0]
    if architecture.head.kind == "gaussian":
        spread = flat[tensors(architecture)[-1].start :].exp()
        return [torch.distributions.Normal(out[:, k], spread[k]) for k in range(out.shape[1])], value
    if len(batch.mask):
        out = out.masked_fill(torch.tensor(batch.mask[idx]) == 0, -1e9)
    return [torch.distributions.Categorical(logits=part) for part in out.split(list(architecture.head.sizes), 1)], value


def expected(weights, anchor, architecture, hyper, batch, idx):
    """Loss and gradient of cloning with value loss, entropy bonus and anchor."""
    flat = torch.tensor(weights).double().requires_grad_()
    now, value = distributions(flat, architecture, batch, idx)
    before, _ = distributions(torch.tensor(anchor).double(), architecture, batch, idx)
    act = torch.tensor(batch.act[idx]).double()
    logp = sum(part.log_prob(act[:, k]) for k, part in enumerate(now))
    cloning = -(torch.tensor(batch.adv[idx]).double() * logp).mean()
    entropy = sum(part.entropy() for part in now).mean()
    apart = sum(torch.distributions.kl_divergence(usual, part) for usual, part in zip(before, now, strict=True)).mean()
    errors = (value - torch.tensor(batch.ret[idx]).double()).square().mean()
    loss = cloning + float(hyper.vf_coef) * errors - float(hyper.ent_coef) * entropy + float(hyper.kl_anchor) * apart
    loss.backward()
    return flat.grad.numpy(), *(float(part.detach()) for part in (cloning, entropy, apart))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_cloning_and_the_anchor_have_autograds_gradient(head, shared):
    architecture, weights, model, batch, scratch, idx, anchor = case(head, shared)
    rows = np.full((len(batch.obs), anchor_width(architecture.head)), np.nan, np.float32)
    anchor_rows(anchor, model, batch.obs, batch.mask, idx, 100, scratch, rows)  # in several pieces
    hyper = hyper_of(imitate=True, kl_anchor=0.7, ent_coef=0.02, vf_coef=0.3)
    ours, stats = np.full_like(weights, 7.0), np.zeros(STATS)
    gradient(weights, ours, model, hyper, batch._replace(anchor=rows), idx, scratch, stats)
    theirs, cloning, entropy, apart = expected(weights, anchor, architecture, hyper, batch, idx)
    assert relative_error(ours, theirs) < 1e-5
    means = stats / stats[ROWS]
    assert means[POLICY_LOSS] == pytest.approx(cloning, rel=1e-4)
    assert means[ENTROPY] == pytest.approx(entropy, rel=1e-4)
    assert means[ANCHOR_KL] == pytest.approx(apart, rel=1e-3)
    assert apart > 0.001


@pytest.mark.parametrize("imitate", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_both_engines_take_the_same_step(head, imitate):
    architecture, weights, _, batch, _, idx, anchor = case(head)
    settings = LearnSettings(n_epochs=1, batch_size=512, imitate=imitate, kl_anchor=0.5, normalize_advantage=False)
    fused, torch_engine = FusedEngine(architecture, 0), TorchEngine(architecture, 0)
    reports, measured = [], []
    for engine in (fused, torch_engine):
        engine.load(weights)
        engine.set_anchor(anchor)
        measured.append(engine.measure(batch, NOBODY, NEVER, idx, settings))
        assert (engine.weights() == weights).all()
        reports.append(engine.learn(batch, NOBODY, NEVER, idx, settings, 1e-2))
    moved = fused.weights() - weights
    assert relative_error(moved, torch_engine.weights() - weights) < 1e-3
    for name in (*LOSSES, "anchor_kl"):
        assert reports[0][name] == pytest.approx(reports[1][name], rel=1e-3, abs=1e-5)
    for name in LOSSES:
        assert measured[0][name] == pytest.approx(measured[1][name], rel=1e-3, abs=1e-5)
        assert measured[0][name] == pytest.approx(reports[0][name], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", [FusedEngine, TorchEngine])
def test_a_strong_anchor_draws_the_policy_to_itself(kind):
    architecture, weights, _, batch, _, idx, anchor = case("masked")
    engine = kind(architecture, 0)
    engine.load(weights)
    engine.set_anchor(anchor)
    settings = LearnSettings(n_epochs=100, batch_size=64, kl_anchor=100.0)
    first = engine.learn(batch, NOBODY, NEVER, idx, LearnSettings(n_epochs=1, kl_anchor=100.0), 1e-3)["anchor_kl"]
    engine.learn(batch, NOBODY, NEVER, idx, settings, 1e-3)
    last = engine.learn(batch, NOBODY, NEVER, idx, LearnSettings(n_epochs=1, kl_anchor=100.0), 1e-3)["anchor_kl"]
    assert last < 0.05 * first


@pytest.mark.parametrize("kind", [FusedEngine, TorchEngine])
def test_one_seed_goes_through_the_rows_in_one_order(kind):
    architecture, weights, _, batch, _, idx, _ = case("discrete")
    found = []
    for used_before in (False, True):
        engine = kind(architecture, 0)
        settings = LearnSettings(n_epochs=2, batch_size=32, imitate=True)
        if used_before:
            engine.learn(batch, NOBODY, NEVER, idx, settings, 0.0)
            engine.load_training_state(kind(architecture, 0).training_state())
        engine.load(weights)
        engine.seed_shuffles(3)
        engine.learn(batch, NOBODY, NEVER, idx, settings, 1e-2)
        found.append(engine.weights())
    assert (found[0] == found[1]).all()
