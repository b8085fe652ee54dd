"""Env wrappers by name: `time_limit:max_steps=200` around any Env."""

from __future__ import annotations

from mosaic.envs.wrappers.kind import WrapperKind
from mosaic.envs.wrappers.registry import WRAPPERS, parse_wrapper, wrap

__all__ = ["WRAPPERS", "WrapperKind", "parse_wrapper", "wrap"]
