"""Game-tree search for small board games: the policy `minimax[:depth=N]`."""

from __future__ import annotations

from mosaic.policies.minimax.policy import kind

__all__ = ["kind"]
