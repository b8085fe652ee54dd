"""Options that RLlib honours for single policies: per-module overrides that its learners read, and module specs.

Options that its connectors, replay buffers, env runners or training loops read are the run's: an override of
`gamma` in PPO, for example, would change nothing, since advantages are computed for all modules at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError
from mosaic.core.ids import PolicyID
from mosaic.workers.api import PolicyOptions
from mosaic.workers.rllib.config.options import (
    ModelOptions,
    RllibOptions,
    Settings,
    model_settings,
    training_settings,
)

if TYPE_CHECKING:  # imports numba
    from mosaic.learners.agent_roles import TrainingPlan

_CLIPPING = ("grad_clip", "grad_clip_by")
_VALUE = ("vf_loss_coeff", "entropy_coeff")
_KL = ("use_kl_loss", "kl_coeff", "kl_target")
_VTRACE = ("gamma", "vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold")
_TARGET = ("target_network_update_freq", "tau")

_LEARNING: Mapping[str, tuple[str, ...]] = {
    "ppo": ("lr", *_CLIPPING, *_VALUE, *_KL, "use_critic", "clip_param", "vf_clip_param"),
    "a2c": ("lr", *_CLIPPING, *_VALUE),
    "impala": ("lr", *_CLIPPING, *_VALUE, *_VTRACE),
    "appo": ("lr", *_CLIPPING, *_VALUE, *_VTRACE, *_KL, *_TARGET, "clip_param"),
    "dqn": ("lr", *_CLIPPING, *_TARGET, "epsilon", "double_q", "v_min", "v_max", "td_error_loss_fn"),
    "sac": ("actor_lr", "critic_lr", "alpha_lr", *_CLIPPING, *_TARGET, "initial_alpha", "target_entropy"),
}
_ALSO_NETWORK: Mapping[str, tuple[str, ...]] = {"dqn": ("dueling", "num_atoms"), "sac": ("twin_q",)}
_ONE_ALGORITHM = (
    "RLlib has one loss and one training loop for all policies of a run. Train the policies one after another: each in "
    "a run of its own, with the other as a fixed policy (--agent NAME=run:RUN)."
)

POLICY_OPTIONS: Mapping[str, PolicyOptions] = {
    algorithm: PolicyOptions(
        options=options,
        network=(*ModelOptions.model_fields, *_ALSO_NETWORK.get(algorithm, ())),
        one_algorithm=_ONE_ALGORITHM,
    )
    for algorithm, options in _LEARNING.items()
}


def module_overrides(options: RllibOptions, own: RllibOptions) -> Settings:
    """Return what RLlib's configuration has otherwise for a policy: `algorithm_config_overrides_per_module`."""
    usual = training_settings(options)
    return {name: value for name, value in training_settings(own).items() if value != usual[name]}


def check_shared_parts(options: RllibOptions, own: Mapping[PolicyID, RllibOptions], plan: TrainingPlan) -> None:
    """Raise InputError if policies that share a part of their networks have networks of their own."""
    if len(plan.names) == 1 or not (plan.central or options.shared_encoder):
        return
    shared = "shared_value_function: the policies share one critic" if plan.central else "shared_encoder: they share it"
    for name, each in own.items():
        if model_settings(each) != model_settings(options):
            raise InputError(
                f"training.policies.{name}.network cannot be honoured with {shared}, and its layers are those of "
                "training.params. Leave one of them out."
            )
