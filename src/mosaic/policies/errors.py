"""Errors of policies while they play."""

from __future__ import annotations

from mosaic.core.errors import MosaicError


class PolicyError(MosaicError):
    """Failure of a policy to return an action."""


class PolicyTimeoutError(PolicyError):
    """Policy that exceeded its time limit and was stopped."""
