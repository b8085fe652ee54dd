"""User-defined wrappers: `python:module:factory`."""

from __future__ import annotations

import inspect

from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.core.user_code import PREFIX, load_code
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.transform import Named
from mosaic.envs.wrappers.kind import WrapperKind


class UserWrapperOptions(Options):
    code: str = Field("", description="MODULE:FACTORY; the factory is called with the Env and returns an Env.")


def _make(env: Env, options: UserWrapperOptions) -> Env:
    reference = f"{PREFIX}{options.code}"
    factory = load_code(reference)
    if not callable(factory):
        raise InputError(f"{reference} is a {type(factory).__name__}, not a function or class that wraps an Env.")
    try:
        inspect.signature(factory).bind(env)
    except (TypeError, ValueError) as error:
        raise InputError(f"{reference} must take one argument, the Env to wrap: {error}.") from error
    made = factory(env)
    if not isinstance(getattr(made, "spec", None), EnvSpec):
        raise InputError(
            f"{reference} returned a {type(made).__name__}. It must return a Mosaic Env, for example a "
            "mosaic.envs.transform.Transform."
        )
    kept: Env = made if made.spec.facts.config == env.spec.facts.config else Named(made, env.spec.facts)
    return kept


kind = WrapperKind(
    usage="python:MODULE:FACTORY",
    help="Your own wrapper: a callable that takes the Env and returns an Env.",
    make=_make,
    options=UserWrapperOptions,
    first="code",
)
