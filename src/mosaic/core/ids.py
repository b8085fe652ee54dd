"""The names that things have."""

from __future__ import annotations

from typing import TypeAlias

AgentID: TypeAlias = str  # who acts in the env: player_0, archer_1
PolicyID: TypeAlias = str  # which brain answers: a policy reference such as "random" or "minimax:depth=4"
EnvID: TypeAlias = str  # family/name, or python:module:factory
