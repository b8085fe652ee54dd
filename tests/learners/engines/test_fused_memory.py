"""GRU and minGRU in the fused engine: the torch engine's mathematics, resets at episode ends, states carried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import ActionHead
from mosaic.learners.engines.fused_memory import FusedMemoryEngine
from mosaic.learners.engines.fused_ppo_update import Batch
from mosaic.learners.engines.sequences import cut_at_episodes
from mosaic.learners.engines.torch import TorchEngine
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES, LearnSettings
from mosaic.models.layout import tensors
from mosaic.models.torch_net import TorchNet
from mosaic.models.weights_file import load_weights, save_weights
from tests.learners.engines.test_torch_tasks import remembered
from tests.learners.engines.torch_cases import ONE_STEP, PLAIN, decide, stale_batch

MEMORY = replace(PLAIN, memory="gru", memory_size=12)
CASES: dict[str, tuple[Architecture, bool, LearnSettings]] = {
    "gru": (MEMORY, False, ONE_STEP),
    "mingru": (replace(MEMORY, memory="mingru"), False, replace(ONE_STEP, ent_coef=0.05)),
    "masked": (MEMORY, True, replace(ONE_STEP, ent_coef=0.05)),
    "shared": (replace(MEMORY, shared=True, activation="relu"), True, replace(ONE_STEP, clip_range_vf=0.2)),
    "gaussian": (replace(MEMORY, head=ActionHead("gaussian", (2,))), False, replace(ONE_STEP, ent_coef=0.01)),
    "central": (replace(MEMORY, critic_observation=9, critic_hidden=(12,)), False, ONE_STEP),
    "bare": (replace(MEMORY, memory="mingru", shared=True), False, replace(ONE_STEP, max_grad_norm=0.0)),
}
STEPS, SLOTS = 11, 6


def engines(architecture: Architecture) -> tuple[FusedMemoryEngine, TorchEngine]:
    fused, torched = FusedMemoryEngine(architecture, 1, log_std=-0.3), TorchEngine(architecture, 2)
    random = np.random.default_rng(5)
    flat = fused.weights() + 0.2 * random.standard_normal(len(fused.weights())).astype(np.float32)
    fused.load(flat)
    torched.load(flat)
    return fused, torched


def rollout(architecture: Architecture, masked: bool) -> tuple[Batch, Any, Any]:
    """Rows of slots with gaps and episodes of different lengths; slot 5 is empty and slot 4 begins late."""
    random = np.random.default_rng(3)
    batch = stale_batch(FusedMemoryEngine(architecture, 9), STEPS * SLOTS, masked)
    sequence = np.tile(np.arange(SLOTS), STEPS)
    sequence[random.random(len(sequence)) < 0.15] = -1
    sequence[sequence == 5] = -1
    sequence[: 4 * SLOTS][sequence[: 4 * SLOTS] == 4] = -1
    return batch, sequence, (random.random(len(sequence)) < 0.25).astype(np.uint8)


@pytest.mark.parametrize("case", CASES)
def test_tensors_are_those_of_the_torch_engine_in_its_order(case: str) -> None:
    architecture, _, _ = CASES[case]
    state = TorchNet(architecture, 0).state_dict()
    assert [(tensor.name, tensor.shape) for tensor in tensors(architecture)] == [
        (name, tuple(each.shape)) for name, each in state.items()
    ]


@pytest.mark.parametrize("case", CASES)
def test_both_engines_carry_the_same_states(case: str) -> None:
    architecture, masked, _ = CASES[case]
    fused, torched = engines(architecture)
    batch = stale_batch(FusedMemoryEngine(architecture, 9), 40, masked)
    found = []
    for engine in (fused, torched):
        best = np.zeros((40, architecture.head.parts), np.float32)
        values = np.zeros(40, np.float32)
        for step in range(4):  # ten slots at each step; some begin again at the third
            rows, slots = slice(10 * step, 10 * step + 10), np.arange(10)
            mask = batch.mask[rows] if masked else batch.mask
            first = ((slots % 3 == 0) & (step == 2)).astype(np.uint8)
            values[rows] = engine.values(batch.obs[rows], batch.critic_obs[rows], slots)
            engine.greedy(batch.obs[rows], mask, slots, first, best[rows])
        found.append((values, best))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_one_step_of_both_engines_has_the_same_gradient(case: str) -> None:
    architecture, masked, how = CASES[case]
    fused, torched = engines(architecture)
    batch, sequence, first = rollout(architecture, masked)
    start = np.arange(4)  # only these have a state from before
    for engine in (fused, torched):
        engine.greedy(batch.obs[:4], batch.mask[:4], start, np.ones(4, np.uint8), np.zeros((4, 2), np.float32))
        engine.begin_rollout()
    idx = np.arange(0, STEPS * SLOTS, 2)
    idx = idx[sequence[idx] >= 0]
    reports = [engine.learn(batch, sequence, first, idx, how, 1e-3) for engine in (fused, torched)]
    for name in (*LOSSES, "gradient_norm", "minibatches"):
        assert reports[0][name] == pytest.approx(reports[1][name], rel=2e-4, abs=1e-5), name
    moments = [engine.training_state()["optimiser.first"] for engine in (fused, torched)]
    scale = np.abs(moments[1]).max()
    np.testing.assert_allclose(moments[0] / scale, moments[1] / scale, atol=2e-5)
    measured = [engine.measure(batch, sequence, first, idx, how) for engine in (fused, torched)]
    assert measured[0] == pytest.approx(measured[1], rel=2e-3, abs=1e-4)


def test_several_minibatches_of_several_epochs_stop_where_the_policy_has_gone_too_far() -> None:
    fused, _ = engines(MEMORY)
    batch, sequence, first = rollout(MEMORY, False)
    idx = np.flatnonzero(sequence >= 0)
    how = LearnSettings(n_epochs=3, batch_size=20)
    report = fused.learn(batch, sequence, first, idx, how, 1e-3)
    parts = len(cut_at_episodes(sequence, first).slots)
    assert report["minibatches"] == 3 * -(-parts // round(20 / (len(idx) / parts)))
    before = fused.weights()
    report = fused.learn(batch, sequence, first, idx, replace(how, target_kl=1e-9), 1e-3)
    assert report["minibatches"] == 0
    np.testing.assert_array_equal(fused.weights(), before)


def test_sequences_are_cut_where_episodes_begin() -> None:
    sequence = np.array([0, 1, -1, 1, 0, 1, 0])
    first = np.array([0, 1, 0, 0, 1, 1, 0], np.uint8)
    cut = cut_at_episodes(sequence, first)
    assert cut.sequence.tolist() == [0, 2, -1, 2, 1, 3, 1]
    assert cut.slots.tolist() == [0, -1, -1, -1]


@pytest.mark.parametrize("kind", ["gru", "mingru"])
def test_memory_tells_what_was_seen_first(kind: Any) -> None:
    random = np.random.default_rng(0)
    architecture = Architecture(3, ActionHead("categorical", (2,)), hidden=(16,), memory=kind, memory_size=16)
    engine = FusedMemoryEngine(architecture, seed=0)
    for _ in range(25):
        batch, sequence, first = remembered(engine, 32, 4, random)
        engine.learn(batch, sequence, first, np.flatnonzero(batch.obs[:, 2]), LearnSettings(4, 128), 1e-2)
    batch, _, _ = remembered(engine, 32, 4, random)
    assert (batch.ret[batch.obs[:, 2] > 0] > 0).mean() > 0.95


def test_a_temperature_makes_choices_even_or_certain() -> None:
    fused, _ = engines(MEMORY)
    obs = np.tile(np.random.default_rng(0).standard_normal(5).astype(np.float32), (600, 1))
    nothing, slots, first = np.zeros((0, 3), np.uint8), np.arange(600), np.ones(600, np.uint8)
    drawn, best = np.zeros((600, 1), np.float32), np.zeros((600, 1), np.float32)
    fused.greedy(obs, nothing, slots, first, best)
    fused.sample(obs, nothing, slots, first, drawn, 1e-3, [(fused.stream(3), 600)])
    np.testing.assert_array_equal(drawn, best)
    fused.sample(obs, nothing, slots, first, drawn, 1e3, [(fused.stream(3), 600)])
    np.testing.assert_allclose(np.bincount(drawn[:, 0].astype(int)) / 600, 1 / 3, atol=0.08)
    again = np.zeros((600, 1), np.float32)
    fused.sample(obs, nothing, slots, first, again, 1e3, [(fused.stream(3), 200), (fused.stream(3), 400)])
    np.testing.assert_array_equal(again[:200], drawn[:200])
    np.testing.assert_array_equal(again[200:400], drawn[:200])


def test_a_file_of_one_engine_is_read_by_the_other(tmp_path: Path) -> None:
    fused, torched = engines(MEMORY)
    save_weights(tmp_path / "net.safetensors", MEMORY, fused.weights())
    saved = load_weights(tmp_path / "net.safetensors")
    assert saved.architecture == MEMORY
    other = TorchEngine(MEMORY, 7)
    other.load(saved.flat)
    obs = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    np.testing.assert_allclose(decide(other, obs).val, decide(torched, obs).val, rtol=1e-6)


def test_an_anchor_and_an_lstm_are_refused() -> None:
    with pytest.raises(InputError, match="kl_anchor needs a network without memory"):
        FusedMemoryEngine(MEMORY, 0).set_anchor(np.zeros(1, np.float32))
    with pytest.raises(InputError, match="neither pictures nor LSTMs"):
        FusedMemoryEngine(replace(MEMORY, memory="lstm"), 0)


@pytest.mark.parametrize("case", CASES)
def test_both_engines_explain_alike_and_forget_nothing_by_it(case: str) -> None:
    architecture, masked, _ = CASES[case]
    batch = stale_batch(FusedMemoryEngine(architecture, 9), 40, masked)
    slots, begun = np.arange(10), (np.arange(10) % 4 == 0).astype(np.uint8)
    found = []
    for engine in engines(architecture):
        for step in range(3):
            rows, act = slice(10 * step, 10 * step + 10), np.zeros((10, architecture.head.parts), np.float32)
            mask = batch.mask[rows] if masked else batch.mask
            shares, values = engine.explain(batch.obs[rows], mask, slots, begun)
            again, _ = engine.explain(batch.obs[rows], mask, slots, begun)
            np.testing.assert_array_equal(shares, again)
            engine.greedy(batch.obs[rows], mask, slots, begun, act)
            if architecture.head.kind == "categorical" and architecture.head.parts == 1:
                np.testing.assert_array_equal(shares.argmax(1), act[:, 0])
                np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
        found.append((shares, values))
    if architecture.head.kind == "categorical" and architecture.head.parts == 1:
        np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-4)
    if not architecture.critic_observation:
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-5)
