"""Models of Stable-Baselines3, made from options."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box, Space

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.core.user_code import load_code
from mosaic.workers.sb3.config.algorithms import ALGORITHMS, network_kind
from mosaic.workers.sb3.config.field_types import number_after
from mosaic.workers.sb3.config.options import Sb3Options, algorithm_arguments, options_of, policy_arguments

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

_SEEDS = 2**32  # numpy's old generator, which SB3 seeds, takes no others


def model_seed(seed: int) -> int:
    """Return the seed of a run as SB3 takes it: the same number, if it is not too large."""
    return seed if seed < _SEEDS else child_seed(seed, "sb3") % _SEEDS


def make_model(
    algorithm: str, options: Sb3Options, env: VecEnv, agent: str, space: Space[Any], *, seed: int
) -> BaseAlgorithm:
    """Return a new model; `space` is the agent's observation as the env has it."""
    kind = ALGORITHMS[algorithm].load()
    arguments = constructor_arguments(algorithm, options, env.action_space)
    policy = network_kind(algorithm, agent, space)
    made: BaseAlgorithm = kind(policy, env, seed=model_seed(seed), device=options.device or "cpu", **arguments)
    return made


def make_idle_model(
    algorithm: str,
    options: Sb3Options,
    agent: str,
    spaces: tuple[Space[Any], Space[Any]],
    *,
    seed: int | None = None,
    slots: int = 1,
) -> BaseAlgorithm:
    """Return a model without env, for a policy that acts and does not learn."""
    from stable_baselines3.common.preprocessing import is_image_space_channels_first
    from stable_baselines3.common.vec_env import VecTransposeImage

    kind, (seen, act) = ALGORITHMS[algorithm].load(), spaces
    arguments = constructor_arguments(algorithm, options, act) | {"_init_setup_model": False}
    if "buffer_size" in arguments:
        arguments["buffer_size"] = slots
    policy = network_kind(algorithm, agent, seen)
    made: Any = kind(policy, None, seed=None if seed is None else model_seed(seed), device="cpu", **arguments)
    picture = isinstance(seen, Box) and policy.startswith("Cnn") and not is_image_space_channels_first(seen)
    made.observation_space = VecTransposeImage.transpose_space(seen) if picture else seen  # type: ignore[arg-type]
    made.action_space, made.n_envs = act, slots
    made.env = SimpleNamespace(action_space=act, seed=lambda seed: None)  # SAC looks there for the size of actions
    made._setup_model()
    made.env = None
    idle: BaseAlgorithm = made
    return idle


def try_model(
    algorithm: str, options: Sb3Options, agent: str, spaces: tuple[Space[Any], Space[Any]], slots: int
) -> None:
    """Raise InputError with SB3's own words if it refuses these options."""
    try:
        make_idle_model(algorithm, options, agent, spaces, slots=slots)
    except (AssertionError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"Stable-Baselines3's {algorithm} refuses these options: {error}") from error


def constructor_arguments(algorithm: str, options: Sb3Options, action_space: Space[Any]) -> dict[str, Any]:
    """Return every option as the argument of SB3's constructor that it stands for."""
    kind = ALGORITHMS[algorithm].load()
    defaults = options_of(algorithm).model_fields
    given: dict[str, Any] = {}
    for argument in algorithm_arguments(kind):
        value = getattr(options, argument.name)
        given[argument.name] = _value(argument.name, value, argument.default, action_space)
    network: dict[str, Any] = {}
    for argument in policy_arguments(kind):
        value = getattr(options, argument.name)
        if value != defaults[argument.name].default:  # the policy's own defaults depend on its class
            network[argument.name] = _network_value(argument.name, value)
    return {**given, "policy_kwargs": network or None}


def _value(name: str, value: Any, default: Any, action_space: Space[Any]) -> Any:
    if value is None:
        return None
    if name == "action_noise":
        return _noise(value, action_space)
    if name.endswith("_class"):
        return load_code(value)
    if name.endswith("_kwargs"):
        return dict(value)
    if isinstance(value, str) and value.startswith("linear"):
        from stable_baselines3.common.utils import LinearSchedule

        start = number_after(value, "schedule")
        if start is None and default is None:
            raise InputError(f"training.params.{name}: 'linear' needs a number here, such as linear_0.2.")
        return LinearSchedule(start=float(default if start is None else start), end=0.0, end_fraction=1.0)
    return tuple(value) if isinstance(value, list) else value


def _noise(text: str, action_space: Space[Any]) -> Any:
    from stable_baselines3.common import noise

    assert isinstance(action_space, Box)
    deviation = number_after(text, "noise")
    assert deviation is not None
    mean, sigma = np.zeros(action_space.shape), np.full(action_space.shape, deviation)
    if text.startswith("normal"):
        return noise.NormalActionNoise(mean, sigma)
    return noise.OrnsteinUhlenbeckActionNoise(mean, sigma)


def _network_value(name: str, value: Any) -> Any:
    import torch

    match name:
        case "activation_fn":
            return getattr(torch.nn, value)
        case "optimizer_class":
            return getattr(torch.optim, value)
    return dict(value) if isinstance(value, Mapping) else value
