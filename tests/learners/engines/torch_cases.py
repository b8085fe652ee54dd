"""Architectures, decisions and batches for tests of the torch engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.encoding import ActionHead
from mosaic.learners.engines.fused_ppo_update import Batch, make_batch
from mosaic.models.architecture import Architecture
from mosaic.models.engine import Engine, LearnSettings

CHOICE = ActionHead("categorical", (3,))
PLAIN = Architecture(observation=5, head=CHOICE, hidden=(16, 16))
NO_INTS = np.zeros(0, np.int64)
NO_BYTES = np.zeros(0, np.uint8)
ONE_STEP = LearnSettings(n_epochs=1, batch_size=10**6)


class Decision(NamedTuple):
    act: NDArray[np.float32]
    logp: NDArray[np.float32]
    val: NDArray[np.float32]


def decide(
    engine: Engine,
    obs: NDArray[np.float32],
    mask: NDArray[np.uint8] | None = None,
    critic_obs: NDArray[np.float32] | None = None,
    first: int = 0,
) -> Decision:
    rows, head = len(obs), engine.architecture.head
    made = Decision(np.zeros((rows, head.parts), np.float32), np.zeros(rows, np.float32), np.zeros(rows, np.float32))
    critic_obs = np.zeros((rows, 0), np.float32) if critic_obs is None else critic_obs
    mask = np.zeros((0, head.width), np.uint8) if mask is None else mask
    engine.act(obs, critic_obs, mask, np.arange(rows), np.full(rows, first, np.uint8), *made)
    return made


def stale_batch(engine: Engine, rows: int, masked: bool, seed: int = 0) -> Batch:
    """Decisions of an engine, with log-probabilities and values as an older policy would have given them."""
    random = np.random.default_rng(seed)
    architecture = engine.architecture
    head = architecture.head
    batch = make_batch(
        rows,
        architecture.observation,
        head.parts,
        head.width if masked else 0,
        architecture.critic_observation,
    )
    batch.obs[:] = random.standard_normal(batch.obs.shape)
    batch.critic_obs[:] = random.standard_normal(batch.critic_obs.shape)
    if masked:
        batch.mask[:] = random.random(batch.mask.shape) < 0.6
        batch.mask[:, np.cumsum(head.sizes) - 1] = 1
    act, logp, val = decide(engine, batch.obs, batch.mask, batch.critic_obs)
    batch.act[:] = act
    batch.logp[:] = logp + 0.3 * random.standard_normal(rows)
    batch.val[:] = val + random.standard_normal(rows)
    batch.adv[:] = random.standard_normal(rows) + 0.5
    batch.ret[:] = random.standard_normal(rows)
    return batch
