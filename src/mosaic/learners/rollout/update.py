"""Update of all policies from one rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.rollout.base import Discounts, Rates
from mosaic.learners.rollout.buffers import SequenceBuffer
from mosaic.learners.rollout.engine_policies import EnginePolicies
from mosaic.learners.rollout.shared_critic import SharedCritic, interleaved
from mosaic.models.engine import LearnSettings


def update_policies(
    buffer: SequenceBuffer,
    policies: EnginePolicies,
    plan: TrainingPlan,
    learning: Sequence[LearnSettings],
    rates: Sequence[Rates],
    reward_scale: NDArray[np.float32],
    shared_critic: SharedCritic | None = None,
) -> list[dict[str, float]]:
    """Learn with every policy from its own decisions; return the report of each, empty where it learned nothing."""
    discounts = Discounts.of(learning)
    buffer.estimate_advantages(discounts.gamma, discounts.gae_lambda, reward_scale)
    each = [
        replace(settings, clip_range=rate.clip_range, ent_coef=rate.ent_coef, kl_anchor=rate.kl_anchor)
        for settings, rate in zip(learning, rates, strict=True)
    ]
    passes = 1
    if shared_critic is not None:  # their policies have the same epochs
        passes, epochs = interleaved(each[0].n_epochs, may_end_early=each[0].target_kl is not None)
        each = [replace(settings, n_epochs=epochs) for settings in each]

    def learn_one(policy: int) -> dict[str, float]:
        rows, engine = policies.fit(policy, buffer.rows), policies.engines[policy]
        idx, rate = buffer.rows_of(policy).copy(), rates[policy].learning_rate
        return engine.learn(rows, buffer.owner, buffer.first, idx, each[policy], rate)

    learners = [k for k, trained in enumerate(plan.trained) if trained and len(buffer.rows_of(k))]
    if shared_critic is None:
        losses = {policy: learn_one(policy) for policy in learners}
    else:
        losses = shared_critic.learn(learn_one, learners, passes)
    return [losses.get(policy, {}) for policy in range(len(plan.names))]
