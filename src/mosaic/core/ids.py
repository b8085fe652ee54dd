"""Type aliases that all packages share: ids, and values of JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

AgentID: TypeAlias = str  # an actor in the env: player_0, archer_1
PolicyID: TypeAlias = str  # a policy reference such as "random" or "minimax:depth=4"
EnvID: TypeAlias = str  # family/name, or python:module:factory

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"  # what json.dumps takes
JsonObject: TypeAlias = dict[str, Json]  # a document; one that is only read is a Mapping[str, Json]
