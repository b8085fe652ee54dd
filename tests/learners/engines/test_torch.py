"""The torch engine: the same mathematics as the fused one, pictures, memories, hooks, and that it learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import ActionHead
from mosaic.learners.engines.fused import FusedEngine
from mosaic.learners.engines.fused_ppo_update import Batch
from mosaic.learners.engines.torch import TorchEngine, TorchOptions
from mosaic.learners.engines.torch_ppo_update import value_error
from mosaic.models.engine import LOSSES, LearnSettings, Resumes
from mosaic.models.weights_file import load_weights, save_weights
from tests.learners.engines.torch_cases import NO_BYTES, NO_INTS, ONE_STEP, PLAIN, decide, stale_batch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CASES = {
    "choice": (PLAIN, False, ONE_STEP),
    "masked": (PLAIN, True, replace(ONE_STEP, ent_coef=0.05)),
    "shared": (replace(PLAIN, shared=True, activation="relu"), True, replace(ONE_STEP, clip_range_vf=0.2)),
    "multi": (replace(PLAIN, head=ActionHead("categorical", (2, 4)), activation="silu"), True, ONE_STEP),
    "gaussian": (replace(PLAIN, head=ActionHead("gaussian", (2,))), False, replace(ONE_STEP, ent_coef=0.01)),
    "central": (replace(PLAIN, critic_observation=9, critic_hidden=(12,)), False, replace(ONE_STEP, clip_range_vf=0.5)),
    "bare": (PLAIN, False, replace(ONE_STEP, normalize_advantage=False, max_grad_norm=0.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_both_engines_judge_and_value_alike(case: str) -> None:
    architecture, masked, _ = CASES[case]
    fused, torched = FusedEngine(architecture, seed=1, log_std=-0.3), TorchEngine(architecture, seed=2)
    torched.load(fused.weights())
    batch = stale_batch(fused, 64, masked)
    drawn = decide(fused, batch.obs, batch.mask, batch.critic_obs)
    np.testing.assert_allclose(
        torched.values(batch.obs, batch.critic_obs, np.arange(64)), drawn.val, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        fused.values(batch.obs, batch.critic_obs, np.arange(64)), drawn.val, rtol=1e-5, atol=1e-6
    )
    exact = Batch(*batch)._replace(act=drawn.act, logp=drawn.logp)
    report = torched.learn(exact, NO_INTS, NO_BYTES, np.arange(64), ONE_STEP, 0.0)
    assert report["approx_kl"] == pytest.approx(0, abs=1e-6)
    best, other = np.zeros_like(drawn.act), np.zeros_like(drawn.act)
    first = np.zeros(64, np.uint8)
    fused.greedy(batch.obs, batch.mask, np.arange(64), first, best)
    torched.greedy(batch.obs, batch.mask, np.arange(64), first, other)
    np.testing.assert_allclose(best, other, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_one_step_of_both_engines_leads_to_the_same_weights(case: str) -> None:
    architecture, masked, how = CASES[case]
    fused, torched = FusedEngine(architecture, seed=1), TorchEngine(architecture, seed=1)
    np.testing.assert_array_equal(fused.weights(), torched.weights())
    batch, idx = stale_batch(fused, 96, masked), np.arange(0, 96, 2)
    reports = [engine.learn(batch, NO_INTS, NO_BYTES, idx, how, 1e-3) for engine in (fused, torched)]
    for name in (*LOSSES, "gradient_norm", "minibatches"):
        assert reports[0][name] == pytest.approx(reports[1][name], rel=1e-4, abs=1e-5), name
    moments = [engine.training_state() for engine in (fused, torched)]
    scale = np.abs(moments[1]["optimiser.first"]).max()
    np.testing.assert_allclose(moments[0]["optimiser.first"] / scale, moments[1]["optimiser.first"] / scale, atol=1e-5)
    # Adam divides by the gradient's own size, so a weight with next to no gradient may move by rounding alone.
    np.testing.assert_allclose(fused.weights(), torched.weights(), atol=5e-5)


def test_both_engines_stop_where_the_policy_has_gone_too_far() -> None:
    how = LearnSettings(n_epochs=4, batch_size=32, target_kl=1e-9)
    for engine in (FusedEngine(PLAIN, seed=1), TorchEngine(PLAIN, seed=1)):
        before = engine.weights()
        report = engine.learn(stale_batch(engine, 64, False), NO_INTS, NO_BYTES, np.arange(64), how, 1e-3)
        assert report["minibatches"] == 0
        np.testing.assert_array_equal(engine.weights(), before)


@pytest.mark.parametrize("kind", [FusedEngine, TorchEngine])
def test_training_goes_on_from_its_saved_state_in_either_engine(kind: Any) -> None:
    whole = kind(PLAIN, seed=1)
    batch, idx = stale_batch(whole, 64, False), np.arange(64)
    whole.learn(batch, NO_INTS, NO_BYTES, idx, ONE_STEP, 1e-3)
    for other in (FusedEngine(PLAIN, seed=5), TorchEngine(PLAIN, seed=5)):
        other.load(whole.weights())
        resumed: Resumes = other
        resumed.load_training_state(whole.training_state())
        assert other.training_state()["optimiser.count"] == [1]
    assert isinstance(other, TorchEngine)
    whole.learn(batch, NO_INTS, NO_BYTES, idx, ONE_STEP, 1e-3)
    other.learn(batch, NO_INTS, NO_BYTES, idx, ONE_STEP, 1e-3)
    np.testing.assert_allclose(other.weights(), whole.weights(), atol=5e-5)


def test_a_file_of_one_engine_is_read_by_the_other(tmp_path: Path) -> None:
    obs = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    nothing = np.zeros((8, 0), np.float32)
    for writer, reader in ((FusedEngine, TorchEngine), (TorchEngine, FusedEngine)):
        written = writer(PLAIN, seed=3)
        save_weights(tmp_path / "policy.safetensors", PLAIN, written.weights())
        saved = load_weights(tmp_path / "policy.safetensors")
        read = reader(saved.architecture, seed=4)
        read.load(saved.flat)
        np.testing.assert_allclose(
            read.values(obs, nothing, np.arange(8)), written.values(obs, nothing, np.arange(8)), atol=1e-5
        )


@pytest.mark.parametrize("kind", [FusedEngine, TorchEngine])
def test_equal_seeds_act_and_learn_equally(kind: Any) -> None:
    runs = []
    for _ in range(2):
        engine = kind(PLAIN, seed=7)
        batch = stale_batch(engine, 64, False)
        how = LearnSettings(n_epochs=3, batch_size=16)
        engine.learn(batch, NO_INTS, NO_BYTES, np.arange(64), how, 1e-3)
        runs.append((engine.weights(), decide(engine, batch.obs)))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1].act, runs[1][1].act)


def test_engines_of_equal_weights_can_draw_differently() -> None:
    obs = np.zeros((64, 5), np.float32)
    one, same, other = TorchEngine(PLAIN, 3), TorchEngine(PLAIN, 3, draws=3), TorchEngine(PLAIN, 3, draws=4)
    np.testing.assert_array_equal(one.weights(), other.weights())
    np.testing.assert_array_equal(decide(one, obs).act, decide(same, obs).act)
    assert (decide(one, obs).act != decide(other, obs).act).any()


@pytest.mark.parametrize("kind", [FusedEngine, TorchEngine])
def test_weights_of_another_network_are_refused(kind: Any) -> None:
    with pytest.raises(InputError, match="hold 3 numbers, the network needs"):
        kind(PLAIN, seed=0).load(np.zeros(3, np.float32))


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"There is no device named 'gpu7'\. Known: cpu, cuda"):
        TorchEngine(PLAIN, 0, TorchOptions(device="gpu7"))
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match=r"finds no CUDA device\. Use device=cpu"):
            TorchEngine(PLAIN, 0, TorchOptions(device="cuda"))


def test_memory_is_not_compiled_and_says_so() -> None:
    with pytest.raises(InputError, match="Networks with memory are not compiled: leave out `compiled`"):
        TorchEngine(replace(PLAIN, memory="gru"), 0, TorchOptions(compiled=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch about itself
def test_a_compiled_network_says_the_same() -> None:
    plain, compiled = TorchEngine(PLAIN, 0), TorchEngine(PLAIN, 0, TorchOptions(compiled=True))
    batch, idx = stale_batch(plain, 64, True), np.arange(64)
    for engine in (plain, compiled):
        engine.learn(batch, NO_INTS, NO_BYTES, idx, ONE_STEP, 1e-3)
    np.testing.assert_allclose(compiled.weights(), plain.weights(), atol=5e-5)


def test_values_are_clipped_only_where_the_clip_is_active() -> None:
    value = torch.tensor([1.0, 1.0, 0.1], requires_grad=True)
    old, target = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([2.0, -1.0, 5.0])
    error = value_error(value, old, target, 0.2)
    torch.testing.assert_close(error, torch.tensor([3.24, 4.0, 24.01]))
    torch.autograd.backward(error.sum())
    torch.testing.assert_close(value.grad, torch.tensor([0.0, 4.0, -9.8]))
