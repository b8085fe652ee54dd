"""Registry of wrappers, including the user's own (`python:module:factory`), and their application by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from pydantic import Field

from mosaic.core.errors import InputError, unknown
from mosaic.core.reference import Options, parse_options, split_reference
from mosaic.core.user_code import PREFIX, load_code
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.wrappers.images import GRAYSCALE, RESIZE
from mosaic.envs.wrappers.limits import CLIP_REWARD, TIME_LIMIT
from mosaic.envs.wrappers.observation import DISCRETISE, FLATTEN, FRAME_STACK, NORMALISE
from mosaic.envs.wrappers.transform import Named, WrapperKind


class UserWrapperOptions(Options):
    code: str = Field("", description="MODULE:FACTORY; the factory is called with the Env and returns an Env.")


def _make_user(env: Env, options: UserWrapperOptions) -> Env:
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
            "mosaic.plugins.Transform."
        )
    kept: Env = made if made.spec.facts.config == env.spec.facts.config else Named(made, env.spec.facts)
    return kept


USER = WrapperKind(
    usage="python:MODULE:FACTORY",
    help="Your own wrapper: a callable that takes the Env and returns an Env.",
    make=_make_user,
    options=UserWrapperOptions,
    first="code",
)


WRAPPERS: Mapping[str, WrapperKind] = {
    "clip_reward": CLIP_REWARD,
    "discretise": DISCRETISE,
    "flatten": FLATTEN,
    "frame_stack": FRAME_STACK,
    "grayscale": GRAYSCALE,
    "normalise": NORMALISE,
    "python": USER,
    "resize": RESIZE,
    "time_limit": TIME_LIMIT,
}


def parse_wrapper(reference: str) -> tuple[WrapperKind, Options]:
    """Return the kind and its validated options; nothing is wrapped yet."""
    name, text = split_reference(reference)
    if name not in WRAPPERS:
        raise unknown("wrapper", name, WRAPPERS)
    kind = WRAPPERS[name]
    return kind, parse_options(reference, text, kind.options, kind.first)


def wrap(env: Env, references: Sequence[str]) -> Env:
    """Wrap the env, innermost first; `spec.facts` stays the env's own, since `make_env` records the wrappers."""
    for kind, options in [parse_wrapper(reference) for reference in references]:  # parse all names before wrapping
        env = kind.make(env, options)
    return env
