"""Type aliases for the ids of agents, policies and environments."""

from __future__ import annotations

from typing import TypeAlias

AgentID: TypeAlias = str  # an actor in the env: player_0, archer_1
PolicyID: TypeAlias = str  # a policy reference such as "random" or "minimax:depth=4"
EnvID: TypeAlias = str  # family/name, or python:module:factory
