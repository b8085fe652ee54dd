"""How a policy fails while it plays."""

from __future__ import annotations

from mosaic.core.errors import MosaicError


class PolicyError(MosaicError):
    """A policy could not answer."""


class PolicyTimeoutError(PolicyError):
    """A policy did not answer in time and was cut off."""
