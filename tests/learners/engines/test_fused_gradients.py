"""The hand-written gradient against torch autograd in float64, over every kind of network and head."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from mosaic.envs.vector.encoding import ActionHead
from mosaic.learners.engines.fused_ppo_update import (
    CLIPPED,
    ENTROPY,
    KL,
    MINIBATCHES,
    POLICY_LOSS,
    ROWS,
    STATS,
    VALUE_LOSS,
    gradient,
    make_batch,
    make_hyper,
    make_optimiser,
    update,
)
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LearnSettings
from mosaic.models.fused import act_rows, build_model, make_scratch
from mosaic.models.layout import initial_weights, tensors
from mosaic.models.random import random_streams

torch = pytest.importorskip("torch")

ROWS_KEPT, CRITIC_WIDTH = 300, 23
HEADS = {
    "discrete": ActionHead("categorical", (5,)),
    "masked": ActionHead("categorical", (7,)),
    "multi": ActionHead("categorical", (3, 2, 4)),
    "gaussian": ActionHead("gaussian", (3,)),
}
MODELS = [
    (hidden, activation, shared, head, critic)
    for hidden, activation, shared, head, critic in itertools.product(
        [(32,), (64, 64), (48, 33, 17)], ["tanh", "relu", "silu"], [False, True], HEADS, [0, CRITIC_WIDTH]
    )
    if not (shared and critic)
]


def hyper_of(**settings):
    return make_hyper(LearnSettings(**{"batch_size": 64, **settings}))


def experience(architecture, masked, seed=0):
    """Random weights and rows whose log-probabilities and values are stale, so that all clips are active."""
    random = np.random.default_rng(seed)
    weights = initial_weights(architecture, seed)
    weights += random.standard_normal(weights.size).astype(np.float32) * np.float32(0.05)
    model = build_model(architecture)
    head = architecture.head
    critic = architecture.critic_observation
    batch = make_batch(ROWS_KEPT, architecture.observation, head.parts, head.width if masked else 0, critic)
    batch.obs[:] = random.standard_normal(batch.obs.shape)
    batch.critic_obs[:] = random.standard_normal(batch.critic_obs.shape)
    if masked:
        batch.mask[:] = random.random(batch.mask.shape) < 0.6
        batch.mask[:, 2] = 1
    scratch = make_scratch(model, ROWS_KEPT)
    rng = random_streams(seed, ROWS_KEPT)
    act_rows(weights, model, batch.obs, batch.critic_obs, batch.mask, scratch, rng, batch.act, batch.logp, batch.val)
    batch.logp[:] += random.standard_normal(ROWS_KEPT) * 0.25
    batch.adv[:] = random.standard_normal(ROWS_KEPT)
    batch.ret[:] = batch.val + random.standard_normal(ROWS_KEPT) * 0.7
    batch.val[:] += random.standard_normal(ROWS_KEPT) * 0.3
    return weights, model, batch, scratch, random.permutation(ROWS_KEPT)[:256]


def torch_net(flat, architecture, name, x):
    functions = {"tanh": torch.tanh, "relu": torch.relu, "silu": torch.nn.functional.silu}
    places = [place for place in tensors(architecture) if place.name.startswith(name)]
    for layer, (matrix, bias) in enumerate(zip(places[::2], places[1::2], strict=True)):
        x = x @ flat[matrix.start : matrix.end].reshape(matrix.shape) + flat[bias.start : bias.end]
        if 2 * layer + 2 < len(places):
            x = functions[architecture.activation](x)
    return x


def torch_terms(flat, architecture, hyper, batch, idx):
    """Policy loss, value loss and entropy of the rows in idx, as means."""
    rows = {name: torch.tensor(array[idx] if len(array) else array).double() for name, array in batch._asdict().items()}
    head = architecture.head
    out = torch_net(flat, architecture, "policy.", rows["obs"])
    if architecture.shared:
        out, value = out[:, :-1], out[:, -1]
    else:
        seen = rows["critic_obs"] if architecture.critic_observation else rows["obs"]
        value = torch_net(flat, architecture, "value.", seen)[:, 0]
    if head.kind == "categorical":
        if len(batch.mask):
            out = out.masked_fill(rows["mask"] == 0, -1e9)
        parts = [torch.distributions.Categorical(logits=part) for part in out.split(list(head.sizes), 1)]
        logp = sum(part.log_prob(rows["act"][:, i].long()) for i, part in enumerate(parts))
        entropy = sum(part.entropy() for part in parts)
    else:
        spread = flat[tensors(architecture)[-1].start :].exp()
        normal = torch.distributions.Normal(out, spread)
        logp, entropy = normal.log_prob(rows["act"]).sum(1), normal.entropy().sum(1)
    adv = rows["adv"]
    if hyper.normalise:
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio, clip = (logp - rows["logp"]).exp(), float(hyper.clip_range)
    policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
    value_loss = (value - rows["ret"]) ** 2
    limit = float(hyper.clip_range_vf)
    if limit > 0:
        held = rows["val"] + (value - rows["val"]).clamp(-limit, limit)
        value_loss = torch.max(value_loss, (held - rows["ret"]) ** 2)
    return policy_loss, value_loss.mean(), entropy.mean(), ratio


def torch_loss(flat, architecture, hyper, batch, idx):
    policy_loss, value_loss, entropy, _ = torch_terms(flat, architecture, hyper, batch, idx)
    return policy_loss + float(hyper.vf_coef) * value_loss - float(hyper.ent_coef) * entropy


def torch_gradient(weights, architecture, hyper, batch, idx):
    flat = torch.tensor(weights).double().requires_grad_()
    torch_loss(flat, architecture, hyper, batch, idx).backward()
    return flat.grad.numpy()


def relative_error(ours, theirs):
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


@pytest.mark.parametrize("value_clip", [0.0, 0.2])
@pytest.mark.parametrize(("hidden", "activation", "shared", "head", "critic"), MODELS)
def test_gradient_is_autograds(hidden, activation, shared, head, critic, value_clip):
    architecture = Architecture(11, HEADS[head], hidden, activation, shared, critic)
    weights, model, batch, scratch, idx = experience(architecture, head == "masked")
    hyper = hyper_of(ent_coef=0.01, clip_range_vf=value_clip)
    ours = np.full_like(weights, 7.0)  # what stood there before must not matter
    stats = np.zeros(STATS)
    gradient(weights, ours, model, hyper, batch, idx, scratch, stats)
    assert relative_error(ours, torch_gradient(weights, architecture, hyper, batch, idx)) < 1e-5
    assert 0 < stats[CLIPPED] < stats[ROWS] == len(idx)


def test_one_compiled_function_serves_every_network():
    counts = set()
    for hidden, activation, shared, head, critic in MODELS[::5]:
        architecture = Architecture(11, HEADS[head], hidden, activation, shared, critic)
        weights, model, batch, scratch, idx = experience(architecture, head == "masked")
        hyper = hyper_of(normalize_advantage=shared, target_kl=0.1)
        hyper = hyper._replace(ent_coef=np.float32(0.5), clip_range=np.float32(0.1))  # as schedules do
        gradient(weights, np.zeros_like(weights), model, hyper, batch, idx, scratch, np.zeros(STATS))
        counts.add((len(gradient.signatures), len(act_rows.signatures)))
    assert len(counts) == 1


@pytest.mark.parametrize("head", HEADS)
def test_advantages_stay_as_they_are_where_asked(head):
    architecture = Architecture(6, HEADS[head], (16,), critic_hidden=(8, 8))
    weights, model, batch, scratch, idx = experience(architecture, head == "masked")
    batch.adv[:] = 5 * batch.adv + 3
    hyper = hyper_of(normalize_advantage=False, ent_coef=0.01)
    ours = np.zeros_like(weights)
    gradient(weights, ours, model, hyper, batch, idx, scratch, np.zeros(STATS))
    assert relative_error(ours, torch_gradient(weights, architecture, hyper, batch, idx)) < 1e-5


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("value_clip", [0.0, 0.2])
def test_statistics_are_sums_of_what_torch_says(head, value_clip):
    architecture = Architecture(6, HEADS[head], (16, 16), "silu", shared=True)
    weights, model, batch, scratch, idx = experience(architecture, head == "masked")
    hyper, stats = hyper_of(clip_range_vf=value_clip), np.zeros(STATS)
    gradient(weights, np.zeros_like(weights), model, hyper, batch, idx, scratch, stats)
    flat = torch.tensor(weights).double()
    policy_loss, value_loss, entropy, ratio = torch_terms(flat, architecture, hyper, batch, idx)
    means = stats / len(idx)
    assert means[POLICY_LOSS] == pytest.approx(float(policy_loss), abs=1e-4)
    assert means[VALUE_LOSS] == pytest.approx(float(value_loss), rel=1e-4)
    assert means[ENTROPY] == pytest.approx(float(entropy), rel=1e-4)
    assert means[KL] == pytest.approx(float((ratio - 1 - ratio.log()).mean()), rel=1e-3)
    assert stats[CLIPPED] == int(((ratio - 1).abs() > 0.2).sum())


def test_wide_rows_count_by_their_first_columns():
    architecture = Architecture(6, HEADS["masked"], (16,), critic_observation=9)
    weights, model, batch, scratch, idx = experience(architecture, masked=True)
    hyper, narrow, wide = hyper_of(), np.zeros_like(weights), np.zeros_like(weights)
    gradient(weights, narrow, model, hyper, batch, idx, scratch, np.zeros(STATS))

    def widened(array):
        return np.hstack([array, np.full((len(array), 3), 1, array.dtype)])

    padded = batch._replace(**{name: widened(getattr(batch, name)) for name in ("obs", "critic_obs", "mask", "act")})
    gradient(weights, wide, model, hyper, padded, idx, scratch, np.zeros(STATS))
    assert (narrow == wide).all()


def test_large_networks_have_room():
    architecture = Architecture(40, HEADS["discrete"], (256, 256))
    weights, model, batch, scratch, idx = experience(architecture, masked=False)
    ours = np.zeros_like(weights)
    gradient(weights, ours, model, hyper_of(), batch, idx, scratch, np.zeros(STATS))
    assert relative_error(ours, torch_gradient(weights, architecture, hyper_of(), batch, idx)) < 1e-5


def test_a_minibatch_of_one_row_has_no_deviation():
    architecture = Architecture(6, HEADS["discrete"], (16,))
    weights, model, batch, scratch, idx = experience(architecture, masked=False)
    ours, hyper = np.zeros_like(weights), hyper_of()
    gradient(weights, ours, model, hyper, batch, idx[:1], scratch, np.zeros(STATS))
    plain = torch_gradient(weights, architecture, hyper._replace(normalise=np.int64(0)), batch, idx[:1])
    assert relative_error(ours, plain) < 1e-5


@pytest.mark.parametrize("head", HEADS)
def test_an_update_takes_torchs_steps(head):
    """Two full minibatches and the incomplete rest, one epoch: idx is left in the order that was used."""
    architecture = Architecture(6, HEADS[head], (16, 16))
    weights, model, batch, scratch, _ = experience(architecture, head == "masked")
    before = weights.copy()
    hyper = hyper_of(n_epochs=1, batch_size=128, ent_coef=0.01)
    optimiser, stats, idx = make_optimiser(weights), np.zeros(STATS), np.arange(ROWS_KEPT)
    assert update(optimiser, model, hyper, 1e-2, batch, idx, scratch, random_streams(1, 1), stats) == 3
    assert sorted(idx) == list(range(ROWS_KEPT))
    assert list(idx) != sorted(idx)
    assert (stats[ROWS], stats[MINIBATCHES]) == (ROWS_KEPT, 3)

    flat = torch.nn.Parameter(torch.tensor(before).double())
    adam = torch.optim.Adam([flat], lr=1e-2, eps=1e-5)
    for start in (0, 128, 256):
        adam.zero_grad()
        torch_loss(flat, architecture, hyper, batch, idx[start : start + 128]).backward()
        torch.nn.utils.clip_grad_norm_([flat], 0.5)
        adam.step()
    assert relative_error(weights - before, flat.detach().numpy() - before) < 1e-3


@pytest.mark.parametrize(("share", "steps"), [(0.99, 0), (1.01, 1)])
def test_an_update_ends_before_the_step_after_too_large_a_change(share, steps):
    architecture = Architecture(6, HEADS["discrete"], (16,))
    weights, model, batch, scratch, _ = experience(architecture, masked=False)
    before, idx, stats = weights.copy(), np.arange(ROWS_KEPT), np.zeros(STATS)
    hyper = hyper_of(n_epochs=1, batch_size=ROWS_KEPT)
    gradient(weights, np.zeros_like(weights), model, hyper, batch, idx, scratch, stats)
    hyper = hyper._replace(target_kl=np.float32(share * stats[KL] / stats[ROWS] / 1.5))
    taken = update(make_optimiser(weights), model, hyper, 1e-3, batch, idx, scratch, random_streams(1, 1), stats)
    assert taken == steps
    assert (weights == before).all() == (steps == 0)


def test_learning_is_the_same_twice():
    architecture = replace(Architecture(6, HEADS["multi"], (16,)), shared=True)
    found = []
    for _ in range(2):
        weights, model, batch, scratch, _ = experience(architecture, masked=False)
        args = (np.arange(ROWS_KEPT), scratch, random_streams(5, 1), np.zeros(STATS))
        update(make_optimiser(weights), model, hyper_of(n_epochs=3), 3e-4, batch, *args)
        found.append(weights)
    assert (found[0] == found[1]).all()
