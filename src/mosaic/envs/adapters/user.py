"""User-defined environments: `python:module:factory`."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypedDict, cast

import gymnasium
from pettingzoo import AECEnv, ParallelEnv

from mosaic.config.sections import EnvironmentConfig, Incentives
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import EnvID
from mosaic.core.user_code import load_code
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.adapters.pettingzoo import from_pettingzoo
from mosaic.envs.adapters.upstream import draw_without_screen
from mosaic.envs.env import Env, EnvFacts, EnvSpec
from mosaic.envs.wrappers.transform import Named

_RGB = "rgb_array"  # the render mode of pictures


def make_own(config: EnvironmentConfig) -> Env:
    """Adapt what the factory makes: a Gymnasium env, a PettingZoo AEC or Parallel env, or a Mosaic Env."""
    draw_without_screen()
    factory = load_code(config.id)
    if not callable(factory):
        raise InputError(f"{config.id} is a {type(factory).__name__}, not a function or class that makes an env.")
    options = dict(config.options)
    info_masks = bool(options.pop("info_masks", False))
    options |= drawing_options(factory, options)
    check_options(factory, config.id, options, config.options)
    try:
        raw = factory(**options)
    except MosaicError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{config.id} raised {type(error).__name__}: {error} ({_place(error)}). "
            "It comes from your own code, which creates the env: fix it there."
        ) from error
    return adapt(raw, EnvFacts(config), info_masks=info_masks)


def check_options(
    factory: Callable[..., object], name: str, options: Mapping[str, object], given: Mapping[str, object]
) -> None:
    """Raise InputError if a class or function does not take these options; the text shows those that were given."""
    signature = inspect.signature(factory)
    try:
        signature.bind(**options)
    except TypeError as error:
        named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        known = [each for each in signature.parameters.values() if each.kind in named]
        missing = [each.name for each in known if each.default is each.empty and each.name not in options]
        advice = (
            f"Type: {' '.join(f'--set environment.options.{each}=VALUE' for each in missing)}"
            if missing
            else f"It takes: {', '.join(each.name for each in known) or 'none'}."
        )
        raise InputError(f"{name} does not take these options {dict(given)}: {error}. {advice}") from error


def drawing_options(factory: Callable[..., object], options: Mapping[str, object]) -> dict[str, object]:
    """Return the option with which a class or function makes an env that can be drawn; none if it does not take it.

    A render mode that was given, or that is a default other than None, is kept. So is None if the class declares render
    modes without "rgb_array".
    """
    taken = inspect.signature(factory).parameters.get("render_mode")
    if taken is None or "render_mode" in options or taken.kind is inspect.Parameter.POSITIONAL_ONLY:
        return {}
    if taken.default not in (None, inspect.Parameter.empty):
        return {}
    metadata = getattr(factory, "metadata", None)
    declared = metadata.get("render_modes") if isinstance(metadata, Mapping) else None
    if declared is None or metadata is gymnasium.Env.metadata or _RGB in declared:
        return {"render_mode": _RGB}
    return {}


class _Declared(TypedDict):
    incentives: Incentives
    shared_reward: bool | None


def _declared(env_id: EnvID, metadata: Mapping[str, object]) -> _Declared:
    """Return what the metadata of an env with several agents says about their rewards; raise for contradictions."""
    incentives, shared = metadata.get("incentives"), metadata.get("shared_reward")
    said = f'{env_id}: metadata["incentives"] is {incentives!r}'
    if incentives not in (None, "cooperative", "competitive", "mixed"):
        raise InputError(f"{said}. It should be 'cooperative', 'competitive' or 'mixed'.")
    if shared not in (None, True, False):
        raise InputError(f'{env_id}: metadata["shared_reward"] is {shared!r}. It should be True or False.')
    if incentives == "cooperative" and metadata.get("competitive"):
        raise InputError(f'{said} and metadata["competitive"] is True. Leave one of them out.')
    if shared and (incentives in ("competitive", "mixed") or metadata.get("competitive")):
        raise InputError(f"{env_id}: agents that share one reward are cooperative. Correct its metadata.")
    if incentives is None:
        incentives = "cooperative" if shared else "unknown"
    return {"incentives": cast(Incentives, incentives), "shared_reward": shared}


def _place(error: BaseException) -> str:
    """Return the innermost line of the traceback as file:line, the form that editors open, in any file."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return f"{innermost.filename}:{innermost.lineno}"


def adapt(raw: object, facts: EnvFacts, *, info_masks: bool = False) -> Env:
    """Make an Env of what a factory returned.

    `metadata["competitive"] = True` of a PettingZoo env means that the highest return wins, and
    `metadata["hidden_information"] = True` that its agents do not observe everything that matters.
    `metadata["incentives"]` and `metadata["shared_reward"]` are shown to users.
    """
    if isinstance(raw, gymnasium.Env):
        for name in ("observation_space", "action_space"):
            if not isinstance(space := getattr(raw, name, None), gymnasium.Space):
                what = "is missing" if space is None else f"is of type {type(space).__name__}"
                raise InputError(
                    f"{facts.config.id}: its {name} {what}. Set it in the class or in __init__ to a space of "
                    f"Gymnasium, for example {name} = gymnasium.spaces.Discrete(4)."
                )
        return GymnasiumEnv(raw, facts, info_masks=info_masks)
    if isinstance(raw, ParallelEnv | AECEnv):
        said = getattr(raw, "metadata", {})
        facts = replace(
            facts,
            turn_based=isinstance(raw, AECEnv),
            competitive=bool(said.get("competitive", False)),
            hidden_information=bool(said.get("hidden_information", False)),
            **_declared(facts.config.id, said),
        )
        return from_pettingzoo(raw, facts)
    if isinstance(getattr(raw, "spec", None), EnvSpec):
        return Named(cast(Env, raw), facts)
    raise InputError(
        f"{facts.config.id} returned a {type(raw).__name__}. It must return a gymnasium.Env, a pettingzoo AECEnv or "
        "ParallelEnv, or a Mosaic Env (see mosaic.plugins.Env)."
    )
