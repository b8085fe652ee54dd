"""Registry of wrappers, and their application by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mosaic.core.errors import unknown
from mosaic.core.reference import parse_options, split_reference
from mosaic.envs.env import Env
from mosaic.envs.wrappers import clip_reward, discretise, flatten, frame_stack, grayscale, normalise, resize, time_limit
from mosaic.envs.wrappers import user as own
from mosaic.envs.wrappers.kind import WrapperKind

WRAPPERS: Mapping[str, WrapperKind] = {
    "clip_reward": clip_reward.kind,
    "discretise": discretise.kind,
    "flatten": flatten.kind,
    "frame_stack": frame_stack.kind,
    "grayscale": grayscale.kind,
    "normalise": normalise.kind,
    "python": own.kind,
    "resize": resize.kind,
    "time_limit": time_limit.kind,
}


def parse_wrapper(reference: str) -> tuple[WrapperKind, Any]:
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
