"""Networks that RLlib trains: its own defaults, extended by action masks and an optional central critic."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.bc.torch.default_bc_torch_rl_module import DefaultBCTorchRLModule
from ray.rllib.algorithms.cql.torch.default_cql_torch_rl_module import DefaultCQLTorchRLModule
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.iql.torch.default_iql_torch_rl_module import DefaultIQLTorchRLModule
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchDeterministic,
    TorchDistribution,
    TorchSquashedGaussian,
)
from ray.rllib.core.models.base import ENCODER_OUT, Encoder, Model
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.typing import TensorType
from torch import Tensor, nn

from mosaic.core.ids import PolicyID
from mosaic.envs.spaces import MASK
from mosaic.workers.rllib.config.options import model_settings
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.config.support import MASKLESS, no_masks
from mosaic.workers.rllib.env.encoding import OBSERVATION, STATE, own_part

if TYPE_CHECKING:  # bases of the classes below
    _AnyModule = TorchRLModule
    _PpoModule = DefaultPPOTorchRLModule
    _AppoModule = DefaultAPPOTorchRLModule
    _DqnModule = DefaultDQNTorchRLModule
else:
    _AnyModule = _PpoModule = _AppoModule = _DqnModule = object

Batch: TypeAlias = dict[str, Any]  # inputs or outputs of a module: tensors by column, or dictionaries of them

_ALSO = {
    "dqn": ("double_q", "dueling", "epsilon", "num_atoms", "v_min", "v_max"),
    "sac": ("twin_q",),
    "tqc": ("twin_q", "n_quantiles", "n_critics", "top_quantiles_to_drop_per_net"),
    "cql": ("twin_q", "num_actions"),
    "iql": ("twin_q",),
}
_NEVER = -1e9  # as a logit: zero probability, and still a finite number
ILLEGAL = 0.9 * _NEVER  # logits at or below it belong to illegal actions


def module_spec(setup: RllibSetup, policy: PolicyID, own: type[TorchRLModule] | None = None) -> RLModuleSpec:
    """Return a module's spec without spaces: RLlib takes those of the agents that are mapped to the policy.

    `own` is a user's class, instead of RLlib's default.
    """
    options = setup.options_of(policy)
    settings = model_settings(options)
    if setup.roles.plan.central:
        settings["vf_share_layers"] = True  # the actor's encoder alone: the central critic has its own
    if setup.masked and setup.algorithm in MASKLESS:
        raise no_masks(setup.algorithm, setup.spec.env_id)
    config = asdict(DefaultModelConfig(**settings))
    config |= options.model_dump(mode="json", include=set(_ALSO.get(setup.algorithm, ())))
    return RLModuleSpec(module_class=module_class(setup.algorithm, own), model_config=config)


def module_class(algorithm: str, own: type[TorchRLModule] | None = None) -> type[Any]:
    return _CLASSES[algorithm] if own is None else with_masks(own)


def algorithm_of(module: TorchRLModule) -> str | None:
    """Return an algorithm whose networks are of this class; None for a user's own class."""
    return next((name for name, known in _CLASSES.items() if type(module) in known.__mro__), None)


@cache
def with_masks(own: type[TorchRLModule]) -> type[TorchRLModule]:
    """Add masks and a central critic to a class derived from one of RLlib's defaults; leave any other as it is."""
    if issubclass(own, _OwnPart):
        return own
    for default, mixin in _MIXINS.items():
        if issubclass(own, default):
            return type(f"Masked{own.__name__}", (mixin, own), {"__module__": __name__})
    return own


class CentralCritic(nn.Module):
    """Value of all agents' observations. It has no memory, though the actor may."""

    def __init__(self, state: Space[object], action: Space[object], model_config: dict[str, object]) -> None:
        super().__init__()
        catalog = PPOCatalog(state, action, model_config | {"use_lstm": False, "vf_share_layers": False})
        self.encoder = catalog.actor_critic_encoder_config.base_encoder_config.build(framework="torch")
        self.head = catalog.build_vf_head(framework="torch")

    def forward(self, state: Tensor) -> Tensor:
        values: Tensor = self.head(self.encoder({Columns.OBS: state})[ENCODER_OUT])  # type: ignore[operator]
        return values.squeeze(-1)


class _OwnPart(_AnyModule):
    """Mixin that passes an RLModule's network its own part of {"observation", "action_mask", "state"}."""

    def __init__(self, *, observation_space: Space[object], **also: object) -> None:
        self._shown, self._in_parts = observation_space, isinstance(observation_space, spaces.Dict)
        super().__init__(observation_space=own_part(observation_space), **also)

    def setup(self) -> None:
        super().setup()  # type: ignore[no-untyped-call]
        self.observation_space = self._shown  # copies of the module are created from it

    def _own(self, batch: Batch) -> Batch:
        return {**batch, Columns.OBS: batch[Columns.OBS][OBSERVATION]} if self._in_parts else batch

    def _legal(self, batch: Batch) -> Tensor | None:
        """Return the mask of legal actions; None if all are legal."""
        if not self._in_parts or MASK not in batch[Columns.OBS]:
            return None
        mask: Tensor = batch[Columns.OBS][MASK]
        return mask > 0


