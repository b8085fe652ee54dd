"""Options of each algorithm: arguments of its constructor and of its policy's, as the installed version has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.workers.sb3.config.algorithms import ALGORITHMS
from mosaic.workers.sb3.config.field_types import option_type

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

# Arguments that Mosaic sets from the env, the seed, `resources` and `telemetry`; those of a policy that others set.
_SET_BY_MOSAIC = frozenset(
    {"policy", "env", "policy_kwargs", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model"}
)
_SET_BY_ALGORITHM = frozenset(
    {"observation_space", "action_space", "lr_schedule", "use_sde", "features_extractor_class"}
)

_POSITIVE: Mapping[str, Any] = {"ge": 1, "le": 1_000_000_000}
_SHARE: Mapping[str, Any] = {"ge": 0, "le": 1}
_WEIGHT: Mapping[str, Any] = {"ge": 0, "le": 1000}
_ABOVE: Mapping[str, Any] = {"gt": 0, "le": 1e9}
_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("n_steps", "n_epochs", "buffer_size", "target_update_interval"), _POSITIVE),
    **dict.fromkeys(("policy_delay", "n_critics", "n_quantiles", "lstm_hidden_size", "stats_window_size"), _POSITIVE),
    **dict.fromkeys(("gamma", "gae_lambda", "exploration_fraction", "exploration_initial_eps"), _SHARE),
    **dict.fromkeys(("exploration_final_eps", "tau", "batch_norm_momentum"), _SHARE),
    **dict.fromkeys(("vf_coef", "target_policy_noise", "target_noise_clip", "clip_mean"), _WEIGHT),
    **dict.fromkeys(("target_kl", "rms_prop_eps", "batch_norm_eps", "max_grad_norm"), _ABOVE),
    "batch_size": {"ge": 2, "le": 1_000_000_000},  # advantages of one row cannot be normalised
    "n_lstm_layers": {"ge": 1, "le": 8},
    "learning_starts": {"ge": 0, "le": 1_000_000_000},
    "gradient_steps": {"ge": -1, "le": 1_000_000},
    "sde_sample_freq": {"ge": -1, "le": 1_000_000_000},
    "renorm_warmup_steps": {"ge": 0, "le": 1_000_000_000},
    "top_quantiles_to_drop_per_net": {"ge": 0, "le": 1000},
    "log_std_init": {"ge": -20, "le": 2},
}
_SHAPES = frozenset(
    {"n_critics", "n_quantiles", "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "batch_norm"}
    | {"full_std", "use_sde", "buffer_size", "optimize_memory_usage", "share_features_extractor", "optimizer_class"}
    | {"use_rms_prop"}
)
_BASIC = frozenset(
    {"learning_rate", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range", "ent_coef", "net_arch"}
    | {"buffer_size", "learning_starts", "train_freq", "target_update_interval", "exploration_fraction"}
    | {"exploration_final_eps"}
)
_UNDOCUMENTED: Mapping[str, str] = {
    "rollout_buffer_class": "Rollout buffer class to use.",
    "rollout_buffer_kwargs": "Keyword arguments of the rollout buffer.",
    "use_sde": "Whether to use generalized State Dependent Exploration (gSDE) instead of action noise exploration.",
    "sde_sample_freq": "Sample a new noise matrix every n steps when using gSDE; -1: at the start of a rollout.",
    "policy_delay": "Update the policy once in this many updates of the critic.",
}


class Sb3Options(Section):
    """Options of the worker itself; those of an algorithm follow."""

    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between metric events; None: about two hundred events in all."
    )
    compiled_env: bool = Field(
        False,
        description="Step the env's compiled twin, where it has one: many times faster, with other random episodes "
        "than SB3's own vector env has.",
    )
    normalize_observations: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Scale by running mean and deviation (SB3's VecNormalize), saved with the policy."
    )
    normalize_rewards: Annotated[bool, SHAPES_CHECKPOINTS] = Field(
        False, description="Scale by the running deviation of the discounted return (SB3's VecNormalize)."
    )
    device: str | None = Field(
        None,
        pattern=r"^(cpu|cuda(:[0-9]{1,3})?)$",
        description="Device of SB3's networks: cpu, cuda or cuda:N. None: the CPU, or CUDA if resources.num_gpus is 1.",
    )


@cache
def options_of(algorithm: str) -> type[Sb3Options]:
    """Return the model of an algorithm's options, made from the signatures of the installed version."""
    found = ALGORITHMS[algorithm]
    kind = found.load()
    fields: dict[str, Any] = {}
    for owner, arguments in ((kind, algorithm_arguments(kind)), (_policy_of(kind), policy_arguments(kind))):
        texts = _texts(owner)
        for argument in arguments:
            fields[argument.name] = _field(argument, texts)
    name = f"Sb3{found.name}Options"
    made: type[Sb3Options] = create_model(
        name, __base__=Sb3Options, __module__=__name__, __doc__=f"{found.name} of {found.package}.", **fields
    )
    return made


def algorithm_arguments(kind: type[BaseAlgorithm]) -> Iterator[Parameter]:
    """Yield the arguments of an algorithm's constructor that are options."""
    return _plain(kind, _SET_BY_MOSAIC)


def policy_arguments(kind: type[BaseAlgorithm]) -> Iterator[Parameter]:
    """Yield the arguments of the policy's constructor (`policy_kwargs`) that are options."""
    return _plain(_policy_of(kind), _SET_BY_ALGORITHM)


def _plain(owner: type, left_out: frozenset[str]) -> Iterator[Parameter]:
    for argument in signature(owner).parameters.values():
        if argument.name not in left_out and option_type(argument) is not None:
            yield argument


def _policy_of(kind: type[BaseAlgorithm]) -> type:
    return next(iter(kind.policy_aliases.values()))


def _field(argument: Parameter, texts: Mapping[str, str]) -> tuple[Any, Any]:
    found = option_type(argument)
    assert found is not None
    name = argument.name
    text = texts.get(name) or _UNDOCUMENTED.get(name) or f"Argument {name} of the constructor."
    parts = [part[0].upper() + part[1:].rstrip(" .") for part in (text, found.remark) if part]
    type_ = Annotated[found.type, SHAPES_CHECKPOINTS] if name in _SHAPES else found.type
    type_ = Annotated[type_, BASIC] if name in _BASIC else type_
    bounds = dict(_BOUNDS.get(name, {}))
    return type_, Field(found.default, description=". ".join(parts) + ".", **bounds)


def _texts(owner: type) -> dict[str, str]:
    """Return what the class's docstring says about each argument."""
    found: dict[str, str] = {}
    for block in re.split(r"^:", cleandoc(owner.__doc__ or ""), flags=re.MULTILINE):
        match = re.match(r"param\s+(?:[\w.\[\], ]+\s)?(\w+):\s*(.*)", block, flags=re.DOTALL)
        if match:
            found[match[1]] = re.sub(r"\s+", " ", match[2]).replace("``", "").strip()
    return found
