"""How A2C learns: RLlib dropped it, and this is its PPO without ratio and clipping, stepping by RMSprop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.ppo import LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.torch_utils import explained_variance
from torch import Tensor

_SMOOTHING, _EPSILON = 0.99, 1e-5  # of RMSprop, as in the paper's code and in SB3


class A2CTorchLearner(PPOTorchLearner):
    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        module: Any = self.module[module_id].unwrapped()
        mean = _mean_over(batch.get(Columns.LOSS_MASK))
        choice = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        targets = batch[Postprocessing.VALUE_TARGETS]

        policy_loss = -mean(choice.logp(batch[Columns.ACTIONS]) * batch[Postprocessing.ADVANTAGES])
        value_loss = mean((values - targets) ** 2)
        entropy = mean(choice.entropy())
        told = {
            POLICY_LOSS_KEY: policy_loss,
            VF_LOSS_KEY: value_loss,
            ENTROPY_KEY: entropy,
            LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: explained_variance(targets, values),
        }
        self.metrics.log_dict(told, key=module_id, window=1)
        bonus = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        return policy_loss + config.vf_loss_coeff * value_loss - bonus * entropy

    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig | None = None) -> None:
        assert config is not None
        params = self.get_parameters(self.module[module_id])
        optimizer = torch.optim.RMSprop(params, alpha=_SMOOTHING, eps=_EPSILON)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr)


def _mean_over(mask: Tensor | None) -> Callable[[Tensor], Tensor]:
    """RLlib adds a step to each piece of an episode, for its last value; that one is no experience."""
    if mask is None:
        return torch.mean
    return lambda data: data[mask].sum() / mask.sum()