class _MaskedActorCritic(_OwnPart, _PpoModule):
    """Mixin for PPO's networks and those derived from them. `critic` exists if agents are given a state."""

    critic: CentralCritic

    def setup(self) -> None:
        super().setup()
        shown, config = self._shown, self.model_config
        if self._central and not self.inference_only:
            assert isinstance(shown, spaces.Dict)
            assert isinstance(config, dict)
            assert self.action_space is not None
            del self.vf
            self.critic = CentralCritic(shown[STATE], self.action_space, config)

    @property
    def _central(self) -> bool:
        return isinstance(self._shown, spaces.Dict) and STATE in self._shown.spaces

    def get_non_inference_attributes(self) -> list[str]:
        return [*super().get_non_inference_attributes(), "critic"]

    def _forward(self, batch: Batch, **also: object) -> Batch:
        return self._lawful(super()._forward(self._own(batch), **also), batch)

    def _forward_train(self, batch: Batch, **also: object) -> Batch:
        return self._lawful(super()._forward_train(self._own(batch), **also), batch)

    def compute_values(self, batch: Batch, embeddings: TensorType | None = None) -> TensorType:
        if self._central:
            return self.critic(batch[Columns.OBS][STATE])
        return super().compute_values(self._own(batch), embeddings)

    def _lawful(self, answer: Batch, batch: Batch, key: str = Columns.ACTION_DIST_INPUTS) -> Batch:
        legal = self._legal(batch)
        if legal is not None:
            answer[key] = answer[key].masked_fill(~legal, _NEVER)
        return answer


class MaskedPpoModule(_MaskedActorCritic, DefaultPPOTorchRLModule):
    """Module for PPO, A2C and IMPALA."""


class _MaskedWithTarget(_MaskedActorCritic, _AppoModule):
    def forward_target(self, batch: Batch) -> Batch:
        answer: Batch = super().forward_target(self._own(batch))
        for key in answer:
            self._lawful(answer, batch, key)
        return answer


class MaskedAppoModule(_MaskedWithTarget, DefaultAPPOTorchRLModule):
    pass


class _MaskedValues(_OwnPart, _DqnModule):
    """Mixin for DQN's networks.

    Values of illegal actions are -inf: RLlib then neither explores nor bootstraps with them.
    """

    def _qf_forward_helper(self, batch: Batch, encoder: Encoder, head: Model | dict[str, Model]) -> Batch:
        answer: Batch = super()._qf_forward_helper(self._own(batch), encoder, head)
        legal = self._legal(batch)
        if legal is not None:
            answer[QF_PREDS] = answer[QF_PREDS].masked_fill(~legal, -torch.inf)
        return answer


class MaskedDqnModule(_MaskedValues, DefaultDQNTorchRLModule):
    pass


class SquashedGaussian(TorchSquashedGaussian):
    """Squashed Gaussian with a squashed mode: RLlib's own is unsquashed, which is not the action that was trained."""

    def to_deterministic(self) -> TorchDeterministic:
        return TorchDeterministic(loc=torch.tanh(torch.as_tensor(self.loc)))


class _SquashedMode(_AnyModule):
    """Mixin whose likeliest action is squashed."""

    def get_inference_action_dist_cls(self) -> type[TorchDistribution]:
        if isinstance(self.action_space, spaces.Box):
            return SquashedGaussian
        own: type[TorchDistribution] = super().get_inference_action_dist_cls()
        return own


class SquashedSacModule(_SquashedMode, DefaultSACTorchRLModule):
    pass


class SquashedTqcModule(_SquashedMode, DefaultTQCTorchRLModule):
    pass


class SquashedCqlModule(_SquashedMode, DefaultCQLTorchRLModule):
    pass


class SquashedIqlModule(_SquashedMode, DefaultIQLTorchRLModule):
    pass


_MIXINS: dict[type[TorchRLModule], type[Any]] = {
    DefaultAPPOTorchRLModule: _MaskedWithTarget,  # derived from the next
    DefaultPPOTorchRLModule: _MaskedActorCritic,
    DefaultDQNTorchRLModule: _MaskedValues,
}
_CLASSES: dict[str, type[TorchRLModule]] = {
    "ppo": MaskedPpoModule,
    "a2c": MaskedPpoModule,
    "impala": MaskedPpoModule,
    "appo": MaskedAppoModule,
    "dqn": MaskedDqnModule,
    "sac": SquashedSacModule,
    "tqc": SquashedTqcModule,
    "bc": DefaultBCTorchRLModule,
    "marwil": MaskedPpoModule,
    "cql": SquashedCqlModule,
    "iql": SquashedIqlModule,
}
