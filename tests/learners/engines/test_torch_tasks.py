"""The torch engine on tiny tasks, with a user's own code, and its sequences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.envs.vector.encoding import ActionHead, RowPart
from mosaic.learners.engines.fused_ppo_update import Batch, make_batch
from mosaic.learners.engines.torch import TorchEngine, TorchOptions, line_up, minibatches, sequences_per_minibatch
from mosaic.learners.engines.torch_ppo_update import Minibatch
from mosaic.models.architecture import Architecture
from mosaic.models.engine import Engine, LearnSettings
from mosaic.models.torch_net import NetworkOutput
from mosaic.models.weights_file import load_weights, save_weights
from tests.learners.engines.torch_cases import CHOICE, NO_BYTES, NO_INTS, ONE_STEP, PLAIN, decide, stale_batch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- tiny tasks


def teach_choice(engine: TorchEngine, rows: NDArray[np.float32], right: NDArray[np.int64], rounds: int) -> float:
    """Train on a bandit whose right choice pays 1, and return how often the greedy choice is right.

    A learning rate of 3e-3 is too high for a convolution: a policy can become deterministic before it is right, and
    whether it does depends on the rounding of the CPU.
    """
    how = LearnSettings(n_epochs=4, batch_size=64, ent_coef=0.0)
    batch = make_batch(len(rows), rows.shape[1], 1)
    batch.obs[:] = rows
    for _ in range(rounds):
        act, logp, val = decide(engine, rows)
        batch.act[:], batch.logp[:], batch.val[:] = act, logp, val
        batch.ret[:] = act[:, 0] == right
        batch.adv[:] = batch.ret - val
        engine.learn(batch, NO_INTS, NO_BYTES, np.arange(len(rows)), how, 1e-3)
    act = np.zeros((len(rows), 1), np.float32)
    engine.greedy(rows, np.zeros((0, 1), np.uint8), np.arange(len(rows)), np.zeros(len(rows), np.uint8), act)
    return float((act[:, 0] == right).mean())


@pytest.mark.parametrize("seed", range(3))
def test_a_picture_tells_what_to_do(seed: int) -> None:
    random = np.random.default_rng(seed)
    right = random.integers(0, 3, 128)
    pictures = (0.2 * random.random((128, 12, 12, 1))).astype(np.float32)
    for row, column in enumerate(right):
        pictures[row, random.integers(0, 12), 4 * column : 4 * column + 4] = 1.0
    part = RowPart("observation", 0, (12, 12, 1), True)
    architecture = Architecture(144, CHOICE, hidden=(32,), activation="relu", parts=(part,))
    assert teach_choice(TorchEngine(architecture, seed), pictures.reshape(128, -1), right, 24) > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_dict_tell_together_what_to_do(seed: int) -> None:
    """The right choice is the sum of what both parts show: with one part alone, half of the choices are wrong."""
    random = np.random.default_rng(seed)
    bright, sign = random.integers(0, 2, 128), random.integers(0, 2, 128)
    pictures = (bright[:, None] * random.random((128, 64))).astype(np.float32)
    rows = np.concatenate([2.0 * sign[:, None] - 1.0, pictures], 1).astype(np.float32)
    parts = (RowPart("sign", 0, (1,), False), RowPart("view", 1, (8, 8, 1), True))
    architecture = Architecture(65, CHOICE, hidden=(32,), parts=parts)
    assert teach_choice(TorchEngine(architecture, seed), rows, bright + sign, 40) > 0.95


def remembered(engine: Engine, envs: int, length: int, random: np.random.Generator) -> tuple[Batch, Any, Any]:
    """Episodes whose first row tells what the last one asks for; two episodes of each env behind one another."""
    steps = 2 * length
    batch = make_batch(steps * envs, 3, 1)
    first = np.zeros((steps, envs), np.uint8)
    first[::length] = 1
    sequence = np.tile(np.arange(envs), steps)
    told = np.zeros(envs, np.int64)
    engine.begin_rollout()
    for step in range(steps):
        rows = slice(step * envs, (step + 1) * envs)
        if step % length == 0:
            told = random.integers(0, 2, envs)
            batch.obs[rows, 0] = 2.0 * told - 1.0
        asked = step % length == length - 1
        batch.obs[rows, 2] = asked
        slots, nothing = np.arange(envs), np.zeros((envs, 0), np.float32)
        act, logp, val = batch.act[rows], batch.logp[rows], batch.val[rows]
        engine.act(batch.obs[rows], nothing, np.zeros((0, 2), np.uint8), slots, first[step], act, logp, val)
        batch.ret[rows] = asked * (2.0 * (act[:, 0] == told) - 1.0)
    batch.adv[:] = batch.ret - batch.val
    return batch, sequence, first.ravel()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_memory_tells_what_was_seen_first(kind: Literal["lstm", "gru"]) -> None:
    random = np.random.default_rng(0)
    architecture = Architecture(3, ActionHead("categorical", (2,)), hidden=(16,), memory=kind, memory_size=16)
    engine = TorchEngine(architecture, seed=0)
    how = LearnSettings(n_epochs=4, batch_size=128)
    for _ in range(25):
        batch, sequence, first = remembered(engine, 32, 4, random)
        last = np.flatnonzero(batch.obs[:, 2])
        report = engine.learn(batch, sequence, first, last, how, 1e-2)
    assert report["minibatches"] == 4  # 64 rows are learned from: 32 whole sequences are one minibatch
    batch, _, _ = remembered(engine, 32, 4, random)
    assert (batch.ret[batch.obs[:, 2] > 0] > 0).mean() > 0.95


def test_replayed_sequences_say_what_was_said_when_they_were_lived() -> None:
    """Rollouts that begin in the middle of episodes: only the remembered states make the log-probabilities equal."""
    architecture = Architecture(3, ActionHead("categorical", (2,)), hidden=(16,), memory="lstm", memory_size=8)
    engine = TorchEngine(architecture, seed=0)
    random = np.random.default_rng(1)
    engine.load(random.standard_normal(len(engine.weights())).astype(np.float32))
    for _ in range(2):
        batch, sequence, first = remembered(engine, 4, 3, random)
        first[:] = 0  # the memories now run through all that they see
        engine.begin_rollout()
        for step in range(6):
            rows = slice(step * 4, step * 4 + 4)
            engine.act(
                batch.obs[rows],
                np.zeros((4, 0), np.float32),
                np.zeros((0, 2), np.uint8),
                np.arange(4),
                first[rows],
                batch.act[rows],
                batch.logp[rows],
                batch.val[rows],
            )
        report = engine.learn(batch, sequence, first, np.arange(24), ONE_STEP, 0.0)
        assert report["approx_kl"] == pytest.approx(0, abs=1e-6)
        engine.begin_rollout()
        report = engine.learn(batch, sequence, first, np.arange(24), ONE_STEP, 0.0)
        assert report["approx_kl"] > 1e-5


def test_asking_for_values_leaves_memories_as_they_are() -> None:
    architecture = replace(PLAIN, memory="gru", memory_size=8)
    first, second = TorchEngine(architecture, seed=0), TorchEngine(architecture, seed=0)
    obs = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    for engine in (first, second):
        decide(engine, obs, first=1)
    worth = first.values(obs, np.zeros((3, 0), np.float32), np.arange(3))
    np.testing.assert_array_equal(decide(first, obs).val, worth)
    np.testing.assert_array_equal(decide(second, obs).val, worth)


def test_a_network_with_pictures_and_memory_survives_saving(tmp_path: Path) -> None:
    parts = (RowPart("place", 0, (1,), False), RowPart("view", 1, (8, 8, 1), True))
    architecture = Architecture(65, CHOICE, hidden=(8,), parts=parts, memory="gru", memory_size=4)
    first, second = TorchEngine(architecture, seed=0), TorchEngine(architecture, seed=1)
    obs = np.random.default_rng(0).random((3, 65), np.float32)
    assert (first.weights() != second.weights()).any()
    save_weights(tmp_path / "policy.safetensors", architecture, first.weights(), first.training_state())
    saved = load_weights(tmp_path / "policy.safetensors")
    assert saved.architecture == architecture
    second.load(saved.flat)
    second.load_training_state(saved.extra)
    np.testing.assert_array_equal(decide(first, obs, first=1).val, decide(second, obs, first=1).val)


# -- a user's own code

CALLS: list[tuple[str, int]] = []


class OwnNetwork(nn.Module):
    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.hidden = nn.Linear(architecture.observation, 16)
        self.out = nn.Linear(16, architecture.head.width + 1)

    def forward(self, obs: Tensor, critic_obs: Tensor) -> tuple[Tensor, Tensor]:
        out = self.out(torch.tanh(self.hidden(obs)))
        return out[:, :-1], out[:, -1]


def extra_loss(network: nn.Module, rows: Minibatch, answer: NetworkOutput) -> Tensor:
    CALLS.append((type(network).__name__, len(rows.obs)))
    return 100.0 * answer.value.square().mean()


def test_a_module_and_a_loss_of_the_users_own_are_used() -> None:
    CALLS.clear()
    own = f"python:{__name__}"
    engine = TorchEngine(PLAIN, 0, TorchOptions(module=f"{own}:OwnNetwork", extra_loss=f"{own}:extra_loss"))
    batch = stale_batch(engine, 64, False)
    batch.ret[:] = 5.0
    how = LearnSettings(n_epochs=30, batch_size=32, vf_coef=0.5)
    report = engine.learn(batch, NO_INTS, NO_BYTES, np.arange(64), how, 1e-2)
    assert CALLS == [("OwnNetwork", 32)] * 60
    assert report["extra_loss"] > 0
    assert np.abs(engine.values(batch.obs, batch.critic_obs, np.arange(64))).max() < 1.0  # it outweighs the returns


# -- sequences


@given(
    sequence=st.lists(st.integers(-1, 4), min_size=1, max_size=40),
    data=st.data(),
)
def test_lined_up_sequences_hold_every_learned_row_once_and_in_time_order(sequence: list[int], data: Any) -> None:
    owners = np.array(sequence, np.int64)
    idx = np.array(sorted(data.draw(st.sets(st.integers(0, len(sequence) - 1)))), np.int64)
    found = line_up(owners, idx)
    assert sorted(found.rows[found.learned]) == [row for row in idx if owners[row] >= 0]
    for slot, rows in zip(found.slots, found.rows, strict=True):
        assert list(rows[rows >= 0]) == list(np.flatnonzero(owners == slot))


@settings(max_examples=50)
@given(count=st.integers(0, 30), size=st.integers(1, 12))
def test_minibatches_hold_everything_once(count: int, size: int) -> None:
    pieces = list(minibatches(np.arange(count), size))
    assert all(len(piece) == size for piece in pieces[:-1])
    assert [row for piece in pieces for row in piece] == list(range(count))


def test_minibatches_of_sequences_come_near_the_asked_size() -> None:
    found = line_up(np.tile(np.arange(8), 16), np.arange(128))
    assert sequences_per_minibatch(found, 64) == 4
    assert sequences_per_minibatch(found, 3) == 1
    assert sequences_per_minibatch(found, 10**6) == 8
