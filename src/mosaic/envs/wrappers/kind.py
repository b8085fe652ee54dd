"""Description of a kind of wrapper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mosaic.core.reference import Options
from mosaic.envs.env import Env


@dataclass(frozen=True, slots=True)
class WrapperKind:
    """Name, options and factory of a wrapper, as `NAME:…` in `environment.wrappers` selects it."""

    usage: str  # frame_stack[:num=4]
    help: str  # one line for lists
    make: Callable[[Env, Any], Env]  # second argument: an instance of `options`
    options: type[Options] = Options
    first: str | None = None  # the option that may be given without its name: python:MODULE:FACTORY
